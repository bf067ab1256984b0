"""``floe doctor``."""

from typing import Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.output import Report, count, grid, mark, working
from floe_cli.workspace import Workspace

app = single_command()


@command(app)
def doctor(
    workspace: Workspace,
    *,
    spark: Annotated[bool, typer.Option("--spark", help="Also start a Spark session.")] = False,
) -> Report:
    """Check this machine and project, and say what to do about each failure.

    Examples:
        floe doctor
        floe doctor --spark --env prod
    """
    from floe_cli.project_checkup import examine

    with working("Looking around"):
        checks = list(examine(workspace, start_spark=spark))
    exit_code = max(check.exit_code for check in checks)
    rows = [
        (check.name, mark(check.status.value), check.detail + (f"\n→ {check.advice}" if check.advice else ""))
        for check in checks
    ]
    bad = sum(check.exit_code > 0 for check in checks)
    return Report(
        data=[
            {"name": check.name, "status": check.status.value, "detail": check.detail, "advice": check.advice}
            for check in checks
        ],
        text=[
            grid(["CHECK", "STATUS", ""], rows),
            "",
            f"{count(bad, 'check')} failed." if bad else "Everything floe needs is there.",
        ],
        exit_code=exit_code,
    )
