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
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", metavar="ID", help="Test with a table in this tenant's namespace.", show_default=False
        ),
    ] = None,
    *,
    spark: Annotated[bool, typer.Option("--spark", help="Also start a Spark session.")] = False,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Test by creating, writing, reading and dropping a table.")
    ] = True,
) -> Report:
    """Check this machine and project, and suggest a fix for each problem.

    To verify privileges, it creates, writes, reads and drops a table in a temporary namespace (floe_doctor_…).

    Examples:
        floe doctor
        floe doctor --spark --env prod
        floe doctor --tenant acme  # with that tenant's own credentials
        floe doctor --no-write     # do not write to catalog and storage
    """
    from floe_cli.doctor.project import CheckOptions, examine

    with working("Checking"):
        checks = list(examine(workspace, CheckOptions(start_spark=spark, write=write, tenant=tenant)))
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
            f"{count(bad, 'check')} failed." if bad else "All checks passed.",
        ],
        exit_code=exit_code,
    )
