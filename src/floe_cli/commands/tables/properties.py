"""Change the properties of a table by hand."""

from typing import TYPE_CHECKING, Annotated

import typer

from floe_cli.commands.tables.options import DryRunOption, TableArgument, YesOption
from floe_cli.output import Report, grid, working
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import RenderableType


def set_properties(
    workspace: Workspace,
    table: TableArgument,
    properties: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Properties to set.", show_default=False)
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option("--unset", metavar="KEY", help="Property to remove; repeatable.", show_default=False),
    ] = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Set and remove properties of a table in one commit.

    Properties that floe or Iceberg manage cannot be set; properties that can cause file loss need confirmation.

    Examples:
        floe tables set bronze.events owner=sales write.parquet.compression-codec=zstd
        floe tables set bronze.events --unset comment --dry-run
    """
    from floe_iceberg.table.keys.owned_properties import change_risk
    from floe_iceberg.table.properties import require_settable

    updates, removals = _pairs(properties or []), unset or []
    if not updates and not removals:
        msg = "No changes given."
        raise ConfigurationError(msg, hint="Pass KEY=VALUE or --unset KEY.")
    require_settable(updates, removals)
    with workspace.tables() as manager:
        before = dict(manager.load_table(table).properties)
        wanted: dict[str, str | None] = {**updates, **dict.fromkeys(removals)}
        changes = {key: value for key, value in wanted.items() if before.get(key) != value}
        dangers = {key: why for key, value in changes.items() if (why := change_risk(key, before, value))}
        if changes and not dry_run:
            if dangers:
                whys = " ".join(f"{key}: {why}." for key, why in dangers.items())
                workspace.confirm(f"{whys} Change {table}?", yes=yes)
            with working("Changing the properties"):
                manager.set_properties(table, updates, removals)
    rows = [
        (key, before.get(key, ""), "" if value is None else value, dangers.get(key, ""))
        for key, value in changes.items()
    ]
    summary = (
        f"{'Would change' if dry_run else 'Changed'} {table}." if changes else f"No changes: {table} already matches."
    )
    text: list[RenderableType] = [grid(["PROPERTY", "BEFORE", "AFTER", ""], rows), ""] if rows else []
    return Report(
        data={
            "table": table,
            "changed": bool(changes) and not dry_run,
            "properties": [
                {"property": key, "before": before.get(key), "after": value, "danger": dangers.get(key)}
                for key, value in changes.items()
            ],
        },
        text=[*text, summary],
    )


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            msg = f"'{text}' is not a valid property."
            raise ConfigurationError(msg, hint="Use KEY=VALUE, or --unset KEY to remove a property.")
        if key.strip() in pairs:
            msg = f"Property '{key.strip()}' is given twice."
            raise ConfigurationError(msg)
        pairs[key.strip()] = value
    return pairs
