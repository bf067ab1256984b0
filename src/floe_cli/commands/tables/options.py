"""Arguments and options that several table commands share."""

from collections.abc import Sequence
from typing import Annotated

import typer

from floe_cli.output import count

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="Table, such as bronze.orders.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, without changing anything.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Maximum number of entries.", show_default=False)]
SnapshotOption = Annotated[
    int | None, typer.Option("--snapshot", metavar="ID", help="Snapshot id.", show_default=False)
]
RefOption = Annotated[str | None, typer.Option("--ref", metavar="NAME", help="Branch or tag.", show_default=False)]

_SHOWN_FILES = 10


def foreign_lines(files: Sequence[str]) -> list[str]:
    """List the files that were kept because they are outside the table's location."""
    if not files:
        return []
    more = [f"  … and {len(files) - _SHOWN_FILES} more"] if len(files) > _SHOWN_FILES else []
    kept = f"Kept {count(len(files), 'file')} outside the table's location:"
    return [kept, *(f"  {file}" for file in files[:_SHOWN_FILES]), *more]
