"""``floe tables drift``: differences between tables and floe.yaml."""

from typing import Annotated, Any

import typer

from floe_cli.declaration import declared_table
from floe_cli.output import Report, count, grid, working
from floe_cli.workspace import Workspace
from floe_core.declaration.declared import name_in_project
from floe_core.errors import CapabilityError, FloeStorageError


def drift(
    workspace: Workspace,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", help="Compare only this table; default: all declared tables.", show_default=False
        ),
    ] = None,
) -> Report:
    """Compare tables with floe.yaml.

    The exit code is 1 if a table differs, and 2 if a table cannot be read.

    Examples:
        floe tables drift  # all tables of floe.yaml
        floe tables drift bronze.orders
    """
    from floe_iceberg.table.declared.drift import DriftDetector
    from floe_iceberg.table.recovery import affects_only_table

    artifacts = workspace.artifacts
    wanted = {table: declared_table(artifacts, name_in_project(artifacts, table))} if table else dict(artifacts.tables)
    with working("Comparing"), workspace.tables() as manager:
        detector = DriftDetector(manager)
        reports, failures = [], {}
        for name, config in wanted.items():
            try:
                reports.append(detector.detect(name, config))
            except FloeStorageError as err:
                # A table that cannot be read does not stop the others from being compared.
                if table or not (isinstance(err, CapabilityError) or affects_only_table(manager.context, name, err)):
                    raise
                failures[name] = err
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
    data: list[Any] = [*reports, *({"table": name, "problem": str(err)} for name, err in failures.items())]
    unread = [f"Cannot compare {name}: {err}" for name, err in failures.items()]
    failed = max((err.exit_code for err in failures.values()), default=0)
    if not rows:
        checked = count(len(reports), "table")
        found = f"No drift: {checked} checked." if reports else "No tables are declared."
        return Report(data=data, text=[*unread, found] if reports or not unread else unread, exit_code=failed)
    headers = ["TABLE", "SEVERITY", "WHAT", "WHERE", "DECLARED", "ACTUAL", "FIX"]
    text: list[Any] = [grid(headers, rows), "", *unread, f"{count(len(rows), 'difference')}."]
    return Report(data=data, text=text, exit_code=max(failed, 1))
