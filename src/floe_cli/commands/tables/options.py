"""Arguments and options that several table commands share."""

from typing import Annotated

import typer

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="Such as bronze.orders.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Show at most this many.", show_default=False)]
SnapshotOption = Annotated[
    int | None, typer.Option("--snapshot", metavar="ID", help="Snapshot id.", show_default=False)
]
RefOption = Annotated[str | None, typer.Option("--ref", metavar="NAME", help="Branch or tag.", show_default=False)]
