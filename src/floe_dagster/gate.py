"""Write, audit, publish: the one step that checks a write on its branch and then publishes it.

The IO manager writes an audited asset to a branch of its own. The gate runs after it, looks at that branch, and moves
main only when no blocking check failed. It is a check itself, and blocking, so that whatever is downstream of the asset
waits until the rows are on main. On a failure the branch is kept for a look, to be published or discarded by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    DagsterEventType,
    MetadataValue,
    build_op_context,
    multi_asset_check,
)

from floe_core.errors import ConfigurationError, RefNotFoundError
from floe_dagster.asset_keys import audit_branch, origin_run_id
from floe_dagster.asset_settings import GATE_KEY
from floe_dagster.checks import NOT_EVALUATED, PUBLISHED, RETIRED, expand_checks, run_checks
from floe_dagster.inputs import InputSelection, load
from floe_dagster.io_manager import IcebergIOManager
from floe_dagster.tenants import Scope, own_partitions
from floe_iceberg.held import branches_of, discard_held, find_published, list_held, publish_held, retire_older

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dagster import AssetCheckExecutionContext, AssetChecksDefinition, AssetKey, AssetsDefinition, AssetSpec

    from floe_core.schemas import CheckConfig
    from floe_dagster.checks import CheckOutcome, TableCheck
    from floe_dagster.row_ranges import RowSelection

__all__ = ["audited", "discard_held", "failing_checks", "gate_name", "list_held", "publish_held"]

_PLAN = "floe_plan"


def gate_name(key: AssetKey) -> str:
    """Name the gate of an asset."""
    return f"{'__'.join(key.path)}__gate"


def audited(
    asset: AssetsDefinition,
    checks: Mapping[AssetKey, Sequence[CheckConfig]],
    *,
    asset_checks: Sequence[AssetChecksDefinition] = (),
) -> tuple[AssetsDefinition, list[AssetChecksDefinition]]:
    """Put a gate behind each asset that has checks.

    Args:
        asset: Writes its outputs with an ``IcebergIOManager``.
        checks: Declared checks by asset key.
        asset_checks: Checks of your own for the same assets; they become part of the gate, and see the rows that wait.

    Returns:
        The asset, which from now on writes to a branch, and the gates; use both in your definitions.
    """
    own = {key: [check for check in asset_checks if _target(check) == key] for key in asset.keys}
    keys = [key for key in asset.keys if checks.get(key) or own[key]]

    def mark(spec: AssetSpec) -> AssetSpec:
        return spec.merge_attributes(metadata={GATE_KEY: gate_name(spec.key)}) if spec.key in keys else spec

    marked = asset.map_asset_specs(mark)
    return marked, [_gate(marked, key, checks.get(key, ()), own[key]) for key in keys]


def _target(check: AssetChecksDefinition) -> AssetKey:
    targets = {spec.asset_key for spec in check.check_specs}
    if len(targets) > 1:
        names = ", ".join(spec.name for spec in check.check_specs)
        msg = f"The checks {names} look at several assets, so no single gate can hold them."
        raise ConfigurationError(msg, hint="Define one check for each asset.")
    return next(iter(targets))


def _gate(
    asset: AssetsDefinition, key: AssetKey, configs: Sequence[CheckConfig], own: Sequence[AssetChecksDefinition]
) -> AssetChecksDefinition:
    declared = expand_checks(configs, table="/".join(key.path))
    io_key = asset.get_io_manager_key_for_asset_key(key)
    plan = _Plan(asset.specs_by_key[key], io_key, tuple(declared), tuple(own))

    def gate(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Dagster refuses annotations that are text
        yield from _Audit(plan, context).run()

    # Whoever publishes by hand runs the same checks outside of a run.
    setattr(gate, _PLAN, plan)
    return multi_asset_check(
        name=gate_name(key),
        specs=plan.specs(),
        description="Checks the rows on their branch, and publishes them when they pass.",
        required_resource_keys={io_key, *(needed for check in own for needed in check.required_resource_keys)},
    )(gate)


def failing_checks(
    gate: AssetChecksDefinition, resources: object, branch: str, *, tenant: str | None, partitions: Sequence[str]
) -> list[str]:
    """Run the checks of a gate on a branch outside of any run, and name those that hold the rows back."""
    function: Any = gate.op.compute_fn
    plan: _Plan = getattr(function.decorated_fn, _PLAN)
    scope = Scope(tenant, own_partitions(plan.spec.partitions_def), tuple(partitions))
    checker = _Checker(plan, resources, scope)
    return checker.holding_back(checker.check(branch))


@dataclass(frozen=True)
class _Plan:
    """What a gate has to do, whatever the run."""

    spec: AssetSpec
    io_key: str
    declared: tuple[TableCheck, ...]
    own: tuple[AssetChecksDefinition, ...]

    def specs(self) -> list[AssetCheckSpec]:
        key = self.spec.key
        declared = [
            AssetCheckSpec(check.name, asset=key, description=f"{check.description}.", blocking=check.config.holds_back)
            for check in self.declared
        ]
        own = [spec for check in self.own for spec in check.check_specs]
        last = AssetCheckSpec(
            PUBLISHED, asset=key, description="The rows have passed their checks and are on main.", blocking=True
        )
        return [*declared, *own, last]

    @property
    def blocking_names(self) -> set[str]:
        return {spec.name for spec in self.specs() if spec.blocking}


class _HeldBackError(Exception):
    """A blocking check failed after the write had to be done again."""


class _Checker:
    """Runs the checks of a gate on a branch."""

    def __init__(self, plan: _Plan, resources: object, scope: Scope) -> None:
        self._plan = plan
        self._resources = resources
        io_manager = getattr(resources, plan.io_key)
        if not isinstance(io_manager, IcebergIOManager):
            msg = f"Asset '{plan.spec.key.to_user_string()}' has checks before its publication, and no Iceberg table."
            raise ConfigurationError(msg, hint=f"Use an IcebergIOManager as resource '{plan.io_key}'.")
        self._io = io_manager
        self._manager = io_manager.tables
        self._scope = scope
        self._table = io_manager.table_of_asset(plan.spec.key, scope.tenant)

    def check(self, ref: str | None) -> list[AssetCheckResult]:
        """Run the declared checks and the user's own on a branch, None for main."""
        rows = self._rows()
        sql = rows.sql(self._manager.load_table(self._table)) if rows is not None else None
        outcomes = run_checks(self._manager, self._table, self._plan.declared, ref=ref, rows=sql)
        own = [result for check in self._plan.own for result in self._run_own(check, ref, rows)]
        return [*(self._result(outcome) for outcome in outcomes), *own]

    def _rows(self) -> RowSelection | None:
        return self._io.rows_of_partitions(self._plan.spec, self._scope) if self._scope.keys else None

    def _run_own(
        self, check: AssetChecksDefinition, ref: str | None, rows: RowSelection | None
    ) -> list[AssetCheckResult]:
        """Call a user's own check with the rows that wait."""
        inputs = {
            name: self._input(check, name, ref, rows) for name in check.keys_by_input_name if self._takes(check, name)
        }
        names = set(check.required_resource_keys) - {self._plan.io_key}
        resources = {name: getattr(self._resources, name) for name in names}
        op: Any = check.op.compute_fn
        arguments = [build_op_context(resources=resources)] if op.has_context_arg() or resources else []
        given = check(*arguments, **inputs)
        results = [given] if isinstance(given, AssetCheckResult) else list(given)  # type: ignore[call-overload]
        [*specs] = check.check_specs
        return [
            result._replace(asset_key=self._plan.spec.key, check_name=result.check_name or specs[0].name)
            for result in results
        ]

    @staticmethod
    def _takes(check: AssetChecksDefinition, name: str) -> bool:
        return not check.node_def.input_def_named(name).dagster_type.is_nothing

    def _input(self, check: AssetChecksDefinition, name: str, ref: str | None, rows: RowSelection | None) -> object:
        key = check.keys_by_input_name[name]
        kind = check.node_def.input_def_named(name).dagster_type.typing_type
        mine = key == self._plan.spec.key
        asked = InputSelection(branch=ref if mine else None)
        return load(
            self._manager, self._io.table_of_asset(key, self._scope.tenant), kind, asked, rows if mine else None
        )

    def holding_back(self, results: Sequence[AssetCheckResult]) -> list[str]:
        """Name the checks that keep the rows from being published."""
        blocking = self._plan.blocking_names
        failed = [
            result.check_name
            for result in results
            if not result.passed and result.severity is AssetCheckSeverity.ERROR and result.check_name in blocking
        ]
        return [name for name in failed if name is not None]

    def _result(self, outcome: CheckOutcome) -> AssetCheckResult:
        severity = AssetCheckSeverity.ERROR if outcome.check.config.severity == "error" else AssetCheckSeverity.WARN
        return AssetCheckResult(
            asset_key=self._plan.spec.key,
            check_name=outcome.check.name,
            passed=outcome.passed,
            severity=severity,
            metadata=dict(outcome.figures),
            description=f"{outcome.check.description}.",
        )


