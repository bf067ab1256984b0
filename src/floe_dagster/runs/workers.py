"""Worker processes that run batches of a project concurrently, on one shared Spark server."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dagster import AssetKey

from floe_core.errors import EngineError
from floe_core.observing.observability import continued, flush_observability, trace_parent
from floe_core.telemetry import is_tracing
from floe_dagster.code_location import artifacts_from_environment, export_project
from floe_dagster.runs.dead_runs import process_tags
from floe_dagster.runs.event_log import fast_event_log
from floe_dagster.runs.home import dagster_home, open_instance
from floe_dagster.runs.materialize import InThisProcess
from floe_dagster.runs.pipeline import Pipeline
from floe_dagster.telemetry.causes import PROCESS_LOST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dagster import DagsterInstance


class Workers:
    """Executes runs in worker processes, each of which loads the project once."""

    def __init__(self, pipeline: Pipeline, pool: ProcessPoolExecutor) -> None:
        """Use a pool created by ``started``."""
        self._pipeline = pipeline
        self._pool = pool

    @classmethod
    @contextmanager
    def started(cls, pipeline: Pipeline, count: int) -> Iterator[Workers]:
        """Provide up to this many workers during a block; an exception in the block interrupts their runs."""
        export_project(pipeline.artifacts, tenant=pipeline.tenant)
        pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker)
        with _ignoring_interrupts():
            for _ in range(count):
                pool.submit(_start_worker)
        try:
            yield cls(pipeline, pool)
        except BaseException:
            for process in multiprocessing.active_children():
                if process.pid is not None:
                    os.kill(process.pid, signal.SIGINT)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def __call__(self, keys: Sequence[AssetKey], tags: dict[str, str]) -> tuple[str, bool]:
        """Run assets in an idle worker and wait for the end; return the run id and whether the run succeeded.

        Raises:
            EngineError: The process was killed.
            KeyboardInterrupt: The run was interrupted.
        """
        names = [key.to_user_string() for key in keys]
        try:
            return self._pool.submit(_execute, self._pipeline.tenant, names, tags, trace_parent()).result()
        except BrokenProcessPool as err:
            hint = "The next floe run removes its leftovers. Fewer --processes need less memory."
            raise EngineError(PROCESS_LOST, hint=hint) from err


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Start processes with SIGINT ignored, so that Ctrl-C during Python's startup does not reach them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _start_worker() -> None:
    """Do nothing; submitting this makes the pool start a worker."""


def _prepare_worker() -> None:
    """Ignore interrupts while the worker is idle, and exit with the parent process."""
    # The terminal sends Ctrl-C to the whole process group; a worker receives it only from its parent.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="floe-worker-watch", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _execute(
    tenant: str | None, keys: Sequence[str], tags: dict[str, str], parent: str | None = None
) -> tuple[str, bool]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        pipeline, instance = _project(tenant)
        with continued(parent), fast_event_log(dagster_home(pipeline.artifacts)):
            chosen = [AssetKey.from_user_string(key) for key in keys]
            return InThisProcess(pipeline, instance)(chosen, tags | process_tags())
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if is_tracing():
            flush_observability()


@functools.cache
def _project(tenant: str | None) -> tuple[Pipeline, DagsterInstance]:
    artifacts = artifacts_from_environment()
    return Pipeline.of(artifacts, tenant=tenant), open_instance(artifacts)
