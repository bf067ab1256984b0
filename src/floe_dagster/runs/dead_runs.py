"""Runs whose processes are gone without a word: what they left is cleared, and they are marked as failed.

Every process of a run notes itself in the run's tags. A run that Dagster takes for running, and of which every process
was one of this host and is gone, was killed. Branches that its checks held back are none of its remains: somebody was
told of them, and decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster import AssetCheckEvaluation, DagsterEventType, DagsterRunStatus, RunsFilter

from floe_core.errors import RefNotFoundError, TableNotFoundError
from floe_core.runtime.processes import ProcessMark
from floe_dagster.assets.keys import origin_run_id, run_digits, table_of
from floe_dagster.gate.checks import PUBLISHED
from floe_dagster.tenants import tenant_of_run
from floe_iceberg.commit.branches import STAGING_PREFIX
from floe_iceberg.write.abandoned import clear_operations, own_snapshots
from floe_tenancy import tenant_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dagster import DagsterInstance, DagsterRun
    from pyiceberg.table import Table

    from floe_dagster.runs.pipeline import Pipeline
    from floe_iceberg.manager import IcebergTableManager

RUN_ID_PROPERTY = "dagster.run-id"

_PROCESS_TAG = "floe/process-"
_UNFINISHED = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
_SHOWN = 3
_DIGITS = 8


@dataclass(frozen=True)
class ClearedRun:
    """A dead run, and what was cleared after it.

    Attributes:
        run_id: Its id in Dagster.
        branches: Tables and branches that it left.
    """

    run_id: str
    branches: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """Tell it in one line."""
        shown = [f"{branch} of {table}" for table, branch in self.branches[:_SHOWN]]
        more = len(self.branches) - len(shown)
        what = ", ".join(shown) + (f" and {more} more" if more else "")
        cleared = f" and its branches were removed: {what}" if shown else "; it left no branches"
        return f"Run {self.run_id[:_DIGITS]} was killed on this host. It is marked as failed{cleared}."


def process_tags() -> dict[str, str]:
    """Return the tags by which others can tell whether the processes of a run live."""
    marks = (ProcessMark.of_this(), ProcessMark.of_parent())
    return {f"{_PROCESS_TAG}{mark.pid}": str(mark) for mark in marks if mark is not None}


def dead_runs(instance: DagsterInstance) -> list[DagsterRun]:
    """List the unfinished runs whose processes were all of this host and are all gone, oldest first."""
    return [run for run in reversed(instance.get_runs(RunsFilter(statuses=_UNFINISHED))) if _is_dead(run)]


def clear_dead_runs(
    instance: DagsterInstance,
    runs: Iterable[DagsterRun],
    manager: IcebergTableManager,
    tables_of: Callable[[DagsterRun], Iterable[str]],
) -> list[ClearedRun]:
    """Remove the branches that dead runs left, and mark the runs as failed.

    Args:
        instance: Where the runs are remembered.
        runs: Dead runs.
        manager: The tables.
        tables_of: Names the tables that a run may have written.
    """
    cleared = []
    for run in runs:
        told = _told(run, instance)
        left = [(table, branch) for table in tables_of(run) for branch in _clear(manager, table, run, instance, told)]
        # Last, so that a clearance that is itself killed is done again.
        instance.report_run_failed(run, "The run's process was killed; the next run found and cleared what it left.")
        cleared.append(ClearedRun(run.run_id, tuple(left)))
    return cleared


def tables_of_run(pipeline: Pipeline) -> Callable[[DagsterRun], list[str]]:
    """Return how to name the tables that a run of a pipeline may have written."""
    artifacts = pipeline.artifacts

    def tables(run: DagsterRun) -> list[str]:
        keys = run.asset_selection or pipeline.keys
        names = sorted(table_of(key.path, default_namespace="public") for key in keys)
        if not artifacts.orchestration.per_tenant:
            return names
        prefix = tenant_namespace(artifacts, tenant_of_run(run.tags))
        return [f"{prefix}.{name}" for name in names]

    return tables


def _is_dead(run: DagsterRun) -> bool:
    marks = [ProcessMark.parse(value) for key, value in run.tags.items() if key.startswith(_PROCESS_TAG)]
    return bool(marks) and all(mark is not None and mark.dead for mark in marks)


def _told(run: DagsterRun, instance: DagsterInstance) -> set[str]:
    """Return the branches that the run's checks held back, and reported."""
    found, cursor, more = set(), None, True
    while more:
        page = instance.get_records_for_run(run.run_id, cursor=cursor, of_type=DagsterEventType.ASSET_CHECK_EVALUATION)
        for record in page.records:
            event = record.event_log_entry.dagster_event
            evaluation = event.event_specific_data if event else None
            if isinstance(evaluation, AssetCheckEvaluation) and evaluation.check_name == PUBLISHED:
                held = evaluation.metadata.get("branch")
                found |= {str(held.value)} if held is not None else set()
        cursor, more = page.cursor, page.has_more
    return found


def _clear(
    manager: IcebergTableManager, name: str, run: DagsterRun, instance: DagsterInstance, told: set[str]
) -> list[str]:
    try:
        table = manager.load_table(name)
    except TableNotFoundError:
        return []
    digits = run_digits(origin_run_id(run, instance))
    cleared = clear_operations(manager.context, table)
    for branch in list(table.metadata.refs):
        mine = branch.startswith(STAGING_PREFIX) and digits in branch.split(".")
        if not mine or branch in told or not _made_by(table, branch, run.run_id):
            continue
        try:
            manager.remove_branch(name, branch)
        except RefNotFoundError:
            continue
        cleared.append(branch)
    return cleared


def _made_by(table: Table, branch: str, run_id: str) -> bool:
    """Whether a branch has nothing of its own, or rows of this run: a re-execution shares its parent's branch."""
    own = own_snapshots(table, branch)
    made = [snapshot.summary.additional_properties.get(RUN_ID_PROPERTY) for snapshot in own if snapshot.summary]
    return not own or run_id in made
