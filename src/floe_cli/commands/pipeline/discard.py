"""``floe discard``: give up rows that their checks held back, and branches that dead runs left."""

from typing import TYPE_CHECKING

from floe_cli.command import command, single_command
from floe_cli.commands.pipeline.publish import WaitingBranch, WaitingTable, WaitingTenant, waiting_report, waiting_write
from floe_cli.commands.tables.options import DryRunOption, YesOption
from floe_cli.output import Report, working
from floe_cli.workspace import Workspace

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager

app = single_command()


@command(app)
def discard(
    workspace: Workspace,
    table: WaitingTable = None,
    branch: WaitingBranch = None,
    tenant: WaitingTenant = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Throw away rows that were held back by their checks, or a branch that a dead run left; main is not touched.

    Examples:
        floe discard  # list all that waits
        floe discard silver.orders
        floe discard silver.orders audit.silver_orders.2026-01-31.1a2b3c4d --yes
    """
    from floe_iceberg.staging.left_branches import discard_left

    with workspace.tables() as manager:
        if table is None:
            return waiting_report(workspace, manager, tenant)
        chosen = _branch(manager, table, branch)
        if dry_run:
            return _report(table, chosen, f"Would throw away the rows on {chosen}; nothing was changed.")
        workspace.confirm(f"Throw away the rows on {chosen} of {table}?", yes=yes)
        with working("Discarding"):
            discard_left(manager, table, chosen)
    done = f"Discarded {chosen}; its files go when snapshots expire. {table} is as it was."
    return _report(table, chosen, done)


def _branch(manager: "IcebergTableManager", table: str, branch: str | None) -> str:
    """Return the branch that is meant: one that a run left, or one with rows that wait."""
    from floe_iceberg.staging.left_branches import list_left

    left = {found.branch for found in list_left(manager.load_table(table))} if branch else set()
    return branch if branch in left and branch is not None else waiting_write(manager, table, branch).branch


def _report(table: str, branch: str, text: str) -> Report:
    return Report(data={"table": table, "branch": branch}, text=[text])
