"""Where ``floe`` starts: the list of commands, and how a run ends.

Exit codes: 0 ok, 1 the user can fix it, 2 the system failed, 130 interrupted, 141 the reader went away.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from floe_cli.command import WORKSPACE, LazyGroup, OutputOption, remember_output
from floe_core.observing.privacy import opt_out_of_usage_statistics

INTERRUPTED = 130
READER_GONE = 141


class RootGroup(LazyGroup):
    """Knows every command by name and help line, and imports its module only to run it."""

    members = {  # noqa: RUF012 - a class-level table, never changed
        "init": ("floe_cli.commands.project.init", "Make a new project that runs."),
        "validate": ("floe_cli.commands.project.validate", "Check floe.yaml and list every mistake."),
        "compile": ("floe_cli.commands.project.compile", "Turn floe.yaml into compiled artifacts."),
        "plan": ("floe_cli.commands.pipeline.plan", "Show what a run would read and write."),
        "apply": ("floe_cli.commands.catalog.apply", "Bring tables to what floe.yaml declares."),
        "run": ("floe_cli.commands.pipeline.run", "Materialise assets on Spark, check and publish them."),
        "test": ("floe_cli.commands.pipeline.test", "Check what is published, without a write to it."),
        "dev": ("floe_cli.commands.pipeline.dev", "Open the Dagster UI on this project."),
        "publish": ("floe_cli.commands.pipeline.publish", "Let rows through that their checks held back."),
        "discard": ("floe_cli.commands.pipeline.discard", "Throw away rows that their checks held back."),
        "doctor": ("floe_cli.commands.project.doctor", "Check this machine and project, and say what to do."),
        "catalog": (
            "floe_cli.commands.catalog.connection",
            "The catalog: try the connection, administer a Polaris server.",
        ),
        "namespaces": ("floe_cli.commands.catalog.namespaces", "Namespaces: where tables live."),
        "tables": ("floe_cli.commands.tables", "Tables: see, create, read, roll back and maintain them."),
        "views": ("floe_cli.commands.catalog.views", "Views of the catalog: see and drop them."),
        "tenants": ("floe_cli.commands.tenants", "Tenants: isolated catalogs, from bootstrap to off-boarding."),
        "spark": ("floe_cli.commands.spark", "Keep a local Spark warm between commands."),
        "plugins": ("floe_cli.commands.project.plugins", "See and check installed plugins."),
        "schema": ("floe_cli.commands.project.schema", "The JSON Schema of floe.yaml, for editors."),
    }


app = typer.Typer(
    name="floe",
    cls=RootGroup,
    # Rich help costs more than the rest of --help together.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:  # noqa: FBT001 - called by typer
    if value:
        from floe_core.runtime.distribution import version

        typer.echo(f"floe {version()}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    *,
    output: OutputOption = None,
    version: Annotated[  # noqa: ARG001 - handled by its callback
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Iceberg tables that survive crashes, retries and second writers.

    A project is a floe.yaml and your PySpark code. Start with: floe init
    """
    remember_output(context, output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    opt_out_of_usage_statistics()
    argv = list(sys.argv[1:] if arguments is None else arguments)
    shared: dict[str, Any] = {}
    try:
        code: Any = get_command(app).main(args=argv, prog_name="floe", standalone_mode=False, obj=shared)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as end:
        code = end.code
        if isinstance(end.__context__, BrokenPipeError):
            code = READER_GONE
    except BrokenPipeError:
        code = READER_GONE
    except Exception as err:  # noqa: BLE001 - whatever it was, the user gets a message and no traceback
        from floe_cli.failures import show_failure

        workspace = shared.get(WORKSPACE)
        code = show_failure(err, argv, place=workspace.place if workspace else None)
    if code == INTERRUPTED:
        # A terminal has echoed ^C by then.
        print("\nInterrupted." if sys.stderr.isatty() else "Interrupted.", file=sys.stderr)  # noqa: T201 - the command line talks to people
    if code == READER_GONE:
        _discard_stdout()
    return code if isinstance(code, int) else 0


def _discard_stdout() -> None:
    """Keep the interpreter's last flush from failing on the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None
