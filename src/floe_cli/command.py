"""Turn functions into commands: lazy groups, common options and uniform output.

``floe --help`` imports this module, so it uses only typer and the standard library.
"""

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from floe_cli.output import Report


class OutputFormat(StrEnum):
    """Format of the output."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", help="Output format: text (default) or json.", show_default=False),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Show INFO logs.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show DEBUG logs and tracebacks.")]

ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        "-p",
        metavar="DIR",
        envvar="FLOE_PROJECT",
        help="Folder with floe.yaml; default: this folder or the nearest parent.",
        show_default=False,
        show_envvar=True,
    ),
]
EnvOption = Annotated[
    str | None,
    typer.Option(
        "--env",
        "-e",
        metavar="NAME",
        envvar="FLOE_ENV",
        help="Environment in floe.yaml; default: the base environment.",
        show_default=False,
        show_envvar=True,
    ),
]

# A command with this parameter gets --project and --env, and receives the project they name.
WORKSPACE = "workspace"
_WORKSPACE_OPTIONS: dict[str, tuple[Any, Any]] = {"project": (ProjectOption, None), "env": (EnvOption, None)}
_COMMON_OPTIONS: dict[str, tuple[Any, Any]] = {
    "output": (OutputOption, None),
    "verbose": (VerboseOption, False),
    "debug": (DebugOption, False),
}


# Separates the help text from the examples in a command's docstring.
_EXAMPLES = "\n\nExamples:\n"


class FloeCommand(TyperCommand):
    """A command whose help ends with copyable examples."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - typer keeps the types private
        """Write one example per line, unwrapped, so that it can be copied."""
        if not self.epilog:
            return
        with formatter.section("Examples"):
            for line in self.epilog.splitlines():
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class FloeGroup(TyperGroup):
    """A group that shows its help when called without a command, and suggests a command for a mistyped one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer keeps the type private
        """Show the help when there are no arguments."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps the types private
        """Find the command, or suggest a similar one."""
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and name not in (known := self.list_commands(ctx)):
            close = get_close_matches(name, known, n=1)
            ctx.fail(f"No such command '{name}'." + (f" Did you mean '{close[0]}'?" if close else ""))
        return super().resolve_command(ctx, args)


class LazyGroup(FloeGroup):
    """A group whose commands are modules with an ``app`` that are imported on first use."""

    members: ClassVar[dict[str, tuple[str, str]]] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002 - typer keeps the type private
        """List the commands in declaration order."""
        return list(self.members)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, ARG002 - typer keeps the types private
        """Import a command."""
        if cmd_name not in self.members:
            return None
        command = get_command(import_module(self.members[cmd_name][0]).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - typer keeps the types private
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.members.items()])


def command_group(summary: str) -> typer.Typer:
    """Return an empty group of commands."""
    group = typer.Typer(cls=FloeGroup, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    # Without a callback, typer turns a group with one command into that command.
    group.callback(help=summary)(lambda: None)
    return group


def single_command() -> typer.Typer:
    """Return the app for a top-level command of ``floe``."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def remember_output(context: typer.Context, output: OutputFormat | None) -> None:
    """Store the output format given before the command name."""
    context.ensure_object(dict)["output"] = output


def command(
    app: typer.Typer, name: str | None = None
) -> Callable[[Callable[..., "Report | None"]], Callable[..., "Report | None"]]:
    """Register a function as a command and print the report it returns in the chosen format.

    The function's parameters become the command's options. Every command also gets ``--output``, ``--verbose`` and
    ``--debug``; a ``workspace`` parameter becomes ``--project`` and ``--env``. The docstring is the help text; its
    ``Examples:`` section, one command per line, becomes the epilog.
    """

    def register(function: Callable[..., "Report | None"]) -> Callable[..., "Report | None"]:
        own = inspect.signature(function, eval_str=True)

        @functools.wraps(function)
        def run(context: typer.Context, **arguments: Any) -> None:  # noqa: ANN401 - typed by the wrapped function
            from floe_cli.output import configure_streams, emit
            from floe_cli.workspace import Workspace

            shared = context.find_root().ensure_object(dict)
            inherited = shared.get("output")
            output = arguments.pop("output") or inherited or OutputFormat.TEXT
            verbose, debug = arguments.pop("verbose"), arguments.pop("debug")
            configure_streams(verbose=verbose, debug=debug)
            as_json = output is OutputFormat.JSON
            workspace: Workspace | None = None
            if WORKSPACE in own.parameters:
                source = context.get_parameter_source("env")
                named = source is not None and source.name == "COMMANDLINE"
                workspace = Workspace(
                    arguments.pop("project"),
                    arguments.pop("env") or None,
                    named=named,
                    prints_text=not as_json,
                    log_level="DEBUG" if debug else "INFO" if verbose else None,
                )
                arguments[WORKSPACE] = shared[WORKSPACE] = workspace
            report = function(**arguments)
            if report is not None:
                emit(report, as_json=as_json, place=workspace.place if workspace else None)
                raise typer.Exit(report.exit_code)

        run.__signature__ = _with_common_options(own)  # type: ignore[attr-defined]
        text, _, examples = (inspect.getdoc(function) or "").partition(_EXAMPLES)
        app.command(name, cls=FloeCommand, help=text, epilog=inspect.cleandoc(examples))(run)
        return function

    return register


def _with_common_options(signature: inspect.Signature) -> inspect.Signature:
    keyword = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    own = [parameter.replace(kind=keyword) for name, parameter in signature.parameters.items() if name != WORKSPACE]
    added = (_WORKSPACE_OPTIONS if WORKSPACE in signature.parameters else {}) | _COMMON_OPTIONS
    options = [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    return inspect.Signature([context, *own, *options])
