"""Runs the checks of a project on published rows, without writing to the checked tables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from dagster import AssetChecksDefinition, AssetCheckSeverity, AssetSpec, DagsterInstance, build_resources
from pyiceberg.table.refs import MAIN_BRANCH

from floe_core.errors import USER_ERROR, ConfigurationError, FloeStorageError, RefNotFoundError
from floe_dagster.assets.keys import keys_by_table
from floe_dagster.assets.user_code import mistake_in_check
from floe_dagster.engine import ProjectEngine
from floe_dagster.gate.checker import Checker, CheckPlan
from floe_dagster.gate.checks import PUBLISHED, expand_checks
from floe_dagster.gate.evaluation import CheckedRows, evaluate
from floe_dagster.gate.publication import plan_of
from floe_dagster.gate.results import CheckRecord, plain_figures
from floe_dagster.io.manager import IcebergIOManager
from floe_dagster.telemetry.causes import exit_code_of
from floe_dagster.tenants import Scope, own_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dagster import AssetCheckResult, AssetKey

    from floe_core.schemas import CompiledArtifacts
    from floe_dagster.gate.checks import CheckOutcome, TableCheck
    from floe_dagster.runs.pipeline import Pipeline
    from floe_iceberg.manager import IcebergTableManager

_IO_MANAGER = "io_manager"


class CheckedState(StrEnum):
    """Result of a check on published rows."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    ERROR = "error"
    NOT_EVALUATED = "not evaluated"


class TableState(StrEnum):
    """State of a table after its checks."""

    CHECKED = "checked"
    NO_CHECKS = "no checks"
    MISSING = "does not exist yet"


@dataclass(frozen=True)
class CheckedCheck:
    """Result of one check.

    Attributes:
        check: Its name.
        state: Its result.
        severity: ``error`` or ``warn``.
        blocking: Whether a failure prevents publication in a run.
        description: The expectation.
        figures: Measured values by name.
        seconds: Duration; checks evaluated in one pass have the same.
        reason: Why it was not evaluated, or the error that it raised.
        error: Class of the error.
    """

    check: str
    state: CheckedState
    severity: str = "error"
    blocking: bool = True
    description: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    reason: str | None = None
    error: str | None = None

    @property
    def passed(self) -> bool | None:
        """Whether it passed; None if it was not evaluated."""
        return None if self.state is CheckedState.NOT_EVALUATED else self.state is CheckedState.PASSED

    @property
    def exit_code(self) -> int:
        """Exit code of a command with this result."""
        if self.state is CheckedState.ERROR:
            return exit_code_of(self.error)
        return USER_ERROR if self.state is CheckedState.FAILED else 0


@dataclass(frozen=True)
class CheckedTable:
    """Results of the checks of one table.

    Attributes:
        table: The table.
        asset: The asset that writes the table; None if no asset does.
        state: Whether it was checked.
        partition: The partition that was checked; None for the whole table.
        checks: Its checks.
        ref: Branch or tag that was checked.
        snapshot_id: The snapshot that was checked.
    """

    table: str
    asset: str | None
    state: TableState = TableState.CHECKED
    partition: str | None = None
    checks: tuple[CheckedCheck, ...] = ()
    ref: str = MAIN_BRANCH
    snapshot_id: int | None = None

    def records(self) -> list[CheckRecord]:
        """Return the results as rows of the check results table."""
        return [
            CheckRecord(
                table_name=self.table,
                check_name=check.check,
                severity=check.severity,
                blocking=check.blocking,
                passed=check.passed,
                state=check.state.value,
                asset=self.asset,
                partition_key=self.partition,
                figures={**check.figures, **({"reason": check.reason} if check.reason else {})},
                seconds=check.seconds,
                ref=self.ref,
                snapshot_id=self.snapshot_id,
            )
            for check in self.checks
        ]


