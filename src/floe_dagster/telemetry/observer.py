"""Traces Dagster runs: a span per run and step, and lineage events if a receiver is configured.

Step spans are created in the process that runs the step, from the events that Dagster logs there. The run's span is
created by the process that executes the run. Step processes receive it through the environment variable TRACEPARENT,
or on other machines through a tag of the run.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dagster import DagsterEventType, Executor, ExecutorDefinition, multi_or_in_process_executor

from floe_core.observing.observability import (
    continued,
    flush_observability,
    inherited_parent,
    join,
    propagated,
    trace_parent,
)
from floe_core.telemetry import get_logger, is_tracing, process_span, traced
from floe_dagster.telemetry.causes import cause_of
from floe_dagster.telemetry.lineage import Lineage, attempt_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from dagster import (
        AssetKey,
        AssetsDefinition,
        DagsterEvent,
        DagsterInstance,
        DagsterRun,
        EventLogEntry,
        InitExecutorContext,
        InitResourceContext,
    )

    from floe_core.schemas import CompiledArtifacts
    from floe_core.telemetry import Operation
    from floe_dagster.telemetry.lineage import StepLineage

TRACE_TAG = "floe/traceparent"
"""Run tag that contains the run's span in W3C traceparent format."""

_PARTITION_TAGS = ("dagster/partition", "dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_BEGINNINGS = {DagsterEventType.STEP_START, DagsterEventType.STEP_RESTARTED}
_FAILURES = {DagsterEventType.STEP_FAILURE, DagsterEventType.STEP_UP_FOR_RETRY}
_ENDINGS = _FAILURES | {DagsterEventType.STEP_SUCCESS}
_RUN_ENDINGS = {DagsterEventType.RUN_SUCCESS, DagsterEventType.RUN_FAILURE, DagsterEventType.RUN_CANCELED}
_log = get_logger("floe.dagster")
# Runs that already have a span in this process.
_watched: set[str] = set()


@dataclass(frozen=True)
class StepAssets:
    """The assets that a step makes, their upstream assets, and whether they are partitioned."""

    made: tuple[AssetKey, ...]
    used: tuple[AssetKey, ...] = ()
    partitioned: bool = True


class RunObserver:
    """Observes the runs of a project in this process."""

    def __init__(self, artifacts: CompiledArtifacts) -> None:
        """Observe as configured in the project's observability section."""
        self.lineage = Lineage.of(artifacts)
        self.steps: dict[str, StepAssets] = {}
        self._followed: set[str] = set()
        self._lock = threading.Lock()

    def register_assets(self, assets: Iterable[AssetsDefinition]) -> None:
        """Register which steps make which assets."""
        for asset in assets:
            if asset.is_executable:
                used = sorted({dep.asset_key for spec in asset.specs for dep in spec.deps} - asset.keys)
                partitioned = any(spec.partitions_def is not None for spec in asset.specs)
                self.steps[asset.node_def.name] = StepAssets(tuple(sorted(asset.keys)), tuple(used), partitioned)

    def follow(self, context: InitResourceContext) -> None:
        """Observe the steps of a run that uses a resource of the project; repeated calls have no effect."""
        run, instance = context.run, context.instance
        if run is None or instance is None or not (is_tracing() or self.lineage):
            return
        with self._lock:
            if run.run_id in self._followed:
                return
            self._followed.add(run.run_id)
        if _is_unwatched(run, instance):
            instance.add_event_listener(run.run_id, _LocalRun(self, run).handle)
        # In a separate step process, resources are initialized before the step starts.
        join(_parent_of(run))
        instance.add_event_listener(run.run_id, _Steps(self, run, instance).handle)

    def executor(self, inner: ExecutorDefinition | Executor | None) -> ExecutorDefinition | Executor | None:
        """Return an executor whose runs are observed; without tracing and lineage, return the given one unchanged."""
        if not (is_tracing() or self.lineage):
            return inner
        given = ExecutorDefinition.hardcoded_executor(inner) if isinstance(inner, Executor) else inner
        return _observed(given or multi_or_in_process_executor, self)

    def follows(self, run: DagsterRun) -> bool:
        """Whether this process observes the steps of a run."""
        return run.run_id in self._followed

    def step_span(
        self, run: DagsterRun, step: str, *, attempt: int, started: int | None = None
    ) -> AbstractContextManager[Operation]:
        """Return the span of a step as a context manager.

        Args:
            run: The run.
            step: The step.
            attempt: Number of earlier attempts.
            started: Start time in nanoseconds; defaults to now.
        """
        assets = self.steps.get(step)
        names = [key.to_user_string() for key in assets.made] if assets else []
        # A partitioned run may include unpartitioned assets.
        tags = _PARTITION_TAGS if assets is None or assets.partitioned else ()
        keys = [run.tags[tag] for tag in tags if tag in run.tags]
        return traced(
            "dagster.asset" if assets else "dagster.step",
            started=started,
            # Deterministic, so that the parent process can end the span if the step process is killed.
            span_id=step_span_id(run, step, attempt),
            run_id=run.run_id,
            step=step,
            asset=", ".join(names) or None,
            partition="...".join(keys) or None,
        )

    def lineage_of(self, run: DagsterRun, step: str, *, attempt: int) -> StepLineage | None:
        """Describe a step for lineage; None without a lineage receiver, or if the step makes no asset."""
        assets = self.steps.get(step)
        return self.lineage.of_step(run, step, assets, attempt=attempt) if self.lineage and assets else None

    def flush(self) -> None:
        """Flush recorded spans: Dagster may end a process before the exporter runs again."""
        if is_tracing():
            flush_observability()


@dataclass
class WatchedRun:
    """An active run; its attributes are recorded on the run's span.

    Attributes:
        reason: Why the run failed; None unless it has failed.
    """

    reason: str | None = None


@contextmanager
def watched_run(lineage: Lineage | None, run_id: str, job: str) -> Iterator[WatchedRun]:
    """Emit a span and lineage events for a run during a block."""
    watched = WatchedRun()
    if not is_tracing() and lineage is None:
        yield watched
        return
    emitter = lineage.of_run(run_id, job) if lineage else None
    raised: BaseException | None = None
    _watched.add(run_id)
    try:
        with continued(inherited_parent()), traced("dagster.run", run_id=run_id, job=job) as operation:
            if emitter:
                emitter.start()
            try:
                with process_span(operation.span):
                    yield watched
            except BaseException as err:
                if watched.reason is None:
                    if emitter:
                        emitter.fail(str(err) or type(err).__name__)
                    raise
                # Dagster's error after a failed step only repeats tracebacks; the step has the reason.
                raised = err
            if watched.reason is not None:
                operation.fail(watched.reason)
            if emitter:
                emitter.complete() if watched.reason is None else emitter.fail(watched.reason)
    finally:
        _watched.discard(run_id)
    if raised is not None:
        raise raised


def step_span_id(run: DagsterRun, step: str, attempt: int = 0) -> int:
    """Return the span id of an attempt at a step."""
    digest = hashlib.blake2b(f"{run.run_id}:{attempt_name(step, attempt)}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) or 1


def _is_unwatched(run: DagsterRun, instance: DagsterInstance) -> bool:
    """Whether this process executes the whole run without one of floe's executors."""
    if run.run_id in _watched:
        return False
    records = instance.get_records_for_run(run.run_id, of_type={DagsterEventType.RUN_START, *_RUN_ENDINGS}).records
    events = [record.event_log_entry.get_dagster_event() for record in records]
    # Reading a run's results initializes the resources again after the run has ended.
    return any(event.pid == os.getpid() for event in events) and not any(
        event.event_type in _RUN_ENDINGS for event in events
    )


def _parent_of(run: DagsterRun) -> str | None:
    return inherited_parent() or run.tags.get(TRACE_TAG)


def trace_tags() -> dict[str, str]:
    """Return the run tags that carry the current trace; empty without tracing."""
    parent = trace_parent() if is_tracing() else None
    return {} if parent is None else {TRACE_TAG: parent}


class _LocalRun:
    """A run that this process executes without floe's executor, such as ``materialize`` or ``execute_in_process``."""

    def __init__(self, observer: RunObserver, run: DagsterRun) -> None:
        self._scope = ExitStack()
        self._scope.callback(observer.flush)
        self._run = self._scope.enter_context(watched_run(observer.lineage, run.run_id, run.job_name))

    def handle(self, entry: EventLogEntry) -> None:
        """Handle an event of the run; errors are logged and do not fail the run."""
        event = entry.dagster_event
        if event is None or event.event_type not in _RUN_ENDINGS:
            return
        try:
            if event.event_type is not DagsterEventType.RUN_SUCCESS:
                self._run.reason = _reason_of(event)
            self._scope.close()
        except Exception as err:  # noqa: BLE001 - observing must not fail the run
            _log.warning("run_not_observed", error=type(err).__name__, reason=str(err))


def _reason_of(event: DagsterEvent) -> str:
    if event.event_type is DagsterEventType.RUN_CANCELED:
        return "The run was canceled"
    failure = event.job_failure_data
    if (first := failure.first_step_failure_event) is not None:
        return _step_failed(first.step_key)
    return cause_of(failure.error).reason


def _step_failed(step: str | None) -> str:
    return f"Step '{step}' failed"


class _Steps:
    """The active steps of one run in this process."""

    def __init__(self, observer: RunObserver, run: DagsterRun, instance: DagsterInstance) -> None:
        self._observer = observer
        self._run = run
        self._instance = instance
        self._open: dict[str, _OpenStep] = {}

    def handle(self, entry: EventLogEntry) -> None:
        """Handle an event of the run; errors are logged and do not fail the run."""
        event = entry.dagster_event
        if event is None or event.step_key is None:
            return
        try:
            self._handle(event, event.step_key)
        except Exception as err:  # noqa: BLE001 - observing must not fail the run
            _log.warning("step_not_observed", step=event.step_key, error=type(err).__name__, reason=str(err))

    def _handle(self, event: DagsterEvent, step: str) -> None:
        if event.event_type in _BEGINNINGS:
            is_retry = event.event_type is DagsterEventType.STEP_RESTARTED
            self._begin(step, _last_attempt(self._instance, self._run, step).number if is_retry else 0)
        elif step not in self._open:
            return
        elif event.event_type is DagsterEventType.ASSET_MATERIALIZATION:
            self._materialized(step, event)
        elif event.event_type in _ENDINGS:
            error = getattr(event.event_specific_data, "error", None)
            self._end(step, None if event.event_type is DagsterEventType.STEP_SUCCESS else cause_of(error).reason)

    def _begin(self, step: str, attempt: int) -> None:
        emitter = self._observer.lineage_of(self._run, step, attempt=attempt)
        with ExitStack() as scope:
            scope.enter_context(continued(_parent_of(self._run)))
            operation = scope.enter_context(self._observer.step_span(self._run, step, attempt=attempt))
            scope.enter_context(process_span(operation.span))
            self._open[step] = _OpenStep(scope.pop_all(), operation, emitter)
        if emitter:
            emitter.start()

    def _materialized(self, step: str, event: DagsterEvent) -> None:
        metadata: Mapping[str, Any] = event.step_materialization_data.materialization.metadata
        step_state = self._open[step]
        figures = {key: metadata[key].value for key in ("table", "num_rows", "snapshot_id") if key in metadata}
        # A write of several partitions logs one materialization for each of them.
        step_state.written[figures.get("table")] = figures
        if step_state.emitter:
            step_state.emitter.wrote(metadata)

    def _end(self, step: str, reason: str | None) -> None:
        ended = self._open.pop(step)
        ended.operation.set(**_figures(list(ended.written.values())))
        if reason is not None:
            ended.operation.fail(reason)
        ended.scope.close()
        if ended.emitter:
            ended.emitter.complete() if reason is None else ended.emitter.fail(reason)


@dataclass
class _OpenStep:
    """An active step, with the statistics of its writes by table."""

    scope: ExitStack
    operation: Operation
    emitter: StepLineage | None
    written: dict[str | None, dict[str, Any]] = field(default_factory=dict)


def _figures(written: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the statistics of a step's tables; several tables have no common snapshot id."""
    if len(written) <= 1:
        return written[0] if written else {}
    rows = [figures["num_rows"] for figures in written if "num_rows" in figures]
    tables = [str(figures["table"]) for figures in written if "table" in figures]
    return {"table": ", ".join(tables) or None, "num_rows": sum(rows) if rows else None}


@dataclass(frozen=True)
class _Attempt:
    """The last attempt at a step, according to the run's event log.

    Attributes:
        number: Number of earlier attempts.
        started: Start time in nanoseconds; None if the step never started.
    """

    number: int = 0
    started: int | None = None


def _last_attempt(instance: DagsterInstance, run: DagsterRun, step: str) -> _Attempt:
    # Events that a killed process had not yet passed to its parent are lost; the event log has them.
    records = instance.get_records_for_run(run.run_id, of_type=_BEGINNINGS).records
    begun = [entry.timestamp for entry in (record.event_log_entry for record in records) if entry.step_key == step]
    return _Attempt(len(begun) - 1, int(begun[-1] * 1e9)) if begun else _Attempt()


class _RemoteSteps:
    """The steps of one run that other processes execute, as seen by the run's executor."""

    def __init__(self, observer: RunObserver, run: DagsterRun, instance: DagsterInstance) -> None:
        self._observer = observer
        self._run = run
        self._instance = instance

    def handle(self, event: DagsterEvent) -> None:
        """Report the failure of a step whose process was killed or never started the step."""
        step = event.step_key
        if step is None or self._observer.follows(self._run):
            return
        if event.event_type in _FAILURES and event.pid == os.getpid():
            error = getattr(event.event_specific_data, "error", None)
            self._lost(step, cause_of(error).reason)

    def _lost(self, step: str, reason: str) -> None:
        last = _last_attempt(self._instance, self._run, step)
        with self._observer.step_span(self._run, step, attempt=last.number, started=last.started) as operation:
            operation.fail(reason)
        if emitter := self._observer.lineage_of(self._run, step, attempt=last.number):
            if last.started is None:
                emitter.start()
            emitter.fail(reason)


def _observed(inner: ExecutorDefinition, observer: RunObserver) -> ExecutorDefinition:
    def create(context: InitExecutorContext) -> Executor:
        make: Callable[[InitExecutorContext], Executor] | None = inner.executor_creation_fn
        if make is None:
            msg = f"The executor '{inner.name}' cannot be created."
            raise TypeError(msg)
        return _ObservedExecutor(make(context), observer)

    return ExecutorDefinition(
        name=inner.name,
        config_schema=inner.config_schema,  # type: ignore[arg-type]  # a definition's schema is valid input
        requirements=inner.get_requirements,
        executor_creation_fn=create,
        description=inner.description,
    )


class _ObservedExecutor(Executor):
    """Delegates to another executor and emits a span for each run."""

    def __init__(self, inner: Executor, observer: RunObserver) -> None:
        self._inner = inner
        self._observer = observer

    @property
    def retries(self) -> Any:  # noqa: ANN401 - the type is private to Dagster
        return self._inner.retries

    @property
    def step_dependency_config(self) -> Any:  # noqa: ANN401 - the type is private to Dagster
        return self._inner.step_dependency_config

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[DagsterEvent]:  # noqa: ANN401 - as above
        run: DagsterRun = plan_context.dagster_run
        instance: DagsterInstance = plan_context.instance
        try:
            with watched_run(self._observer.lineage, run.run_id, run.job_name) as watched, propagated():
                if tags := trace_tags():
                    instance.add_run_tags(run.run_id, tags)
                elsewhere = _RemoteSteps(self._observer, run, instance)
                for event in self._inner.execute(plan_context, execution_plan):
                    elsewhere.handle(event)
                    if event.is_step_failure:
                        watched.reason = _step_failed(event.step_key)
                    yield event
        finally:
            self._observer.flush()
