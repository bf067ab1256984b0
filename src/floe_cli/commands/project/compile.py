"""``floe compile``."""

from pathlib import Path
from typing import Annotated

import typer

from floe_cli.command import ProjectOption, command, single_command
from floe_cli.output import Report, count, working
from floe_cli.workspace import project_file

app = single_command()

CompileEnvOption = Annotated[
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
MissingEnvOption = Annotated[
    bool, typer.Option("--allow-missing-env", help="Allow references to ${VAR} that are not set on this machine.")
]


@command(app, "compile")
def compile_artifacts(
    project: ProjectOption = None,
    env: CompileEnvOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Output file; default: .floe/compiled_artifacts.json in the project.", show_default=False),
    ] = None,
    *,
    connect: Annotated[bool, typer.Option("--connect", help="Test the catalog connection before writing.")] = False,
    allow_missing_env: MissingEnvOption = False,
) -> Report:
    """Compile floe.yaml into artifacts, which contain no secrets.

    Examples:
        floe compile
        floe compile --env prod --out build/prod.json
        floe compile --connect  # also test the catalog connection
    """
    from floe_core.compile import compile_project, write_artifacts

    artifacts = compile_project(project_file(project), environment=env or None, allow_missing_env=allow_missing_env)
    response = None
    if connect:
        from floe_cli.doctor.connection import probe_catalog
        from floe_iceberg.catalog.connection import open_project

        with working("Connecting to the catalog"), open_project(artifacts) as connection:
            response = probe_catalog(connection)
    path = write_artifacts(artifacts, out)
    summary = f"project '{artifacts.name}'{_in(artifacts.environment)}, {count(len(artifacts.tables), 'table')}"
    return Report(
        data={
            "path": str(path),
            "name": artifacts.name,
            "environment": artifacts.environment,
            "fingerprint": artifacts.fingerprint,
            "plugins": artifacts.plugins,
            "tables": list(artifacts.tables),
            "connected": connect,
        },
        text=[f"Wrote {path}: {summary}.", *([f"Connected: {response}."] if response else [])],
    )


def _in(environment: str | None) -> str:
    return f" in environment '{environment}'" if environment else ""
