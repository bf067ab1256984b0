"""Change the columns of a table by hand."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.commands.tables.options import DryRunOption, TableArgument, YesOption
from floe_cli.output import Report, grid, working
from floe_cli.workspace import Workspace
from floe_core.declaration.declared import name_in_project
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.schema import Schema
    from rich.console import RenderableType

    from floe_iceberg import IcebergTableManager, SchemaChange

_QUOTED = re.compile(r"""^\s*(?P<quote>["`])(?P<name>.+?)(?P=quote)\s*(?P<rest>.*)$""", re.DOTALL)
_REQUIRED = re.compile(r"\s+(not null|required)$", re.IGNORECASE)
_PLACE = re.compile(r"^(?:first|after\s+(?P<after>.+))$", re.IGNORECASE | re.DOTALL)


def _many(metavar: str, text: str) -> Any:  # noqa: ANN401 - an option of typer
    return typer.Option(metavar=metavar, help=f"{text}; repeatable.", show_default=False)


def evolve(
    workspace: Workspace,
    table: TableArgument,
    add: Annotated[list[str] | None, _many("COLUMN", "Add a column, such as 'note string'")] = None,
    widen: Annotated[list[str] | None, _many("COLUMN", "Widen the type of a column, such as 'id long'")] = None,
    drop: Annotated[list[str] | None, _many("NAME", "Drop a column")] = None,
    make_optional: Annotated[list[str] | None, _many("NAME", "Allow nulls in a column")] = None,
    make_required: Annotated[list[str] | None, _many("NAME", "Disallow nulls in a column")] = None,
    comment: Annotated[list[str] | None, _many("NAME=TEXT", "Change a column's comment")] = None,
    move: Annotated[list[str] | None, _many("PLACE", "Move a column, such as 'note first' or 'note after id'")] = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Change the columns of a table in one commit.

    Put a name with spaces in double quotes or backticks; use dots for a nested field: 'address.zip string'.

    Examples:
        floe tables evolve bronze.events --add 'note string' --widen 'id long' --dry-run
        floe tables evolve bronze.events --comment 'id=The key.' --move 'note after id'
        floe tables evolve bronze.events --drop old_column
    """
    from floe_iceberg.models import SchemaChange, SchemaChangeKind

    kind = SchemaChangeKind
    changes = [
        *(SchemaChange(kind=kind.DROP, column=name) for name in drop or ()),
        *(SchemaChange(kind=kind.MAKE_OPTIONAL, column=name) for name in make_optional or ()),
        *(SchemaChange(kind=kind.MAKE_REQUIRED, column=name) for name in make_required or ()),
        *(_typed(kind.WIDEN, text) for text in widen or ()),
        *(_typed(kind.ADD, text) for text in add or ()),
        *(_commented(text) for text in comment or ()),
        *(_moved(text) for text in move or ()),
    ]
    if not changes:
        msg = "No changes given."
        hint = "Pass --add, --widen, --drop, --make-optional, --make-required, --comment or --move."
        raise ConfigurationError(msg, hint=hint)
    return _changed(workspace, table, changes, dry_run=dry_run, yes=yes)


def rename_column(
    workspace: Workspace,
    table: TableArgument,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Current name; use dots for a nested field.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name, without the parent fields.")],
    *,
    dry_run: DryRunOption = False,
) -> Report:
    """Rename a column.

    Rows, keys, partitioning and sort order are kept. If floe.yaml declares the column, declare the new name there with
    renamed_from and run floe apply instead.

    Examples:
        floe tables rename-column bronze.events region area
    """
    from floe_iceberg.models import SchemaChange, SchemaChangeKind

    change = SchemaChange(kind=SchemaChangeKind.RENAME, column=old, new_name=new)
    return _changed(workspace, table, [change], dry_run=dry_run, yes=True)


def _changed(
    workspace: Workspace, table: str, changes: "Sequence[SchemaChange]", *, dry_run: bool, yes: bool
) -> Report:
    from floe_iceberg.models import SchemaChangeKind

    dropped = [change.column for change in changes if change.kind is SchemaChangeKind.DROP]
    incompatible = any(change.incompatible for change in changes)
    with workspace.tables() as manager:
        before = manager.load_table(table).schema()
        if dropped:
            _require_no_hold(manager, table)
        after = manager.plan_evolution(table, changes, allow_incompatible_changes=incompatible)
        if not dry_run:
            if dropped:
                workspace.confirm(f"Drop {', '.join(dropped)} of {table}?", yes=yes)
            with working("Changing the columns"):
                after = manager.evolve_schema(table, changes, allow_incompatible_changes=incompatible)
    rows = list(_differences(before, after))
    text: list[RenderableType] = [grid(["COLUMN", "BEFORE", "AFTER"], rows), ""] if rows else []
    return Report(
        data={
            "table": table,
            "changed": not dry_run and bool(rows),
            "before": _columns(before),
            "after": _columns(after),
        },
        text=[
            *text,
            _summary(table, changed=bool(rows), dry_run=dry_run),
            *_note(workspace, table),
        ],
    )


def _summary(table: str, *, changed: bool, dry_run: bool) -> str:
    if not changed:
        return f"No changes: {table} already matches."
    return f"{'Would change' if dry_run else 'Changed'} {table}."


def _note(workspace: Workspace, table: str) -> list[str]:
    """Warn if floe.yaml declares the columns of the table."""
    declared = workspace.artifacts.tables.get(name_in_project(workspace.artifacts, table))
    if declared is None or not declared.columns:
        return []
    return [
        "floe.yaml declares the columns of this table. Change them there too, or the next run fails or reverts this."
    ]


def _require_no_hold(manager: "IcebergTableManager", table: str) -> None:
    from floe_iceberg.table.history.legal_hold import require_no_hold

    require_no_hold(manager.context, manager.load_table(table), what="The drop of a column")


def _named(text: str, what: str) -> tuple[str, str]:
    """Split off the name, which may be quoted."""
    if quoted := _QUOTED.match(text):
        return quoted["name"], quoted["rest"].strip()
    name, _, rest = text.strip().partition(" ")
    if not name or not rest.strip():
        msg = f"'{text}' is not a valid {what}."
        raise ConfigurationError(msg, hint="Use a name and a type, such as 'id long'.")
    return name, rest.strip()


def _typed(kind: Any, text: str) -> "SchemaChange":  # noqa: ANN401 - a kind of change
    from floe_iceberg.models import SchemaChange
    from floe_iceberg.table.types import parse_type

    name, rest = _named(text, "column definition")
    required = _REQUIRED.search(f" {rest}")
    wanted = rest[: len(rest) - len(required.group())].strip() if required else rest
    return SchemaChange(kind=kind, column=name, type=parse_type(wanted), required=required is not None)


def _commented(text: str) -> "SchemaChange":
    from floe_iceberg.models import SchemaChange, SchemaChangeKind

    quoted = _QUOTED.match(text)
    name, sign, doc = (quoted["name"], *quoted["rest"].partition("=")[1:]) if quoted else text.partition("=")
    if not name.strip() or not sign:
        msg = f"'{text}' is not a valid comment."
        raise ConfigurationError(msg, hint="Use NAME=TEXT, such as 'id=The key.'; an empty text removes the comment.")
    return SchemaChange(kind=SchemaChangeKind.DOC, column=name.strip(), doc=doc.strip())


def _moved(text: str) -> "SchemaChange":
    from floe_iceberg.models import SchemaChange, SchemaChangeKind

    name, rest = _named(text, "position")
    place = _PLACE.match(rest)
    if place is None:
        msg = f"'{text}' is not a valid position."
        raise ConfigurationError(msg, hint="Use 'note first' or 'note after id'.")
    after = place["after"]
    return SchemaChange(kind=SchemaChangeKind.REORDER, column=name, after=after.strip().strip('"`') if after else None)


def _columns(schema: "Schema") -> list[dict[str, Any]]:
    return [
        {
            "id": column.field_id,
            "name": column.name,
            "type": str(column.field_type),
            "required": column.required,
            "doc": column.doc,
        }
        for column in schema.fields
    ]


def _differences(before: "Schema", after: "Schema") -> "Iterator[tuple[str, str, str]]":
    """Yield the changed columns with their old and new definitions."""
    old, new = (
        {column.field_id: (place, column) for place, column in enumerate(one.fields, 1)} for one in (before, after)
    )
    moved = [column.field_id for column in before.fields if column.field_id in new] != [
        column.field_id for column in after.fields if column.field_id in old
    ]
    for number in dict.fromkeys([*old, *new]):
        was, now = (_shown(side.get(number), placed=moved) for side in (old, new))
        if was != now:
            name = (new.get(number) or old[number])[1].name
            yield name, was, now


def _shown(entry: Any, *, placed: bool) -> str:  # noqa: ANN401 - a place and a column
    if entry is None:
        return ""
    place, column = entry
    text = f"{column.name} {column.field_type}{' required' if column.required else ''}"
    text += f" '{column.doc}'" if column.doc else ""
    return f"{place}. {text}" if placed else text
