"""Finds runs whose processes were killed, removes their leftovers and marks them as failed.

Every process of a run records itself in the run's tags. An unfinished run is dead if all its recorded processes were
on this host and none of them exists any more. Branches held back by its checks are kept: they were reported to the
user, who decides about them.
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
    """A dead run, and what was removed after it.

    Attributes:
        run_id: Id of the Dagster run.
        branches: Tables and branches that were removed.
    """

    run_id: str
    branches: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """Summarize the cleanup in one line."""
        shown = [f"{branch} of {table}" for table, branch in self.branches[:_SHOWN]]
        more = len(self.branches) - len(shown)
        what = ", ".join(shown) + (f" and {more} more" if more else "")
        cleared = f" and its branches were removed: {what}" if shown else "; it left no branches"
        return f"Run {self.run_id[:_DIGITS]} was killed on this host. It was marked as failed{cleared}."


def process_tags() -> dict[str, str]:
    """Return the tags from which other processes can tell whether the processes of a run are alive."""
    marks = (ProcessMark.of_this(), ProcessMark.of_parent())
    return {f"{_PROCESS_TAG}{mark.pid}": str(mark) for mark in marks if mark is not None}


def dead_runs(instance: DagsterInstance) -> list[DagsterRun]:
    """List the unfinished runs whose processes were all on this host and no longer exist, oldest first."""
    return [run for run in reversed(instance.get_runs(RunsFilter(statuses=_UNFINISHED))) if _is_dead(run)]


def clear_dead_runs(
    instance: DagsterInstance,
    runs: Iterable[DagsterRun],
    manager: IcebergTableManager,
    tables_of: Callable[[DagsterRun], Iterable[str]],
) -> list[ClearedRun]:
    """Remove the branches that dead runs left, and mark the runs as failed.

    Args:
        instance: The Dagster instance that records the runs.
        runs: The dead runs.
        manager: The table manager.
        tables_of: Returns the tables that a run may have written.
    """
    cleared = []
    for run in runs:
        held_back = _held_back_branches(run, instance)
        left = [
            (table, branch) for table in tables_of(run) for branch in _clear(manager, table, run, instance, held_back)
        ]
        # Marked last, so that an interrupted cleanup is repeated.
        instance.report_run_failed(run, "The run's process was killed; the next run removed its leftovers.")
        cleared.append(ClearedRun(run.run_id, tuple(left)))
    return cleared


def tables_of_run(pipeline: Pipeline) -> Callable[[DagsterRun], list[str]]:
    """Return a function that lists the tables that a run of a pipeline may have written."""
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


def _held_back_branches(run: DagsterRun, instance: DagsterInstance) -> set[str]:
    """Return the branches that the run's checks held back and reported."""
    found, cursor, more = set(), None, True
    while more:
        page = instance.get_records_for_run(run.run_id, cursor=cursor, of_type=DagsterEventType.ASSET_CHECK_EVALUATION)
        for record in page.records:
            event = record.event_log_entry.dagster_event
            evaluation = event.event_specific_data if event else None
            if isinstance(evaluation, AssetCheckEvaluation) and evaluation.check_name == PUBLISHED:
                branch = evaluation.metadata.get("branch")
                found |= {str(branch.value)} if branch is not None else set()
        cursor, more = page.cursor, page.has_more
    return found


def _clear(
    manager: IcebergTableManager, name: str, run: DagsterRun, instance: DagsterInstance, held_back: set[str]
) -> list[str]:
    try:
        table = manager.load_table(name)
    except TableNotFoundError:
        return []
    digits = run_digits(origin_run_id(run, instance))
    cleared = clear_operations(manager.context, table)
    for branch in list(table.metadata.refs):
        belongs_to_run = branch.startswith(STAGING_PREFIX) and digits in branch.split(".")
        if not belongs_to_run or branch in held_back or not _made_by(table, branch, run.run_id):
            continue
        try:
            manager.remove_branch(name, branch)
        except RefNotFoundError:
            continue
        cleared.append(branch)
    return cleared


def _made_by(table: Table, branch: str, run_id: str) -> bool:
    """Whether a branch has no commits, or commits of this run: a re-execution shares its parent's branch."""
    own = own_snapshots(table, branch)
    made = [snapshot.summary.additional_properties.get(RUN_ID_PROPERTY) for snapshot in own if snapshot.summary]
    return not own or run_id in made