def check_published(
    pipeline: Pipeline,
    select: str = "*",
    *,
    ref: str | None = None,
    partition: str | None = None,
    instance: DagsterInstance | None = None,
) -> list[CheckedTable]:
    """Run the checks of assets on the current rows of their tables, one table at a time.

    Args:
        pipeline: The project's assets, for one tenant if the project has tenants.
        select: Selection of assets, as for ``Pipeline.select``.
        ref: Branch or tag to check; None for main.
        partition: Key of the partition to check; None for all rows.
        instance: The instance with the dynamic partitions.

    Raises:
        ConfigurationError: The selection is empty, or no selected asset has the partition.
    """
    plans = _Plans(pipeline)
    keys = plans.selected(select)
    if partition is not None:
        plans.require_partition(keys, partition, instance)
    with (
        DagsterInstance.ephemeral() as ephemeral,
        build_resources(plans.resources(keys), instance=ephemeral) as resources,
    ):
        return [
            _AssetTest(plans, key, _Environment(resources, ephemeral), ref).run(
                plans.partition_of(key, partition, instance)
            )
            for key in keys
        ]


def require_ref(tables: Sequence[CheckedTable], ref: str | None) -> None:
    """Require that at least one of the tables has a branch or tag.

    Raises:
        RefNotFoundError: None of them has it.
    """
    checked = [table for table in tables if table.state is TableState.CHECKED]
    if ref is not None and checked and all(table.snapshot_id is None for table in checked):
        msg = f"None of the selected tables has a branch or tag '{ref}'."
        raise RefNotFoundError(msg, hint="List them with: floe tables branch TABLE, floe tables tag TABLE")


