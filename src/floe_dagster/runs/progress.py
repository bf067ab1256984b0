"""Tracks the progress of a run per asset, read from Dagster's event log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetCheckEvaluation,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetMaterialization,
    DagsterEventType,
)

from floe_dagster.gate.checks import NOT_EVALUATED, NOT_KEPT, PUBLISHED, RETIRED
from floe_dagster.telemetry.causes import cause_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagster import AssetKey, DagsterEvent, EventLogEntry

    from floe_dagster.runs.pipeline import Pipeline
    from floe_dagster.telemetry.causes import Cause


class AssetState(StrEnum):
    """State of an asset in a run."""

    WAITING = "waiting"
    RUNNING = "running"
    CHECKING = "checking"
    WRITTEN = "written"
    PUBLISHED = "published"
    UNCHANGED = "nothing written"
    HELD_BACK = "held back"
    FAILED = "failed"
    SKIPPED = "not run"

    @property
    def good(self) -> bool:
        """Whether the asset ended successfully."""
        return self.wrote or self is AssetState.UNCHANGED

    @property
    def wrote(self) -> bool:
        """Whether the asset's rows are on main."""
        return self in {AssetState.WRITTEN, AssetState.PUBLISHED}

    @property
    def over(self) -> bool:
        """Whether the state is final."""
        return self not in {AssetState.WAITING, AssetState.RUNNING, AssetState.CHECKING}


