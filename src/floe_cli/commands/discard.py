"""``floe discard``: give up rows that their checks held back."""

from floe_cli.command import command, single_command
from floe_cli.commands.publish import WaitingBranch, WaitingTable, waiting_report, waiting_write
from floe_cli.commands.tables.options import DryRunOption, YesOption
from floe_cli.output import Report, working
from floe_cli.workspace import Workspace

app = single_command()


@command(app)
def discard(
    workspace: Workspace,
    table: WaitingTable = None,
    branch: WaitingBranch = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Throw away rows that were held back by their checks; main is not touched."""
    from floe_iceberg.held import discard_held

    with workspace.tables() as manager:
        if table is None:
            return waiting_report(workspace, manager)
        held = waiting_write(manager, table, branch)
        if dry_run:
            return _report(table, held.branch, f"Would throw away the rows on {held.branch}; nothing was changed.")
        workspace.confirm(f"Throw away the rows on {held.branch} of {table}?", yes=yes)
        with working("Discarding"):
            discard_held(manager, table, held.branch)
    done = f"Discarded {held.branch}; its files go when snapshots expire. {table} is as it was."
    return _report(table, held.branch, done)


def _report(table: str, branch: str, text: str) -> Report:
    return Report(data={"table": table, "branch": branch}, text=[text])
