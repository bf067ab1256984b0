"""The report of ``floe run``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from floe_cli.output import Report, count
from floe_cli.reports.run_view import asset_table
from floe_dagster.runs.materialize import combined, never_started
from floe_dagster.telemetry.causes import exit_code_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floe_dagster.runs.batch_runs import BatchRun
    from floe_dagster.runs.batches import Batch
    from floe_dagster.runs.dead_runs import ClearedRun
    from floe_dagster.runs.pipeline import PartitionChoice, Pipeline
    from floe_dagster.runs.progress import AssetProgress

FAILED = 1


@dataclass(frozen=True)
class FinishedRun:
    """The scope and the outcome of a run.

    Attributes:
        tried: The batches that were run, with their outcomes.
        batches: All planned batches.
        choice: The requested partitions.
        tenant: Tenant of the run.
        seconds: Duration of the run.
    """

    tried: Sequence[BatchRun]
    batches: Sequence[Batch]
    choice: PartitionChoice
    tenant: str | None
    seconds: float

    @property
    def left(self) -> list[Batch]:
        """The batches that were not run."""
        tried = [run.batch for run in self.tried]
        return [batch for batch in self.batches if batch not in tried]

    @property
    def scope(self) -> str:
        """The scope of the run, as text."""
        partitioned = any(batch.partitions for batch in self.batches)
        return (f" for {self.choice}" if partitioned else "") + (f" of tenant {self.tenant}" if self.tenant else "")

    @property
    def stop(self) -> str:
        """Where the run stopped early, as text."""
        failed = [run.batch for run in self.tried if not run.outcome.success and run.batch.partitions]
        return (
            f" and stopped at {', '.join(map(str, failed))}, with {len(self.left)} more to go"
            if failed and self.left
            else ""
        )

    @property
    def partitions(self) -> list[str]:
        """The distinct partitions that were run."""
        return list(dict.fromkeys(key for run in self.tried for key in run.batch.partitions))


def report(pipeline: Pipeline, finished: FinishedRun, cleared: Sequence[ClearedRun]) -> Report:
    """Report a run, including its cleanup after killed runs."""
    left = never_started(pipeline, dict.fromkeys(key for batch in finished.left for key in batch.keys))
    outcome, troubles = combined([*(run.outcome for run in finished.tried), left]), _troubles(finished)
    failure = outcome.failure
    errors = [asset.error for asset in outcome.assets] + ([failure.error] if failure else [])
    wrote = sum(asset.state.wrote for asset in outcome.assets)
    silent = sum(asset.state.good and not asset.state.wrote for asset in outcome.assets)
    nothing = f", {silent:,} returned nothing" if silent else ""
    summary = f"{count(wrote, 'table')} written{nothing}{finished.scope} in {finished.seconds:.1f} s."
    if not outcome.success:
        tables = count(len(outcome.assets), "table")
        summary = f"The run{finished.scope} failed{finished.stop}: {wrote} of {tables} written{nothing}."
    return Report(
        data={
            "success": outcome.success,
            "runs": list(outcome.run_ids),
            "tenant": finished.tenant,
            "partitions": finished.partitions,
            "seconds": round(finished.seconds, 3),
            "assets": [_data(asset) for asset in outcome.assets],
            "failed_checks": [asdict(trouble) for trouble in troubles],
            "reason": failure.reason if failure else None,
            "error": failure.error if failure else None,
            "cleared": [asdict(dead) for dead in cleared],
        },
        text=[
            asset_table(outcome.assets),
            "",
            summary,
            *(["", failure.reason] if failure else []),
            *_warnings(troubles),
            *_reasons(outcome.assets),
        ],
        exit_code=0 if outcome.success else max(map(exit_code_of, errors), default=FAILED),
    )


def nothing_due(choice: PartitionChoice, tenant: str | None, cleared: Sequence[ClearedRun]) -> Report:
    """Report a run with nothing to do."""
    nothing: dict[str, list[Any]] = {key: [] for key in ("runs", "partitions", "assets", "failed_checks")}
    fixed = {"success": True, "tenant": tenant, "seconds": 0.0, "reason": None, "error": None}
    return Report(
        data={**fixed, **nothing, "cleared": [asdict(dead) for dead in cleared]},
        text=[f"Nothing to do: there are no {choice}."],
    )


def _data(asset: AssetProgress) -> dict[str, Any]:
    seconds = round(asset.ended - asset.started, 3) if asset.ended and asset.started else None
    content = asdict(asset)
    return {key: value for key, value in content.items() if key not in {"started", "ended"}} | {"seconds": seconds}


@dataclass(frozen=True)
class _Trouble:
    """A check that did not pass; the partition is set if partitions run separately."""

    table: str
    partition: str | None
    check: str
    state: str
    held_back: bool
    sentence: str


def _troubles(finished: FinishedRun) -> list[_Trouble]:
    """Collect failed checks across all partitions; the merged asset only has those of one partition."""
    several = len(finished.tried) > 1
    return [
        _Trouble(
            table=asset.table,
            partition=(str(run.batch) or None) if several else None,
            check=check.name,
            state=check.state.value,
            held_back=not asset.state.good,
            sentence=check.sentence,
        )
        for run in finished.tried
        for asset in run.outcome.assets
        for check in asset.checks
        if not check.passed
    ]


def _warnings(troubles: Sequence[_Trouble]) -> list[str]:
    """List the failed checks that did not hold rows back; ``_reasons`` covers the others."""
    lines = [
        f"{one.table}{f' for {one.partition}' if one.partition else ''}: {one.sentence}"
        for one in troubles
        if not one.held_back
    ]
    return ["", *lines] if lines else []


def _reasons(assets: Sequence[AssetProgress]) -> list[str]:
    lines = []
    for asset in assets:
        lines += [f"{asset.table}: discarded {branch}, an older staged write." for branch in asset.retired]
        if asset.results_not_kept is not None:
            lines += [f"{asset.table}: check results were not stored: {asset.results_not_kept}"]
        if asset.reason is None:
            continue
        lines += ["", f"{asset.table} {asset.state}: {asset.reason}"]
        if asset.state.value == "held back":
            lines += [
                f"  inspect the rows:  floe tables scan {asset.table} --ref {asset.branch}",
                f"  publish them:      floe publish {asset.table} {asset.branch}",
                f"  discard them:      floe discard {asset.table} {asset.branch}",
            ]
    return lines