class CheckState(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True)
class CheckProgress:
    """Result of a check, with its details.

    Attributes:
        name: Its name in Dagster.
        state: The result.
        passed: Whether the check passed; also true if it had no rows to evaluate.
        blocking: Whether a failure prevents publication.
        description: The condition that must hold.
        figures: The check's metadata by name.
    """

    name: str
    state: CheckState
    passed: bool
    blocking: bool = False
    description: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The failure as text for users."""
        figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.figures.items())
        found = f" ({figures})" if figures else ""
        expected = f"; expected: {self.description.rstrip('.')}" if self.description else ""
        return f"check '{self.name}' {self.state}{found}{expected}"


@dataclass(frozen=True)
class AssetProgress:
    """Progress of one asset in a run.

    Attributes:
        asset: The asset, as ``namespace/name``.
        table: Its table.
        state: Its state.
        rows: Number of rows written.
        total_rows: Number of rows in the table after the write.
        snapshot_id: The snapshot created by the write.
        branch: The branch on which its rows are staged.
        checks: Results of its checks so far.
        started: Start time of its step, in seconds since the epoch.
        ended: Time when it reached its final state.
        reason: Why it failed or was held back.
        retired: Branches of superseded staged writes that were removed.
        error: Class of the error it failed with; one of floe's if floe recognizes the failure.
        results_not_kept: Why its check results could not be stored; None if they were.
    """

    asset: str
    table: str
    state: AssetState = AssetState.WAITING
    rows: int | None = None
    total_rows: int | None = None
    snapshot_id: str | None = None
    branch: str | None = None
    checks: tuple[CheckProgress, ...] = ()
    started: float | None = None
    ended: float | None = None
    reason: str | None = None
    retired: tuple[str, ...] = ()
    error: str | None = None
    results_not_kept: str | None = None


class RunProgress:
    """Follows the events of one run.

    Attributes:
        failure: Why the run as a whole failed; None if it succeeded or only assets failed.
    """

    def __init__(self, pipeline: Pipeline, keys: Sequence[AssetKey]) -> None:
        """Track the given assets."""
        self._assets = {key: AssetProgress(key.to_user_string(), pipeline.table(key)) for key in keys}
        self._steps: dict[str, list[AssetKey]] = {}
        self._gates: dict[str, AssetKey] = {}
        for key in keys:
            self._steps.setdefault(pipeline.definition(key).op.name, []).append(key)
            if gate := pipeline.settings(key).gate:
                self._gates[gate] = key
        self._gated = set(self._gates.values())
        self._check_steps = {
            check.op.name: list(check.check_keys)
            for check in pipeline.definitions.asset_checks or ()
            if isinstance(check, AssetChecksDefinition) and check.op.name not in self._gates
        }
        self.failure: Cause | None = None

    @property
    def assets(self) -> list[AssetProgress]:
        """The tracked assets in their current state, upstream first."""
        return list(self._assets.values())

    def follow(self, entry: EventLogEntry) -> bool:
        """Process an entry of the event log; return whether an asset's state changed."""
        event = entry.dagster_event
        if event is None:
            return False
        before = list(self._assets.values())
        handler = _HANDLERS.get(event.event_type)
        if handler is not None:
            handler(self, event, entry.timestamp)
        return before != list(self._assets.values())

    def finish(self) -> None:
        """Set final states for assets that no further event will change."""
        for key, asset in self._assets.items():
            if asset.state is AssetState.WAITING:
                self._assets[key] = replace(asset, state=AssetState.SKIPPED)
            elif not asset.state.over:
                self._assets[key] = replace(asset, state=AssetState.FAILED, reason=asset.reason or "interrupted")

    def _change(self, key: AssetKey | None, **changes: Any) -> None:  # noqa: ANN401 - fields of AssetProgress
        if key in self._assets:
            self._assets[key] = replace(self._assets[key], **changes)

    def _step_started(self, event: DagsterEvent, moment: float) -> None:
        for key in self._steps.get(event.step_key or "", ()):
            self._change(key, state=AssetState.RUNNING, started=moment)
        if gated := self._gates.get(event.step_key or ""):
            self._change(gated, state=AssetState.CHECKING)

    def _materialized(self, event: DagsterEvent, moment: float) -> None:
        materialization = event.step_materialization_data.materialization
        metadata = _plain(materialization)
        waits = event.asset_key in self._gated
        done = AssetState.WRITTEN if "snapshot_id" in metadata else AssetState.UNCHANGED
        self._change(
            event.asset_key,
            state=AssetState.CHECKING if waits else done,
            rows=metadata.get("num_rows"),
            total_rows=metadata.get("dagster/row_count"),
            snapshot_id=str(metadata["snapshot_id"]) if "snapshot_id" in metadata else None,
            branch=metadata.get("branch"),
            ended=None if waits else moment,
        )

    def _checked(self, event: DagsterEvent, moment: float) -> None:
        evaluation = event.event_specific_data
        if not isinstance(evaluation, AssetCheckEvaluation) or evaluation.asset_key not in self._assets:
            return
        key, figures = evaluation.asset_key, _plain(evaluation)
        if evaluation.check_name == PUBLISHED:
            self._verdict(key, evaluation, figures, moment)
            return
        check = CheckProgress(
            evaluation.check_name,
            _check_state(evaluation, figures),
            passed=evaluation.passed,
            blocking=bool(evaluation.blocking),
            description=evaluation.description or "",
            figures={name: value for name, value in figures.items() if name != NOT_EVALUATED},
        )
        self._change(key, checks=(*self._assets[key].checks, check))

    def _verdict(
        self, key: AssetKey, evaluation: AssetCheckEvaluation, figures: Mapping[str, Any], moment: float
    ) -> None:
        asset = self._assets[key]
        self._change(key, results_not_kept=figures.get(NOT_KEPT))
        if evaluation.passed:
            snapshot = figures.get("snapshot_id")
            self._change(
                key,
                state=AssetState.UNCHANGED if snapshot is None else AssetState.PUBLISHED,
                snapshot_id=None if snapshot is None else str(snapshot),
                branch=None,
                ended=moment,
                retired=tuple(str(figures[RETIRED]).split(", ")) if RETIRED in figures else (),
            )
            return
        failed = [check.sentence for check in asset.checks if not check.passed]
        self._change(
            key,
            state=AssetState.HELD_BACK,
            branch=figures.get("branch") or asset.branch,
            ended=moment,
            reason="; ".join(failed) or evaluation.description,
        )

    def _step_failed(self, event: DagsterEvent, moment: float) -> None:
        cause = cause_of(event.step_failure_data.error)
        if cause.interrupted:
            # The user interrupted the run and knows the reason.
            return
        keys = [*self._steps.get(event.step_key or "", ())]
        if gated := self._gates.get(event.step_key or ""):
            keys.append(gated)
        for key in keys:
            if self._assets[key].state is not AssetState.HELD_BACK:
                self._change(key, state=AssetState.FAILED, reason=cause.reason, error=cause.error, ended=moment)
        self._check_failed(event.step_key or "", cause.reason)

    def _check_failed(self, step: str, reason: str) -> None:
        """Record an asset check outside the gate whose step failed, because no evaluation will follow."""
        for check in self._check_steps.get(step, ()):
            if check.asset_key in self._assets and all(
                check.name != known.name for known in self._assets[check.asset_key].checks
            ):
                failed = CheckProgress(check.name, CheckState.FAILED, passed=False, description=reason)
                self._change(check.asset_key, checks=(*self._assets[check.asset_key].checks, failed))

    def _run_failed(self, event: DagsterEvent, moment: float) -> None:
        """Record why the run as a whole failed, such as a resource that could not be initialized."""
        del moment
        data = event.event_specific_data
        if (error := getattr(data, "error", None)) is not None:
            self.failure = cause_of(error)

    def _skipped(self, event: DagsterEvent, moment: float) -> None:
        for key in self._steps.get(event.step_key or "", ()):
            self._change(key, state=AssetState.SKIPPED, ended=moment)

    def _step_succeeded(self, event: DagsterEvent, moment: float) -> None:
        """Mark assets as unchanged if their step succeeded without a materialization."""
        for key in self._steps.get(event.step_key or "", ()):
            if self._assets[key].state is AssetState.RUNNING:
                self._change(key, state=AssetState.UNCHANGED, rows=0, ended=moment)


_HANDLERS = {
    DagsterEventType.STEP_START: RunProgress._step_started,  # noqa: SLF001 - same module
    DagsterEventType.ASSET_MATERIALIZATION: RunProgress._materialized,  # noqa: SLF001 - same module
    DagsterEventType.ASSET_CHECK_EVALUATION: RunProgress._checked,  # noqa: SLF001 - same module
    DagsterEventType.STEP_FAILURE: RunProgress._step_failed,  # noqa: SLF001 - same module
    DagsterEventType.RUN_FAILURE: RunProgress._run_failed,  # noqa: SLF001 - same module
    DagsterEventType.STEP_SKIPPED: RunProgress._skipped,  # noqa: SLF001 - same module
    DagsterEventType.STEP_SUCCESS: RunProgress._step_succeeded,  # noqa: SLF001 - same module
}


def _plain(event: AssetMaterialization | AssetCheckEvaluation) -> dict[str, Any]:
    return {key: value.value for key, value in event.metadata.items()}


def _check_state(evaluation: AssetCheckEvaluation, figures: Mapping[str, Any]) -> CheckState:
    if evaluation.passed:
        return CheckState.NOT_EVALUATED if NOT_EVALUATED in figures else CheckState.PASSED
    return CheckState.WARNED if evaluation.severity is AssetCheckSeverity.WARN else CheckState.FAILED
