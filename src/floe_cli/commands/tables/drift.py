"""Where tables are not what floe.yaml declares."""

from typing import Annotated

import typer

from floe_cli.declaration import declared_table, name_in_project
from floe_cli.output import Report, count, grid, working
from floe_cli.workspace import Workspace


def drift(
    workspace: Workspace,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Only this table; default: all declared.", show_default=False)
    ] = None,
) -> Report:
    """Compare tables with floe.yaml.

    The exit code is 1 when something differs.

    Examples:
        floe tables drift  # all tables of floe.yaml
        floe tables drift bronze.orders
    """
    from floe_iceberg.drift import DriftDetector

    artifacts = workspace.artifacts
    wanted = {table: declared_table(artifacts, name_in_project(artifacts, table))} if table else dict(artifacts.tables)
    with working("Comparing"), workspace.tables() as manager:
        detector = DriftDetector(manager)
        reports = [detector.detect(name, config) for name, config in wanted.items()]
    rows = [
        (
            report.table,
            item.severity.value,
            item.kind.value.replace("_", " "),
            item.path,
            item.declared,
            item.actual,
            item.fix,
        )
        for report in reports
        for item in report.items
    ]
    if not rows:
        checked = count(len(reports), "table")
        return Report(
            data=reports, text=[f"No drift: {checked} as declared." if reports else "No tables are declared."]
        )
    headers = ["TABLE", "SEVERITY", "WHAT", "WHERE", "DECLARED", "ACTUAL", "FIX"]
    return Report(data=reports, text=[grid(headers, rows), "", f"{count(len(rows), 'difference')}."], exit_code=1)