class _Audit(_Checker):
    """One run of a gate."""

    def __init__(self, plan: _Plan, context: AssetCheckExecutionContext) -> None:
        partitions_def = plan.spec.partitions_def
        keys = list(context.partition_keys) if partitions_def and context.has_partition_key_range else []
        if partitions_def and not keys and context.has_partition_key:
            keys = [context.partition_key]
        super().__init__(plan, context.resources, Scope.of(partitions_def, keys))
        self._context = context

    def run(self) -> Iterator[AssetCheckResult]:
        """Check, publish, and only then report: a result that says published is true."""
        if not self._manager.table_exists(self._table):
            yield from self._nothing()
            return
        branch = audit_branch(self._plan.spec.key, self._scope.keys, self._origin())
        waiting = branches_of(self._manager.load_table(self._table), branch)
        results = self.check(waiting[-1] if waiting else None)
        published: dict[str, Any] = {}
        held: str | None = None
        if not waiting:
            published = self._already(branch)
        elif self.holding_back(results):
            held = waiting[-1]
        else:
            results, held, published = self._publish(waiting[-1], results)
        yield from results
        yield self._verdict(held, published)

    def _origin(self) -> str:
        return origin_run_id(self._context.run, self._context.instance)

    def _publish(
        self, branch: str, results: list[AssetCheckResult]
    ) -> tuple[list[AssetCheckResult], str | None, dict[str, Any]]:
        latest, last = results, branch

        def audit(redone: str) -> None:
            nonlocal latest, last
            latest, last = self.check(redone), redone
            if self.holding_back(latest):
                raise _HeldBackError

        held = next((write for write in list_held(self._manager, self._table) if write.branch == branch), None)
        try:
            # Whatever main got since the rows were written a moment ago, the run goes on with what it has.
            snapshot = publish_held(self._manager, self._table, branch, audit=audit, outdated=True)
        except _HeldBackError:
            return latest, last, {}
        published: dict[str, Any] = {"snapshot_id": snapshot.snapshot_id}
        if held is not None and (retired := retire_older(self._manager, self._table, held)):
            published[RETIRED] = ", ".join(retired)
        return latest, None, published

    def _already(self, branch: str) -> dict[str, Any]:
        found = find_published(self._manager.load_table(self._table), branch)
        if found is None and self._written_before(branch):
            msg = f"The rows on branch '{branch}' of table '{self._table}' were removed before they were published."
            raise RefNotFoundError(msg, hint="Materialize the asset again.", table=self._table)
        return {"snapshot_id": found.snapshot_id} if found else {}

    def _written_before(self, branch: str) -> bool:
        """Whether the run that this one goes on with wrote the branch, in a step that is not run again."""
        run, again = self._context.run, self._context.run.step_keys_to_execute
        if run.parent_run_id is None or again is None:
            return False
        records = self._context.instance.get_records_for_run(
            run.parent_run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION
        ).records
        events = [event for record in records if (event := record.event_log_entry.dagster_event) is not None]
        return any(
            event.asset_key == self._plan.spec.key
            and event.step_key not in again
            and (told := event.step_materialization_data.materialization.metadata.get("branch")) is not None
            and told.value == branch
            for event in events
        )

    def _verdict(self, held: str | None, published: Mapping[str, Any]) -> AssetCheckResult:
        metadata: dict[str, Any] = {"table": self._table, **published}
        description = None if published else "Nothing was returned: nothing was published, the table is unchanged."
        if RETIRED in published:
            description = f"Discarded older held writes that this one replaces: {published[RETIRED]}."
        if held is not None:
            metadata["branch"] = held
            metadata["look"] = MetadataValue.text(f"floe tables scan {self._table} --ref {held}")
            metadata["publish"] = MetadataValue.text(f"floe publish {self._table} {held}")
            metadata["discard"] = MetadataValue.text(f"floe discard {self._table} {held}")
            description = f"Held back on branch {held}; the rows of main are as they were.{self._came_along()}"
        return AssetCheckResult(
            asset_key=self._plan.spec.key,
            check_name=PUBLISHED,
            passed=held is None,
            metadata=metadata,
            description=description,
        )

    def _came_along(self) -> str:
        """Name the columns that the waiting rows brought: a table has one schema for all of its branches."""
        table = self._manager.load_table(self._table)
        main = table.current_snapshot()
        if main is None or main.schema_id is None:
            return ""
        before = set(table.schemas()[main.schema_id].column_names)
        new = [name for name in table.schema().column_names if name not in before]
        return f" The table has its new columns already, empty on main: {', '.join(new)}." if new else ""

    def _nothing(self) -> Iterator[AssetCheckResult]:
        for spec in self._plan.specs():
            yield AssetCheckResult(
                asset_key=spec.asset_key,
                check_name=spec.name,
                passed=True,
                metadata={NOT_EVALUATED: f"{self._table} does not exist"},
                description="Nothing was returned, so there are no rows to look at.",
            )
