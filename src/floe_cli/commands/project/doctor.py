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
        typer.Option("--tenant", metavar="ID", help="Try tables in this tenant's namespace.", show_default=False),
    ] = None,
    *,
    spark: Annotated[bool, typer.Option("--spark", help="Also start a Spark session.")] = False,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Whether a table is created, written, read and dropped.")
    ] = True,
) -> Report:
    """Check this machine and project, and say what to do about each failure.

    A table is created, written, read and dropped in a scratch namespace (floe_doctor_…), to show that the credentials
    may do what a run does.

    Examples:
        floe doctor
        floe doctor --spark --env prod
        floe doctor --tenant acme  # with that tenant's own credentials
        floe doctor --no-write     # leave catalog and storage as they are
    """
    from floe_cli.doctor.project import Extent, examine

    with working("Looking around"):
        checks = list(examine(workspace, Extent(start_spark=spark, write=write, tenant=tenant)))
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