class _Plans:
    """The checks of a project, by asset."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._found: dict[AssetKey, list[CheckPlan]] = {}
        for check in pipeline.definitions.asset_checks or ():
            if isinstance(check, AssetChecksDefinition):
                plan = plan_of(check) or self._outside_gate(check)
                self._found.setdefault(plan.spec.key, []).append(plan)

    def _outside_gate(self, check: AssetChecksDefinition) -> CheckPlan:
        """Return the plan of a check that runs after its asset, outside a gate."""
        key = next(iter(check.check_specs)).asset_key
        if key not in self.pipeline.keys:
            return CheckPlan(AssetSpec(key), _IO_MANAGER, own=(check,))
        io_key = self.pipeline.definition(key).get_io_manager_key_for_asset_key(key)
        return CheckPlan(self.pipeline.spec(key), io_key, own=(check,))

    def of(self, key: AssetKey) -> list[CheckPlan]:
        return self._found.get(key, [])

    def selected(self, select: str) -> list[AssetKey]:
        """Return the assets of a selection, including external assets with checks."""
        foreign = keys_by_table(key for key in self._found if key not in self.pipeline.keys)
        others = [key for table, key in foreign.items() if _matches(select, table)]
        try:
            return [*others, *self.pipeline.select(select)]
        except ConfigurationError:
            if others:
                return others
            raise

    def resources(self, keys: Iterable[AssetKey]) -> dict[str, Any]:
        """Return the resources that the checks of some assets need."""
        known = self.pipeline.definitions.resources or {}
        needed = {name for key in keys for plan in self.of(key) for name in plan.resource_keys}
        return {name: known[name] for name in sorted(needed) if name in known}

    def require_partition(self, keys: Sequence[AssetKey], partition: str, instance: DagsterInstance | None) -> None:
        if any(self.partition_of(key, partition, instance) is not None for key in keys):
            return
        msg = f"No selected asset has a partition '{partition}'."
        raise ConfigurationError(msg, hint="Pass a key that floe run --partition accepts, or remove --partition.")

    def partition_of(self, key: AssetKey, partition: str | None, instance: DagsterInstance | None) -> str | None:
        definition = own_partitions(self.pipeline.spec(key).partitions_def) if key in self.pipeline.keys else None
        if partition is None or definition is None:
            return None
        return partition if partition in definition.get_partition_keys(dynamic_partitions_store=instance) else None

    def evaluated_by_asset(self, key: AssetKey) -> list[str]:
        """Return the names of the checks that an asset evaluates itself while it runs."""
        if key not in self.pipeline.keys:
            return []
        separate = {spec.name for plan in self.of(key) for spec in plan.specs()}
        return [name for name in self.pipeline.check_names(key) if name not in separate and name != PUBLISHED]


@dataclass(frozen=True)
class _Environment:
    """Opened resources, and an ephemeral instance."""

    resources: object
    instance: DagsterInstance


class _AssetTest:
    """The checks of one asset on the current rows of its table."""

    def __init__(self, plans: _Plans, key: AssetKey, environment: _Environment, ref: str | None) -> None:
        self._plans = plans
        self._pipeline = plans.pipeline
        self._key = key
        self._environment = environment
        self._ref = ref

    def run(self, partition: str | None) -> CheckedTable:
        plans, table = self._plans.of(self._key), self._pipeline.table(self._key)
        with_asset = self._plans.evaluated_by_asset(self._key)
        about = CheckedTable(table, self._key.to_user_string(), partition=partition, ref=self._ref or MAIN_BRANCH)
        if not plans and not with_asset:
            return replace(about, state=TableState.NO_CHECKS)
        skipped = [_skipped(name, "Evaluated by the asset itself during a run.") for name in with_asset]
        checks: list[CheckedCheck] = []
        for plan in plans:
            try:
                about, found = self._of_plan(plan, about)
            except FloeStorageError as err:
                # A table that cannot be read fails its own checks, not those of other tables.
                found = [_as_error(check, err) for check in _all_skipped(plan, str(err))]
            checks += found
        return replace(about, checks=(*checks, *skipped))

    def _of_plan(self, plan: CheckPlan, about: CheckedTable) -> tuple[CheckedTable, list[CheckedCheck]]:
        if not isinstance(getattr(self._environment.resources, plan.io_key, None), IcebergIOManager):
            return about, _all_skipped(plan, "The asset is not stored in an Iceberg table.")
        scope = self._scope(plan, about.partition)
        checker = Checker(plan, self._environment.resources, scope, self._environment.instance)
        if not checker.manager.table_exists(checker.table):
            return replace(about, state=TableState.MISSING), _all_skipped(plan, "The table does not exist yet.")
        head = checker.manager.load_table(checker.table).metadata.refs.get(about.ref)
        if head is None and self._ref is not None:
            return about, _all_skipped(plan, f"The table has no branch or tag '{self._ref}'.")
        about = replace(about, snapshot_id=head.snapshot_id if head else None)
        return about, [*self._declared(checker), *self._own(checker)]

    def _scope(self, plan: CheckPlan, partition: str | None) -> Scope:
        own = own_partitions(plan.spec.partitions_def)
        return Scope(self._pipeline.tenant, own, (partition,) if partition is not None else ())

    def _declared(self, checker: Checker) -> list[CheckedCheck]:
        whole = checker.scope.partitions_def is not None and not checker.scope.keys
        per_partition = [
            check
            for check in checker.plan.declared
            if whole and check.counts_rows and check.config.scope == "partition"
        ]
        due = [check for check in checker.plan.declared if check not in per_partition]
        found = {one.check: one for one in _outcomes(due, lambda: checker.declared(self._ref, due))}
        for check in per_partition:
            found[check.name] = _unevaluated(check, "It counts the rows of one partition. Pass --partition.")
        return [found[check.name] for check in checker.plan.declared]

    def _own(self, checker: Checker) -> Iterator[CheckedCheck]:
        for check in checker.plan.own:
            specs = {spec.name: spec for spec in check.check_specs}
            started = time.monotonic()
            try:
                results = checker.own(check, self._ref)
            except Exception as err:  # noqa: BLE001 - a custom check may raise anything
                root = self._pipeline.artifacts.project_root
                reason = str(err) if isinstance(err, FloeStorageError) else mistake_in_check(err, root)
                for name, spec in specs.items():
                    yield CheckedCheck(
                        name,
                        CheckedState.ERROR,
                        blocking=spec.blocking,
                        description=spec.description or "",
                        seconds=time.monotonic() - started,
                        reason=reason,
                        error=type(err).__name__,
                    )
                continue
            for result in results:
                own = specs.get(str(result.check_name))
                blocking, about = (own.blocking, own.description or "") if own else (False, "")
                yield _own_result(result, time.monotonic() - started, about, blocking=blocking)


def check_declared(
    artifacts: CompiledArtifacts, manager: IcebergTableManager, select: str = "*", *, ref: str | None = None
) -> Iterator[CheckedTable]:
    """Run the checks declared in floe.yaml, for a project without assets.

    Raises:
        ConfigurationError: No declared table matches the selection.
    """
    chosen = [name for name in artifacts.tables if _matches(select, name)]
    if not chosen:
        msg = f"No table declared in floe.yaml matches '{select}'."
        raise ConfigurationError(msg, hint=f"Declared tables: {', '.join(artifacts.tables) or 'none'}.")
    dialect = ProjectEngine.of(artifacts.compute).sql_dialect
    for name in chosen:
        checks = expand_checks(artifacts.tables[name].checks, table=name, sql_dialect=dialect)
        about = CheckedTable(name, None, ref=ref or MAIN_BRANCH)
        if not checks:
            yield replace(about, state=TableState.NO_CHECKS)
        elif not manager.table_exists(name):
            skipped = tuple(_unevaluated(check, "The table does not exist yet.") for check in checks)
            yield replace(about, state=TableState.MISSING, checks=skipped)
        else:
            yield _declared_table(manager, about, checks, ref)


def _declared_table(
    manager: IcebergTableManager, about: CheckedTable, checks: Sequence[TableCheck], ref: str | None
) -> CheckedTable:
    head = manager.load_table(about.table).metadata.refs.get(about.ref)
    if head is None and ref is not None:
        reason = f"The table has no branch or tag '{ref}'."
        return replace(about, checks=tuple(_unevaluated(check, reason) for check in checks))
    found = _outcomes(checks, lambda: evaluate(manager, checks, CheckedRows(about.table, ref)))
    return replace(about, checks=tuple(found), snapshot_id=head.snapshot_id if head else None)


def _outcomes(checks: Sequence[TableCheck], evaluated: Callable[[], list[CheckOutcome]]) -> list[CheckedCheck]:
    """Evaluate checks; an error that stops the evaluation is reported for each check."""
    try:
        outcomes = evaluated()
    except FloeStorageError as err:
        return [_as_error(_unevaluated(check, str(err)), err) for check in checks]
    return [_declared_result(outcome) for outcome in outcomes]


def _declared_result(outcome: CheckOutcome) -> CheckedCheck:
    config = outcome.check.config
    state = CheckedState.FAILED if config.severity == "error" else CheckedState.WARNED
    if outcome.passed:
        state = CheckedState.PASSED
    if outcome.error is not None:
        state = CheckedState.ERROR
    return CheckedCheck(
        outcome.check.name,
        state,
        config.severity,
        config.holds_back,
        f"{outcome.check.description}.",
        outcome.figures,
        outcome.seconds,
        str(outcome.error) if outcome.error else None,
        type(outcome.error).__name__ if outcome.error else None,
    )


def _own_result(result: AssetCheckResult, seconds: float, about: str, *, blocking: bool) -> CheckedCheck:
    severity = "warn" if result.severity is AssetCheckSeverity.WARN else "error"
    state = CheckedState.WARNED if severity == "warn" else CheckedState.FAILED
    return CheckedCheck(
        str(result.check_name),
        CheckedState.PASSED if result.passed else state,
        severity,
        blocking,
        result.description or about,
        plain_figures(result.metadata),
        seconds,
    )


def _unevaluated(check: TableCheck, reason: str) -> CheckedCheck:
    config = check.config
    return CheckedCheck(
        check.name,
        CheckedState.NOT_EVALUATED,
        config.severity,
        config.holds_back,
        f"{check.description}.",
        reason=reason,
    )


def _as_error(check: CheckedCheck, err: FloeStorageError) -> CheckedCheck:
    return replace(check, state=CheckedState.ERROR, error=type(err).__name__)


def _skipped(name: str, reason: str, *, blocking: bool = False) -> CheckedCheck:
    return CheckedCheck(name, CheckedState.NOT_EVALUATED, blocking=blocking, reason=reason)


def _all_skipped(plan: CheckPlan, reason: str) -> list[CheckedCheck]:
    own = [_skipped(spec.name, reason, blocking=spec.blocking) for check in plan.own for spec in check.check_specs]
    return [*(_unevaluated(check, reason) for check in plan.declared), *own]


def _matches(select: str, table: str) -> bool:
    return any(fnmatchcase(table, part.strip()) for part in select.split(","))
