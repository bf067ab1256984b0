"""Reads a project's Dagster instance: which partitions are written, and which attempts failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import AssetCheckEvaluation, AssetCheckKey, AssetRecordsFilter, DagsterEventType

from floe_dagster.gate.checks import PUBLISHED
from floe_dagster.tenants import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagster import AssetKey, DagsterInstance

    from floe_dagster.runs.pipeline import Pipeline

WHOLE = ""
"""The partition key used for an asset without partitions."""

_EVALUATIONS = 10_000


class RunHistory:
    """The run history of a project's assets, limited to one tenant if the project has tenants.

    Partitions are identified by their keys without the tenant; ``WHOLE`` represents an unpartitioned asset.
    """

    def __init__(self, pipeline: Pipeline, instance: DagsterInstance) -> None:
        """Create a history that reads from an instance."""
        self._pipeline = pipeline
        self._instance = instance

    def written(self, key: AssetKey) -> set[str]:
        """Return the partitions whose latest rows are on main: written, and published if the asset has a gate."""
        latest = self._latest(key)
        return set(latest) - self._unpublished(key, latest)

    def failed(self, key: AssetKey) -> set[str]:
        """Return the partitions whose latest attempt has ended without rows on main."""
        latest = self._latest(key)
        attempts = self._attempts(key)
        over = {run_id for run_id in set(attempts.values()) if self._over(run_id)}
        return {one for one, run_id in attempts.items() if run_id in over} | self._unpublished(key, latest)

    def _latest(self, key: AssetKey) -> dict[str, int]:
        """Return the event log id of each partition's latest materialization."""
        kind = DagsterEventType.ASSET_MATERIALIZATION
        if self._pipeline.spec(key).partitions_def is not None:
            found = self._instance.event_log_storage.get_latest_storage_id_by_partition(key, kind)
            return {own: found[name] for own, name in self._own(key, found)}
        records = self._instance.fetch_materializations(key, limit=1).records
        return {WHOLE: records[0].storage_id} if records else {}

    def _attempts(self, key: AssetKey) -> dict[str, str]:
        """Return the run id of each partition's latest attempt that has not materialized it."""
        if self._pipeline.spec(key).partitions_def is not None:
            storage = self._instance.event_log_storage
            found = storage.get_latest_asset_partition_materialization_attempts_without_materializations(key)
            return {own: found[name][0] for own, name in self._own(key, found)}
        for record in self._instance.get_asset_records([key]):
            entry = record.asset_entry
            made, planned = entry.last_materialization_record, entry.last_planned_materialization_storage_id
            run_id = entry.last_planned_materialization_run_id
            if planned is not None and run_id is not None and (made is None or made.storage_id < planned):
                return {WHOLE: run_id}
        return {}

    def _unpublished(self, key: AssetKey, latest: dict[str, int]) -> set[str]:
        """Return the partitions whose latest rows are still on their audit branch."""
        if not latest or self._pipeline.settings(key).gate is None:
            return set()
        check = AssetCheckKey(key, PUBLISHED)
        verdicts: dict[str, bool] = {}
        for one in self._instance.event_log_storage.get_asset_check_execution_history(check, limit=_EVALUATIONS):
            # A check that is only planned has an evaluation of another type.
            passed = isinstance(one.evaluation, AssetCheckEvaluation) and one.evaluation.passed
            verdicts.setdefault(one.run_id, passed)
        if all(verdicts.values()):
            return set()
        wanted = AssetRecordsFilter(key, storage_ids=list(latest.values()))
        records = self._instance.fetch_materializations(wanted, limit=len(latest)).records
        unpublished = {one.storage_id for one in records if not verdicts.get(one.run_id, True)}
        return {own for own, number in latest.items() if number in unpublished}

    def _own(self, key: AssetKey, names: Iterable[str]) -> Iterable[tuple[str, str]]:
        """Yield the partitions of this pipeline's tenant, each as its key without the tenant and its key in Dagster."""
        partitions_def = self._pipeline.spec(key).partitions_def
        for name in names:
            scope = Scope.of(partitions_def, [name])
            if scope.tenant == self._pipeline.tenant:
                yield (scope.keys[0] if scope.keys else WHOLE), name

    def _over(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        return run is None or run.is_finished
