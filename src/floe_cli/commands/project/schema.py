"""``floe schema``."""

from pathlib import Path
from typing import Annotated

import typer

from floe_cli.command import command, command_group
from floe_cli.output import Report, json_text

app = command_group("Export the JSON Schema of floe.yaml for editors.")


@command(app)
def export(
    out: Annotated[Path | None, typer.Option(help="Output file; default: standard output.", show_default=False)] = None,
) -> Report:
    """Print the JSON Schema of floe.yaml, or write it to a file.

    Editors use it for completion and validation.

    Examples:
        floe schema export --out .floe/schema.json
    """
    from floe_core.config import json_schema

    schema = json_schema()
    if out is None:
        return Report(data=schema, raw=lambda stream: stream.write(json_text(schema)))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json_text(schema), encoding="utf-8")
    return Report(
        data={"path": str(out)},
        text=[
            f"Wrote {out}. To use it in an editor, start floe.yaml with this line:",
            f"# yaml-language-server: $schema={out}",
        ],
    )
