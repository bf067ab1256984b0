"""The entry point of ``floe``: the list of commands and the exit code.

Exit codes: 0 success, 1 user error, 2 system error, 130 interrupted, 141 broken pipe.
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
    """Lists every command with its help line and imports a command's module only to run it."""

    members = {  # noqa: RUF012 - a class-level table, never changed
        "init": ("floe_cli.commands.project.init", "Create a new, runnable project."),
        "validate": ("floe_cli.commands.project.validate", "Check floe.yaml and list every error."),
        "compile": ("floe_cli.commands.project.compile", "Compile floe.yaml into artifacts."),
        "plan": ("floe_cli.commands.pipeline.plan", "Show what a run would read and write."),
        "apply": ("floe_cli.commands.catalog.apply", "Change tables to match floe.yaml."),
        "run": ("floe_cli.commands.pipeline.run", "Materialize assets on Spark, then check and publish them."),
        "test": ("floe_cli.commands.pipeline.test", "Check published tables without writing to them."),
        "dev": ("floe_cli.commands.pipeline.dev", "Run the Dagster UI for this project."),
        "publish": ("floe_cli.commands.pipeline.publish", "Publish rows that were held back by their checks."),
        "discard": ("floe_cli.commands.pipeline.discard", "Discard rows that were held back by their checks."),
        "doctor": ("floe_cli.commands.project.doctor", "Check this machine and project, and suggest fixes."),
        "catalog": (
            "floe_cli.commands.catalog.connection",
            "Test the catalog connection and administer a Polaris server.",
        ),
        "namespaces": ("floe_cli.commands.catalog.namespaces", "List, create and delete namespaces."),
        "tables": ("floe_cli.commands.tables", "Create, read, change, roll back and maintain tables."),
        "views": ("floe_cli.commands.catalog.views", "List, show and drop views in the catalog."),
        "tenants": ("floe_cli.commands.tenants", "Manage tenants, from bootstrap to off-boarding."),
        "spark": ("floe_cli.commands.spark", "Keep a local Spark server running between commands."),
        "plugins": ("floe_cli.commands.project.plugins", "List and check installed plugins."),
        "schema": ("floe_cli.commands.project.schema", "Export the JSON Schema of floe.yaml for editors."),
    }


app = typer.Typer(
    name="floe",
    cls=RootGroup,
    # Importing Rich takes longer than everything else --help does.
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
    version: Annotated[  # noqa: ARG001 - handled by the callback
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Iceberg tables that survive crashes, retries and concurrent writers.

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
    except Exception as err:  # noqa: BLE001 - the user gets a message instead of a traceback
        from floe_cli.failures import show_failure

        workspace = shared.get(WORKSPACE)
        code = show_failure(err, argv, place=workspace.place if workspace else None)
    if code == INTERRUPTED:
        # The terminal has already echoed ^C.
        print("\nInterrupted." if sys.stderr.isatty() else "Interrupted.", file=sys.stderr)  # noqa: T201 - output for the user
    if code == READER_GONE:
        _discard_stdout()
    return code if isinstance(code, int) else 0


def _discard_stdout() -> None:
    """Keep the interpreter's last flush from failing on the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None
