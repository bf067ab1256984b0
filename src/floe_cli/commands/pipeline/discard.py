"""``floe discard``: discard rows held back by their checks, and branches left by killed runs."""

from typing import TYPE_CHECKING

from floe_cli.command import command, single_command
from floe_cli.commands.pipeline.publish import StagedBranch, StagedTable, StagedTenant, staged_report, staged_write
from floe_cli.commands.tables.options import DryRunOption, YesOption
from floe_cli.output import Report, working
from floe_cli.workspace import Workspace

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager

app = single_command()


@command(app)
def discard(
    workspace: Workspace,
    table: StagedTable = None,
    branch: StagedBranch = None,
    tenant: StagedTenant = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Discard rows that were held back by their checks, or a branch left by a killed run.

    The rows on main are not changed.

    Examples:
        floe discard  # list all staged writes
        floe discard silver.orders
        floe discard silver.orders audit.silver_orders.2026-01-31.1a2b3c4d --yes
    """
    from floe_iceberg.staging.leftover_branches import discard_leftover

    with workspace.tables() as manager:
        if table is None:
            return staged_report(workspace, manager, tenant)
        chosen = _branch(manager, table, branch)
        if dry_run:
            return _report(table, chosen, f"Would discard the rows on {chosen}; nothing was changed.")
        workspace.confirm(f"Discard the rows on {chosen} of {table}?", yes=yes)
        with working("Discarding"):
            discard_leftover(manager, table, chosen)
    done = f"Discarded {chosen}; its files are deleted when snapshots expire. {table} is unchanged."
    return _report(table, chosen, done)


def _branch(manager: "IcebergTableManager", table: str, branch: str | None) -> str:
    """Return the branch to discard: one left by a killed run, or one with a staged write."""
    from floe_iceberg.staging.leftover_branches import list_leftovers

    left = {found.branch for found in list_leftovers(manager.load_table(table))} if branch else set()
    return branch if branch in left and branch is not None else staged_write(manager, table, branch).branch


def _report(table: str, branch: str, text: str) -> Report:
    return Report(data={"table": table, "branch": branch}, text=[text])
