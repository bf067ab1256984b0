"""Runs batches one after the other, or concurrently if they are independent."""

from __future__ import annotations

from collections import deque
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dagster import IdentityPartitionMapping, MultiPartitionMapping, TimeWindowPartitionMapping

from floe_dagster.runs.event_log import fast_event_log
from floe_dagster.runs.home import dagster_home
from floe_dagster.runs.materialize import run_assets
from floe_dagster.runs.workers import Workers
from floe_iceberg.models import WriteMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from dagster import AssetKey, DagsterInstance, PartitionMapping

    from floe_dagster.runs.batches import Batch
    from floe_dagster.runs.materialize import RunOutcome
    from floe_dagster.runs.pipeline import Pipeline
    from floe_dagster.runs.progress import AssetProgress

    Listener = Callable[[Batch, list[AssetProgress]], None]


@dataclass(frozen=True)
class BatchRun:
    """A batch that was run, and its outcome."""

    batch: Batch
    outcome: RunOutcome


def run_batches(  # noqa: PLR0913 - independent options of a run
    pipeline: Pipeline,
    instance: DagsterInstance,
    batches: Sequence[Batch],
    *,
    processes: int = 1,
    full_refresh: bool = False,
    listener: Listener | None = None,
) -> list[BatchRun]:
    """Run batches in order and return those that were started; after a failure, no further batch is started.

    Args:
        pipeline: The project's assets.
        instance: The Dagster instance that records the runs.
        batches: The batches to run.
        processes: If more than one, up to this many independent batches of different partitions run concurrently;
            the steps of other batches run in separate processes.
        full_refresh: Replace existing rows, including those of assets that append or upsert.
        listener: Called from other threads with a batch and the state of its assets whenever that changes.
    """
    notify = listener or (lambda _batch, _assets: None)
    tried: list[BatchRun] = []
    for group in groups(pipeline, batches) if processes > 1 and not full_refresh else [[batch] for batch in batches]:
        if len(group) > 1:
            tried += _concurrently(pipeline, instance, group, min(processes, len(group)), notify)
        else:
            [batch] = group
            outcome = run_assets(
                pipeline,
                instance,
                batch.keys,
                batch.partitions,
                processes=processes,
                full_refresh=full_refresh,
                listener=partial(notify, batch),
            )
            tried.append(BatchRun(batch, outcome))
        if not all(run.outcome.success for run in tried):
            break
    return tried


def groups(pipeline: Pipeline, batches: Iterable[Batch]) -> list[list[Batch]]:
    """Group batches that can run concurrently; each group starts after the one before has ended."""
    found: list[list[Batch]] = []
    for batch in batches:
        if found and _are_independent(pipeline, [*found[-1], batch]):
            found[-1].append(batch)
        else:
            found.append([batch])
    return found


def _are_independent(pipeline: Pipeline, batches: Sequence[Batch]) -> bool:
    """Whether the batches write different partitions and none reads or writes a partition of another."""
    partitions = [key for batch in batches for key in batch.partitions]
    if len(set(partitions)) < len(partitions) or not all(batch.partitions for batch in batches):
        return False
    keys = {key for batch in batches for key in batch.keys}
    return all(_within_its_partition(pipeline, key, keys) for key in keys)


def _within_its_partition(pipeline: Pipeline, key: AssetKey, written: set[AssetKey]) -> bool:
    # An upsert can change rows in any partition of the table.
    if pipeline.settings(key).write_mode is WriteMode.UPSERT:
        return False
    return all(
        dep.asset_key != key and _same_partition(dep.partition_mapping)
        for dep in pipeline.spec(key).deps
        if dep.asset_key in written
    )


def _same_partition(mapping: PartitionMapping | None) -> bool:
    """Whether a mapping maps each partition to the same upstream partition; all assets of a run share partitions."""
    match mapping:
        case None | IdentityPartitionMapping():
            return True
        case TimeWindowPartitionMapping():
            return mapping.start_offset == mapping.end_offset == 0
        case MultiPartitionMapping():
            within = mapping.downstream_mappings_by_upstream_dimension
            return all(
                _same_partition(one.partition_mapping) and name == one.dimension_name for name, one in within.items()
            )
        case _:
            return False


def _concurrently(
    pipeline: Pipeline, instance: DagsterInstance, batches: Sequence[Batch], processes: int, notify: Listener
) -> list[BatchRun]:
    """Run batches concurrently; if one fails, those already running finish."""
    waiting = deque(batches)
    running: dict[Batch, Future[RunOutcome]] = {}
    done: dict[Batch, RunOutcome] = {}
    # Threads wait for the worker processes and follow their events, so the process pool has to shut down first.
    with (
        fast_event_log(dagster_home(pipeline.artifacts)),
        ThreadPoolExecutor(processes, "floe-batch") as threads,
        Workers.started(pipeline, processes) as workers,
    ):
        while waiting or running:
            while waiting and len(running) < processes and all(outcome.success for outcome in done.values()):
                batch = waiting.popleft()
                running[batch] = threads.submit(
                    run_assets,
                    pipeline,
                    instance,
                    batch.keys,
                    batch.partitions,
                    execute=workers,
                    listener=partial(notify, batch),
                )
            if not running:
                break
            wait(running.values(), return_when=FIRST_COMPLETED)
            for batch in [batch for batch, future in running.items() if future.done()]:
                done[batch] = running.pop(batch).result()
    return [BatchRun(batch, done[batch]) for batch in batches if batch in done]
