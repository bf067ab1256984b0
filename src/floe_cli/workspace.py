"""The project a command works on: found, compiled, and opened when the catalog is needed."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.project import ProjectConnection

_ARTIFACTS = Path(".floe/compiled_artifacts.json")


def project_file(folder: Path | None) -> Path:
    """Return the floe.yaml of a folder, or of the nearest one above the working directory.

    Raises:
        ConfigurationError: There is none.
    """
    from floe_core.config import find_project_file

    # Relative, so that messages show the file as the user would name it.
    return folder or Path(os.path.relpath(find_project_file(Path.cwd())))


@dataclass(frozen=True)
class Workspace:
    """A project and an environment, as the command line names them.

    Attributes:
        folder: Where floe.yaml is; None looks for it here and above.
        environment: Which environment; None takes the one last compiled.
    """

    folder: Path | None = None
    environment: str | None = None

    @cached_property
    def artifacts(self) -> CompiledArtifacts:
        """The project as it is now.

        floe.yaml is compiled in memory, so that artifacts on disk are never stale; on a machine that has artifacts
        and no floe.yaml, the artifacts are the project.

        Raises:
            ConfigurationError: There is no project, or it has mistakes.
        """
        from floe_core.compile import compile_project
        from floe_core.schemas import CompiledArtifacts

        if deployed := _deployed_artifacts(self.folder):
            return CompiledArtifacts.from_json_file(deployed)
        file = project_file(self.folder)
        return compile_project(file, environment=self.environment or _last_environment(file))

    @contextmanager
    def connection(self) -> Iterator[ProjectConnection]:
        """Open the project's catalog for the length of a block."""
        from floe_core.telemetry import configure_tracing
        from floe_iceberg.project import open_project

        configure_tracing(self.artifacts.observability)
        with open_project(self.artifacts) as connection:
            yield connection

    @contextmanager
    def tables(self) -> Iterator[IcebergTableManager]:
        """Open the project's tables for the length of a block."""
        from floe_core.telemetry import configure_tracing
        from floe_iceberg import IcebergTableManager

        configure_tracing(self.artifacts.observability)
        with IcebergTableManager.from_artifacts(self.artifacts) as manager:
            yield manager


def _deployed_artifacts(folder: Path | None) -> Path | None:
    from floe_core.config.document import PROJECT_FILE_NAMES

    start = (folder or Path.cwd()).resolve()
    for place in [start] if folder else [start, *start.parents]:
        if place.is_file() or any((place / name).exists() for name in PROJECT_FILE_NAMES):
            return None
        if (place / _ARTIFACTS).is_file():
            return place / _ARTIFACTS
    return None


def _last_environment(project: Path) -> str | None:
    folder = project if project.is_dir() else project.parent
    try:
        content = json.loads((folder / _ARTIFACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content.get("environment") if isinstance(content, dict) else None
