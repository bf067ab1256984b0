"""What a project's Dagster instance remembers: which partitions are written, and which attempts failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import AssetCheckKey, AssetRecordsFilter, DagsterEventType
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from floe_dagster.gate.checks import PUBLISHED
from floe_dagster.tenants import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dagster import AssetKey, DagsterInstance

    from floe_dagster.runs.pipeline import Pipeline

WHOLE = ""
"""Stands for the one partition of an asset that has none."""

_EVALUATIONS = 10_000


class RunHistory:
    """The past of a project's assets, for one tenant where it has tenants.

    Partitions are given by the keys of an asset's own partitions, without the tenant; ``WHOLE`` is an asset without.
    """

    def __init__(self, pipeline: Pipeline, instance: DagsterInstance) -> None:
        """Look into an instance."""
        self._pipeline = pipeline
        self._instance = instance

    def written(self, key: AssetKey) -> set[str]:
        """Return the partitions whose latest rows are on main: written, and published where checks decide."""
        latest = self._latest(key)
        return set(latest) - self._unpublished(key, latest)

    def failed(self, key: AssetKey) -> set[str]:
        """Return the partitions whose latest attempt ended without rows on main, and is not under way any more."""
        latest = self._latest(key)
        attempts = self._attempts(key)
        over = {run_id for run_id in set(attempts.values()) if self._over(run_id)}
        return {one for one, run_id in attempts.items() if run_id in over} | self._unpublished(key, latest)

    def _latest(self, key: AssetKey) -> dict[str, int]:
        """Return the latest materialization of each partition by its number in the event log."""
        kind = DagsterEventType.ASSET_MATERIALIZATION
        if self._pipeline.spec(key).partitions_def is not None:
            found = self._instance.event_log_storage.get_latest_storage_id_by_partition(key, kind)
            return {own: found[name] for own, name in self._own(key, found)}
        records = self._instance.fetch_materializations(key, limit=1).records
        return {WHOLE: records[0].storage_id} if records else {}

    def _attempts(self, key: AssetKey) -> dict[str, str]:
        """Return the run of each partition's latest attempt, where it has made nothing yet."""
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
        """Return the partitions whose latest rows never left their branch."""
        if not latest or self._pipeline.settings(key).gate is None:
            return set()
        check = AssetCheckKey(key, PUBLISHED)
        verdicts: dict[str, bool] = {}
        for one in self._instance.event_log_storage.get_asset_check_execution_history(check, limit=_EVALUATIONS):
            verdicts.setdefault(one.run_id, one.status is AssetCheckExecutionRecordStatus.SUCCEEDED)
        if all(verdicts.values()):
            return set()
        wanted = AssetRecordsFilter(key, storage_ids=list(latest.values()))
        records = self._instance.fetch_materializations(wanted, limit=len(latest)).records
        held = {one.storage_id for one in records if not verdicts.get(one.run_id, True)}
        return {own for own, number in latest.items() if number in held}

    def _own(self, key: AssetKey, names: Iterable[str]) -> Iterable[tuple[str, str]]:
        """Give the partitions of this pipeline's tenant, by their own keys, with the names Dagster has for them."""
        partitions_def = self._pipeline.spec(key).partitions_def
        for name in names:
            scope = Scope.of(partitions_def, [name])
            if scope.tenant == self._pipeline.tenant:
                yield (scope.keys[0] if scope.keys else WHOLE), name

    def _over(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        return run is None or run.is_finished
