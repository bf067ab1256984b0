"""``floe validate``."""

from pathlib import Path

from floe_cli.command import ProjectOption, command, single_command
from floe_cli.commands.project.compile import CompileEnvOption, MissingEnvOption
from floe_cli.output import Report, count, working
from floe_cli.workspace import project_file

app = single_command()


@command(app)
def validate(
    project: ProjectOption = None, env: CompileEnvOption = None, *, allow_missing_env: MissingEnvOption = False
) -> Report:
    """Check floe.yaml and the assets, and list every mistake with its location.

    Examples:
        floe validate
        floe validate --env prod --allow-missing-env  # on a machine without prod's secrets
    """
    from floe_cli.validation import asset_problems, can_load, table_problems, unused_settings
    from floe_core.compile import compile_project
    from floe_core.config.document import fail
    from floe_core.config.project import load_with_places

    file = project_file(project)
    artifacts = compile_project(file, environment=env or None, allow_missing_env=allow_missing_env)
    loaded = load_with_places(Path(file), environment=env or None, allow_missing_env=allow_missing_env)
    layers = loaded.layers
    problems = table_problems(layers, artifacts)
    with working("Loading the assets"):
        problems += asset_problems(layers, artifacts)
    if problems:
        fail(layers.document.file, problems)
    tables = count(len(artifacts.tables), "table")
    unused = unused_settings(loaded.config.catalog)
    unchecked = artifacts.orchestration.module is not None and not can_load()
    return Report(
        data={
            "file": str(file),
            "name": artifacts.name,
            "environment": artifacts.environment,
            "tables": list(artifacts.tables),
            "fingerprint": artifacts.fingerprint,
            "unused": unused,
        },
        text=[
            f"{file} is valid: project '{artifacts.name}', {tables} declared.",
            *(["Assets were not checked: the 'dagster' extra is not installed."] if unchecked else []),
            *unused,
        ],
    )
