"""Materializes assets in this process or in one process per step, and reports progress."""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dagster import RunsFilter, build_reconstructable_job, execute_job

from floe_core.errors import EngineError
from floe_dagster.assets.keys import FULL_REFRESH_TAG
from floe_dagster.code_location import export_project, job_of_assets
from floe_dagster.runs.dead_runs import process_tags
from floe_dagster.runs.event_log import fast_event_log
from floe_dagster.runs.home import dagster_home
from floe_dagster.runs.progress import AssetProgress, AssetState, RunProgress
from floe_dagster.telemetry.causes import Cause, cause_of
from floe_dagster.telemetry.observer import trace_tags, watched_run
from floe_dagster.tenants import TENANTS, partition_tags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dagster import AssetKey, DagsterEvent, DagsterInstance

    from floe_dagster.runs.pipeline import Pipeline

    Listener = Callable[[list[AssetProgress]], None]
    Execute = Callable[[Sequence[AssetKey], dict[str, str]], tuple[str, bool]]

_REQUEST_TAG = "floe/request"
_TENANT_TAG = "floe/tenant"
_POLL_SECONDS = 0.2
# Console output is suppressed: the event log contains everything relevant.
_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class RunOutcome:
    """Outcome of a run.

    Attributes:
        run_ids: Ids of its Dagster runs.
        success: Whether every asset was written and passed its checks.
        assets: Outcome of each asset, upstream first.
        seconds: Duration.
        failure: Why the run as a whole failed; None if it succeeded or only assets failed.
    """

    run_ids: tuple[str, ...]
    success: bool
    assets: tuple[AssetProgress, ...]
    seconds: float
    failure: Cause | None = None


def run_assets(  # noqa: PLR0913 - independent options of a run
    pipeline: Pipeline,
    instance: DagsterInstance,
    keys: Sequence[AssetKey],
    partitions: Sequence[str] = (),
    *,
    processes: int = 1,
    execute: Execute | None = None,
    full_refresh: bool = False,
    listener: Listener | None = None,
) -> RunOutcome:
    """Materialize assets with their checks, and wait for the end.

    For a range of partitions, partitioned and unpartitioned assets get separate Dagster runs, one after the other:
    Dagster would otherwise record every partition of the range for every asset. Runs for a tenant are split as well.

    Args:
        pipeline: The project's assets.
        instance: The Dagster instance that records the run.
        keys: The assets.
        partitions: Partition keys in order; more than one is a contiguous range, written at once.
        processes: If more than one, steps run in separate processes, at most this many at a time.
        execute: Runs assets with the given tags, and returns the run id and whether the run succeeded.
        full_refresh: Replace existing rows, including those of assets that append or upsert.
        listener: Called from another thread with the state of all assets whenever that changes.
    """
    started = time.monotonic()
    progress = RunProgress(pipeline, keys)
    run_ids: list[str] = []
    success, lost = True, None
    request = uuid.uuid4().hex
    tenant = pipeline.tenant
    # A custom executor may be called from several threads; its caller applies fast_event_log once for all of them.
    history = nullcontext() if execute else fast_event_log(dagster_home(pipeline.artifacts))
    if execute is None:
        here = InThisProcess(pipeline, instance)
        execute = here if processes == 1 else _InStepProcesses(pipeline, instance, processes)
    if tenant is not None:
        instance.add_dynamic_partitions(str(TENANTS.name), [tenant])
    with (
        history,
        _watched(instance, request, progress, listener or (lambda _: None)),
    ):
        for stage in pipeline.stages(keys) if len(partitions) > 1 or tenant else [list(keys)]:
            partitioned = any(pipeline.partitioned(key) for key in stage)
            tags = {_REQUEST_TAG: request, **process_tags()}
            tags |= partition_tags(tenant, partitions if partitioned else ())
            if tenant is not None:
                tags[_TENANT_TAG] = tenant
            if full_refresh:
                tags[FULL_REFRESH_TAG] = "true"
            try:
                run_id, success = execute(stage, tags)
            except EngineError as err:
                success, lost = False, Cause(str(err), type(err).__name__)
                break
            run_ids.append(run_id)
            if not success:
                break
    failed = any(asset.reason for asset in progress.assets)
    failure = lost or (None if success or failed else progress.failure)
    return RunOutcome(tuple(run_ids), success, tuple(progress.assets), time.monotonic() - started, failure)


def combined(outcomes: Sequence[RunOutcome]) -> RunOutcome:
    """Combine the outcomes of consecutive runs: add up rows, and keep the worst state of each asset."""
    assets: dict[str, AssetProgress] = {}
    for outcome in outcomes:
        for asset in outcome.assets:
            before = assets.get(asset.asset)
            assets[asset.asset] = asset if before is None else _continued(before, asset)
    return RunOutcome(
        run_ids=tuple(run_id for outcome in outcomes for run_id in outcome.run_ids),
        success=all(outcome.success for outcome in outcomes),
        assets=tuple(assets.values()),
        seconds=sum(outcome.seconds for outcome in outcomes),
        failure=next((outcome.failure for outcome in outcomes if outcome.failure), None),
    )


