"""``floe validate``."""

from floe_cli.command import ProjectOption, command, single_command
from floe_cli.commands.compile import CompileEnvOption, MissingEnvOption
from floe_cli.output import Report, count
from floe_cli.workspace import project_file

app = single_command()


@command(app)
def validate(
    project: ProjectOption = None, env: CompileEnvOption = None, *, allow_missing_env: MissingEnvOption = False
) -> Report:
    """Check floe.yaml and list every mistake with its place."""
    from floe_core.compile import compile_project

    file = project_file(project)
    artifacts = compile_project(file, environment=env or None, allow_missing_env=allow_missing_env)
    tables = count(len(artifacts.tables), "table")
    return Report(
        data={
            "file": str(file),
            "name": artifacts.name,
            "environment": artifacts.environment,
            "tables": list(artifacts.tables),
            "fingerprint": artifacts.fingerprint,
        },
        text=[f"{file} is valid: project '{artifacts.name}', {tables} declared."],
    )
