"""Materialises assets and reports how far it has come, in this process or in one a step."""

from __future__ import annotations

import os
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster import RunsFilter, execute_job, reconstructable

from floe_dagster.code_location import ENVIRONMENT_VARIABLE, PROJECT_VARIABLE, all_assets_job
from floe_dagster.progress import AssetProgress, RunProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dagster import AssetKey, DagsterInstance

    from floe_dagster.pipeline import Pipeline

    Listener = Callable[[list[AssetProgress]], None]

_REQUEST_TAG = "floe/request"
_PARTITION_TAG = "dagster/partition"
_RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_POLL_SECONDS = 0.2
# What is worth knowing is in the event log; Dagster's console log repeats it.
_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        run_id: Its id in Dagster.
        success: Whether every asset was written and passed its checks.
        assets: What became of each, upstream first.
        seconds: How long it took.
    """

    run_id: str
    success: bool
    assets: tuple[AssetProgress, ...]
    seconds: float


def run_assets(  # noqa: PLR0913 - what a run is made of
    pipeline: Pipeline,
    instance: DagsterInstance,
    keys: Sequence[AssetKey],
    partitions: Sequence[str] = (),
    *,
    processes: int = 1,
    listener: Listener | None = None,
) -> RunOutcome:
    """Materialise assets with their checks in one run, and wait for its end.

    Args:
        pipeline: The project's assets.
        instance: Where the run is remembered.
        keys: The assets.
        partitions: Partition keys in order; more than one is a range of adjacent ones, written at once.
        processes: With more than one, steps run in processes of their own, this many at a time.
        listener: Called with the state of all assets whenever it changes, from another thread.
    """
    started = time.monotonic()
    progress = RunProgress(pipeline, keys)
    tags = {_REQUEST_TAG: uuid.uuid4().hex, **_partition_tags(partitions)}
    with _watched(instance, tags[_REQUEST_TAG], progress, listener or (lambda _: None)):
        if processes > 1:
            run_id, success = _in_processes(pipeline, instance, keys, tags, processes)
        else:
            run_id, success = _in_this_process(pipeline, instance, keys, tags)
    return RunOutcome(run_id, success, tuple(progress.assets), time.monotonic() - started)


def _partition_tags(partitions: Sequence[str]) -> dict[str, str]:
    if not partitions:
        return {}
    if len(partitions) == 1:
        return {_PARTITION_TAG: partitions[0]}
    return dict(zip(_RANGE_TAGS, (partitions[0], partitions[-1]), strict=True))


def _in_this_process(
    pipeline: Pipeline, instance: DagsterInstance, keys: Sequence[AssetKey], tags: dict[str, str]
) -> tuple[str, bool]:
    job = pipeline.definitions.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        run_config=_QUIET, instance=instance, asset_selection=list(keys), tags=tags, raise_on_error=False
    )
    return result.run_id, result.success


def _in_processes(
    pipeline: Pipeline, instance: DagsterInstance, keys: Sequence[AssetKey], tags: dict[str, str], processes: int
) -> tuple[str, bool]:
    os.environ[PROJECT_VARIABLE] = str(pipeline.artifacts.project_root)
    os.environ[ENVIRONMENT_VARIABLE] = pipeline.artifacts.environment or ""
    config = {**_QUIET, "execution": {"config": {"multiprocess": {"max_concurrent": processes}}}}
    result = execute_job(
        reconstructable(all_assets_job), instance=instance, run_config=config, asset_selection=list(keys), tags=tags
    )
    return result.run_id, result.success


@contextmanager
def _watched(instance: DagsterInstance, request: str, progress: RunProgress, listener: Listener) -> Iterator[None]:
    """Follow the run of a request in a thread of its own for the length of a block."""
    over = threading.Event()
    watch = _Watch(instance, request, progress, listener)

    def look() -> None:
        while not over.wait(_POLL_SECONDS):
            watch.look()

    thread = threading.Thread(target=look, name="floe-run-watch", daemon=True)
    listener(progress.assets)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        watch.look()
        progress.finish()
        listener(progress.assets)


class _Watch:
    def __init__(self, instance: DagsterInstance, request: str, progress: RunProgress, listener: Listener) -> None:
        self._instance = instance
        self._request = request
        self._progress = progress
        self._listener = listener
        self._run_id: str | None = None
        self._cursor: str | None = None

    def look(self) -> None:
        """Take in what has happened since the last look."""
        if self._run_id is None:
            runs = self._instance.get_runs(RunsFilter(tags={_REQUEST_TAG: self._request}), limit=1)
            self._run_id = runs[0].run_id if runs else None
        more = self._run_id is not None
        while more and self._run_id is not None:
            found = self._instance.get_records_for_run(self._run_id, cursor=self._cursor)
            self._cursor = found.cursor
            changes = [self._progress.follow(record.event_log_entry) for record in found.records]
            if any(changes):
                self._listener(self._progress.assets)
            more = found.has_more
