"""Write-audit-publish: a step checks a staged write on its branch and then publishes it.

The IO manager writes an audited asset to a branch. The gate then checks that branch, and fast-forwards main if no
blocking check failed. The gate is a blocking check itself: downstream assets wait until the rows are on main. If a
check fails, the branch is kept for inspection and can be published or discarded manually.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster import (
    AssetCheckResult,
    DagsterEventType,
    MetadataValue,
    multi_asset_check,
)
from pyiceberg.table.refs import MAIN_BRANCH

from floe_core.errors import ConfigurationError, RefNotFoundError
from floe_dagster.assets.keys import audit_branch, origin_run_id
from floe_dagster.assets.settings import GATE_KEY
from floe_dagster.gate.checker import Checker, CheckPlan
from floe_dagster.gate.checks import NOT_EVALUATED, NOT_KEPT, PUBLISHED, RETIRED, expand_checks
from floe_dagster.gate.results import CheckRecord, results_operation
from floe_dagster.tenants import Scope, own_partitions
from floe_iceberg.read.integrity import find_table
from floe_iceberg.staging.staged import (
    current_branch,
    discard_staged,
    discard_superseded,
    find_published,
    list_staged,
    publish_staged,
    staged_writes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dagster import (
        AssetCheckExecutionContext,
        AssetChecksDefinition,
        AssetKey,
        AssetsDefinition,
        AssetSpec,
        DagsterInstance,
    )
    from pyiceberg.table import Table

    from floe_core.schemas import CheckConfig
    from floe_dagster.gate.checks import TableCheck

__all__ = ["audited", "discard_staged", "failing_checks", "gate_name", "list_staged", "plan_of", "publish_staged"]

_PLAN = "floe_plan"


def gate_name(key: AssetKey) -> str:
    """Name the gate of an asset."""
    return f"{'__'.join(key.path)}__gate"


def audited(
    asset: AssetsDefinition,
    checks: Mapping[AssetKey, Sequence[CheckConfig]],
    *,
    asset_checks: Sequence[AssetChecksDefinition] = (),
    sql_dialect: str | None = None,
) -> tuple[AssetsDefinition, list[AssetChecksDefinition]]:
    """Add a gate to each asset that has checks.

    Args:
        asset: An asset whose outputs are written by an ``IcebergIOManager``.
        checks: Declared checks by asset key.
        asset_checks: Custom checks of the same assets; they become part of the gate and see the staged rows.
        sql_dialect: Dialect of the conditions in checks, as named by sqlglot; None for that of the default engine.

    Returns:
        The asset, which now writes to a branch, and its gates; add both to your definitions.
    """
    own = {key: [check for check in asset_checks if _target(check) == key] for key in asset.keys}
    keys = [key for key in asset.keys if checks.get(key) or own[key]]

    def mark(spec: AssetSpec) -> AssetSpec:
        return spec.merge_attributes(metadata={GATE_KEY: gate_name(spec.key)}) if spec.key in keys else spec

    marked = asset.map_asset_specs(mark)
    declared = {
        key: expand_checks(checks.get(key, ()), table="/".join(key.path), sql_dialect=sql_dialect) for key in keys
    }
    return marked, [_gate(marked, key, declared[key], own[key]) for key in keys]


def _target(check: AssetChecksDefinition) -> AssetKey:
    targets = {spec.asset_key for spec in check.check_specs}
    if len(targets) > 1:
        names = ", ".join(spec.name for spec in check.check_specs)
        msg = f"The checks {names} cover several assets, but a gate belongs to one asset."
        raise ConfigurationError(msg, hint="Define one check for each asset.")
    return next(iter(targets))


def _gate(
    asset: AssetsDefinition, key: AssetKey, declared: Sequence[TableCheck], own: Sequence[AssetChecksDefinition]
) -> AssetChecksDefinition:
    io_key = asset.get_io_manager_key_for_asset_key(key)
    plan = CheckPlan(asset.specs_by_key[key], io_key, tuple(declared), tuple(own))

    def gate(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Dagster refuses annotations that are text
        yield from _Audit(plan, context).run()

    # floe publish runs the same checks outside of a run.
    setattr(gate, _PLAN, plan)
    return multi_asset_check(
        name=gate_name(key),
        specs=plan.specs(),
        description="Checks the rows on their branch, and publishes them if they pass.",
        required_resource_keys=plan.resource_keys,
    )(gate)


def plan_of(gate: AssetChecksDefinition) -> CheckPlan | None:
    """Return the checks of a gate; None for a check that is not a gate."""
    function: Any = gate.op.compute_fn
    plan: CheckPlan | None = getattr(function.decorated_fn, _PLAN, None)
    return plan


def failing_checks(  # noqa: PLR0913 - the inputs of a gate in a run
    gate: AssetChecksDefinition,
    resources: object,
    branch: str,
    *,
    tenant: str | None,
    partitions: Sequence[str],
    instance: DagsterInstance,
) -> list[str]:
    """Run the checks of a gate on a branch outside of a run; return the names of those that prevent publication."""
    plan = plan_of(gate)
    if plan is None:
        return []
    scope = Scope(tenant, own_partitions(plan.spec.partitions_def), tuple(partitions))
    checker = Checker(plan, resources, scope, instance)
    return checker.holding_back(checker.check(branch))


class _HeldBackError(Exception):
    """A blocking check failed after the write was redone."""


class _Audit(Checker):
    """One run of a gate."""

    def __init__(self, plan: CheckPlan, context: AssetCheckExecutionContext) -> None:
        partitions_def = plan.spec.partitions_def
        keys = list(context.partition_keys) if partitions_def and context.has_partition_key_range else []
        if partitions_def and not keys and context.has_partition_key:
            keys = [context.partition_key]
        super().__init__(plan, context.resources, Scope.of(partitions_def, keys), context.instance)
        self._context = context

    def run(self) -> Iterator[AssetCheckResult]:
        """Check, publish, then report, so that the result 'published' is accurate."""
        table = find_table(self.manager.context, self.table)
        if table is None:
            yield from self._nothing()
            return
        branch = audit_branch(self.plan.spec.key, self.scope.keys, self._origin())
        waiting = current_branch(self.manager, table, branch)
        results = self.check(waiting, table)
        published: dict[str, Any] = {}
        unpublished: str | None = None
        if waiting is None:
            published = self._already(table, branch)
        elif self.holding_back(results):
            unpublished = waiting
        else:
            results, unpublished, published = self._publish(table, waiting, results)
        not_kept = self._keep(results, unpublished, published)
        yield from results
        yield self._verdict(unpublished, published, not_kept)

    def _keep(
        self, results: Sequence[AssetCheckResult], unpublished: str | None, published: Mapping[str, Any]
    ) -> str | None:
        """Append the results to their table; a failure is returned as text and does not undo the publication."""
        if not results or (kept := self.io_manager.check_results) is None:
            return None
        blocking, ref = self.plan.blocking_names, unpublished or MAIN_BRANCH
        try:
            snapshot = (
                published.get("snapshot_id") or self.manager.load_table(self.table).metadata.refs[ref].snapshot_id
            )
            records = [
                CheckRecord.of(result, self, blocking=result.check_name in blocking, ref=ref, snapshot=snapshot)
                for result in results
            ]
            operation = results_operation(self._origin(), records)
            run_id = self._context.run.run_id
            kept.keep(records, kind="run", run_id=run_id, operation_id=operation, tenant=self.scope.tenant)
        except Exception as err:  # noqa: BLE001 - the rows are already checked and published
            self._context.log.warning("The check results of %s were not stored: %s", self.table, err)
            return str(err)
        return None

    def _origin(self) -> str:
        return origin_run_id(self._context.run, self._context.instance)

    def _publish(
        self, table: Table, branch: str, results: list[AssetCheckResult]
    ) -> tuple[list[AssetCheckResult], str | None, dict[str, Any]]:
        latest, last = results, branch

        def audit(redone: str) -> None:
            nonlocal latest, last
            latest, last = self.check(redone), redone
            if self.holding_back(latest):
                raise _HeldBackError

        unpublished = next((write for write in staged_writes(table) if write.branch == branch), None)
        try:
            # Commits to main since the rows were written must not fail the run.
            snapshot = publish_staged(self.manager, self.table, branch, audit=audit, outdated=True, loaded=table)
        except _HeldBackError:
            return latest, last, {}
        published: dict[str, Any] = {"snapshot_id": snapshot.snapshot_id}
        if unpublished is not None and (retired := discard_superseded(self.manager, self.table, unpublished)):
            published[RETIRED] = ", ".join(retired)
        return latest, None, published

    def _already(self, table: Table, branch: str) -> dict[str, Any]:
        found = find_published(table, branch)
        if found is None and self._written_before(branch):
            msg = f"The rows on branch '{branch}' of table '{self.table}' were removed before they were published."
            raise RefNotFoundError(msg, hint="Materialize the asset again.", table=self.table)
        return {"snapshot_id": found.snapshot_id} if found else {}

    def _written_before(self, branch: str) -> bool:
        """Whether the run that this one retries wrote the branch in a step that is not retried."""
        run, retried_steps = self._context.run, self._context.run.step_keys_to_execute
        if run.parent_run_id is None or retried_steps is None:
            return False
        records = self._context.instance.get_records_for_run(
            run.parent_run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION
        ).records
        events = [event for record in records if (event := record.event_log_entry.dagster_event) is not None]
        return any(
            event.asset_key == self.plan.spec.key
            and event.step_key not in retried_steps
            and (written := event.step_materialization_data.materialization.metadata.get("branch")) is not None
            and written.value == branch
            for event in events
        )

    def _verdict(self, unpublished: str | None, published: Mapping[str, Any], not_kept: str | None) -> AssetCheckResult:
        metadata: dict[str, Any] = {"table": self.table, **published}
        if not_kept is not None:
            metadata[NOT_KEPT] = not_kept
        description = (
            None if published else "The asset returned nothing, so nothing was published and the table is unchanged."
        )
        if RETIRED in published:
            description = f"Discarded older staged writes that this one replaces: {published[RETIRED]}."
        if unpublished is not None:
            metadata["branch"] = unpublished
            metadata["look"] = MetadataValue.text(f"floe tables scan {self.table} --ref {unpublished}")
            metadata["publish"] = MetadataValue.text(f"floe publish {self.table} {unpublished}")
            metadata["discard"] = MetadataValue.text(f"floe discard {self.table} {unpublished}")
            description = f"Held back on branch {unpublished}; the rows on main are unchanged.{self._added_columns()}"
        return AssetCheckResult(
            asset_key=self.plan.spec.key,
            check_name=PUBLISHED,
            passed=unpublished is None,
            metadata=metadata,
            description=description,
        )

    def _added_columns(self) -> str:
        """Mention the columns that the staged rows added: all branches of a table share one schema."""
        table = self.manager.load_table(self.table)
        main = table.current_snapshot()
        if main is None or main.schema_id is None:
            return ""
        before = set(table.schemas()[main.schema_id].column_names)
        new = [name for name in table.schema().column_names if name not in before]
        return f" The table already has the new columns, which are null on main: {', '.join(new)}." if new else ""

    def _nothing(self) -> Iterator[AssetCheckResult]:
        for spec in self.plan.specs():
            yield AssetCheckResult(
                asset_key=spec.asset_key,
                check_name=spec.name,
                passed=True,
                metadata={NOT_EVALUATED: f"{self.table} does not exist"},
                description="The asset returned nothing, so there are no rows to check.",
            )