def _continued(before: AssetProgress, after: AssetProgress) -> AssetProgress:
    counts = [asset.rows for asset in (before, after) if asset.rows is not None]
    stays = not before.state.good or (before.state.wrote and after.state in {AssetState.UNCHANGED, AssetState.SKIPPED})
    last = before if stays else after
    return replace(
        last,
        rows=sum(counts) if counts else None,
        started=before.started,
        retired=(*before.retired, *after.retired),
        results_not_kept=after.results_not_kept or before.results_not_kept,
    )


def never_started(pipeline: Pipeline, keys: Iterable[AssetKey]) -> RunOutcome:
    """Return the outcome for assets of batches that were not started."""
    assets = [AssetProgress(key.to_user_string(), pipeline.table(key), AssetState.SKIPPED) for key in keys]
    return RunOutcome((), success=True, assets=tuple(assets), seconds=0.0)


@dataclass(frozen=True)
class InThisProcess:
    """Executes runs in this process."""

    pipeline: Pipeline
    instance: DagsterInstance

    def __call__(self, keys: Sequence[AssetKey], tags: dict[str, str]) -> tuple[str, bool]:
        """Run assets to the end; return the run id and whether the run succeeded."""
        job = self.pipeline.definitions.resolve_implicit_global_asset_job_def()
        run_id = str(uuid.uuid4())
        with watched_run(self.pipeline.lineage, run_id, job.name) as watched:
            result = job.execute_in_process(
                run_config=_QUIET,
                instance=self.instance,
                asset_selection=list(keys),
                run_id=run_id,
                tags=tags | trace_tags(),
                raise_on_error=False,
            )
            if not result.success:
                watched.reason = "A step failed"
            _raise_interrupt(result.all_events)
        return result.run_id, result.success


@dataclass(frozen=True)
class _InStepProcesses:
    """Executes runs with a separate process for each step."""

    pipeline: Pipeline
    instance: DagsterInstance
    processes: int

    def __call__(self, keys: Sequence[AssetKey], tags: dict[str, str]) -> tuple[str, bool]:
        """Run assets to the end; return the run id and whether the run succeeded."""
        export_project(self.pipeline.artifacts, tenant=self.pipeline.tenant)
        config = {**_QUIET, "execution": {"config": {"multiprocess": {"max_concurrent": self.processes}}}}
        names = [key.to_user_string() for key in keys]
        job = build_reconstructable_job(job_of_assets.__module__, job_of_assets.__name__, (names,))
        result = execute_job(job, instance=self.instance, run_config=config, tags=tags)
        _raise_interrupt(result.all_events)
        return result.run_id, result.success


def _raise_interrupt(events: Sequence[DagsterEvent]) -> None:
    """Raise ``KeyboardInterrupt`` if Dagster recorded a Ctrl-C as a failure of the run."""
    for event in events:
        data = event.event_specific_data
        if event.is_failure and cause_of(getattr(data, "error", None)).interrupted:
            raise KeyboardInterrupt


@contextmanager
def _watched(instance: DagsterInstance, request: str, progress: RunProgress, listener: Listener) -> Iterator[None]:
    """Follow the runs of a request in a background thread during a block."""
    over = threading.Event()
    watch = _Watch(instance, request, progress, listener)

    def look() -> None:
        while not over.wait(_POLL_SECONDS):
            watch.look()

    thread = threading.Thread(target=look, name="floe-run-watch", daemon=True)
    listener(progress.assets)
    thread.start()
    interrupted = False
    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        over.set()
        thread.join()
        # After Ctrl-C, the remaining events are not reported.
        if not interrupted:
            watch.look()
            progress.finish()
            listener(progress.assets)


class _Watch:
    """Reads the event logs of all runs of a request."""

    def __init__(self, instance: DagsterInstance, request: str, progress: RunProgress, listener: Listener) -> None:
        self._instance = instance
        self._filter = RunsFilter(tags={_REQUEST_TAG: request})
        self._progress = progress
        self._listener = listener
        self._cursors: dict[str, str | None] = {}

    def look(self) -> None:
        """Process the events since the last call."""
        for run in reversed(self._instance.get_runs(self._filter)):
            more = True
            while more:
                found = self._instance.get_records_for_run(run.run_id, cursor=self._cursors.get(run.run_id))
                self._cursors[run.run_id] = found.cursor
                changes = [self._progress.follow(record.event_log_entry) for record in found.records]
                if any(changes):
                    self._listener(self._progress.assets)
                more = found.has_more
