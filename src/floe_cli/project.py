"""The project a command works on: found, compiled, and opened when the catalog is needed."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg.project import ProjectConnection

ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        "-p",
        metavar="DIR",
        envvar="FLOE_PROJECT",
        help="Folder of floe.yaml; default: here or above.",
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
        help="Environment of floe.yaml; default: the one last compiled.",
        show_default=False,
        show_envvar=True,
    ),
]

_ARTIFACTS = Path(".floe/compiled_artifacts.json")


def project_file(folder: Path | None) -> Path:
    """Return the floe.yaml of a folder, or of the nearest one above the working directory.

    Raises:
        ConfigurationError: There is none.
    """
    from floe_core.config import find_project_file

    if folder is None:
        return find_project_file(Path.cwd())
    file = folder if folder.is_file() else folder / "floe.yaml"
    if not file.is_file():
        msg = f"There is no floe.yaml in {folder}."
        raise ConfigurationError(msg, hint=f"Make a project with: floe init {folder}")
    return file


def load_artifacts(folder: Path | None, env: str | None) -> CompiledArtifacts:
    """Return the project as it is now, for the environment asked for or else the one last compiled.

    floe.yaml is compiled in memory, so that artifacts on disk are never stale; on a machine that has artifacts and
    no floe.yaml, the artifacts are the project.
    """
    from floe_core.compile import compile_project
    from floe_core.schemas import CompiledArtifacts

    deployed = _deployed_artifacts(folder)
    if deployed is not None:
        return CompiledArtifacts.from_json_file(deployed)
    file = project_file(folder)
    return compile_project(file, env or _last_environment(file))


def _deployed_artifacts(folder: Path | None) -> Path | None:
    start = (folder or Path.cwd()).resolve()
    for place in [start] if folder else [start, *start.parents]:
        if (place / "floe.yaml").exists() or place.is_file():
            return None
        if (place / _ARTIFACTS).is_file():
            return place / _ARTIFACTS
    return None


def _last_environment(file: Path) -> str | None:
    import json

    try:
        content = json.loads((file.parent / _ARTIFACTS).read_text(encoding="utf-8"))
        return content.get("environment") or None
    except (OSError, ValueError, AttributeError):
        return None


@contextmanager
def opened(folder: Path | None, env: str | None) -> Iterator[ProjectConnection]:
    """Open the project's catalog for the length of a block."""
    from floe_core.telemetry import configure_tracing
    from floe_iceberg.project import open_project

    artifacts = load_artifacts(folder, env)
    configure_tracing(artifacts.observability)
    with open_project(artifacts) as connection:
        yield connection
