"""``floe init``."""

from pathlib import Path
from typing import Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.output import Report

app = single_command()


@command(app)
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Project folder; created if it does not exist.")
    ] = Path(),
    name: Annotated[
        str | None, typer.Option(help="Project name; default: the folder's name.", show_default=False)
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> Report:
    """Create a new, runnable project: floe.yaml, PySpark assets, README and .gitignore.

    Examples:
        floe init shop
        floe init . --name shop  # in an existing folder
    """
    from floe_cli.scaffold import project_name, write_project

    chosen = project_name(folder, name)
    written = write_project(folder, chosen, force=force)
    enter = [] if folder == Path() else [f"cd {folder}"]
    steps = [*enter, "floe validate", "floe run", "floe dev"]
    return Report(
        data={"name": chosen, "path": str(folder.resolve()), "files": [path.name for path in written]},
        text=[
            f"Created project '{chosen}' in {folder.resolve()}: {', '.join(path.name for path in written)}",
            "",
            "Next:",
            *(f"  {step}" for step in steps),
        ],
    )
