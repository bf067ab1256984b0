"""Load a project: read it, upgrade it, merge the environment, validate it, and report all mistakes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from floe_core.config.checks import (
    literal_secret_problems,
    missing_variable_problems,
    unknown_column_problems,
    unknown_plugin_problems,
)
from floe_core.config.document import PROJECT_FILE_NAMES, fail, read_document
from floe_core.config.environments import Layers, environment_names, environment_problems
from floe_core.config.problems import nearest, problems_of
from floe_core.config.upgrades import upgraded
from floe_core.errors import ConfigProblem, ConfigurationError
from floe_core.schemas import ProjectConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from floe_core.config.document import Document
    from floe_core.plugins.metadata import PluginType


@dataclass(frozen=True)
class LoadedProject:
    """A valid project and its source document, which gives later checks the location of a value."""

    config: ProjectConfig
    layers: Layers
    path: Path


def load_project(
    path: Path,
    *,
    environment: str | None = None,
    environ: Mapping[str, str] | None = None,
    allow_missing_env: bool = False,
    known_plugins: Mapping[PluginType, Collection[str]] | None = None,
) -> ProjectConfig:
    """Load floe.yaml for one environment.

    Args:
        path: The file, or the folder that contains it.
        environment: The environment to merge into the base; none by default.
        environ: Environment variables for checking ``${VAR}`` references; those of the process by default.
        allow_missing_env: Accept references to variables that are not set.
        known_plugins: Names of the installed plugins; without them, names are not checked.

    Raises:
        ConfigurationError: The file is not valid; ``problems`` lists every mistake with its location.
        SchemaVersionError: The file was written for a newer version of floe.
    """
    loaded = load_with_places(
        path,
        environment=environment,
        environ=environ,
        allow_missing_env=allow_missing_env,
        known_plugins=known_plugins,
    )
    return loaded.config


def load_with_places(
    path: Path,
    *,
    environment: str | None = None,
    environ: Mapping[str, str] | None = None,
    allow_missing_env: bool = False,
    known_plugins: Mapping[PluginType, Collection[str]] | None = None,
) -> LoadedProject:
    """Load floe.yaml like ``load_project``, and keep the document for later checks."""
    path = _project_file(path)
    document = upgraded(read_document(path))
    problems = [*document.problems, *environment_problems(document), *literal_secret_problems(document)]
    problems += unknown_plugin_problems(document, known_plugins or {}, environ)
    reported = {(problem.line, problem.column) for problem in problems}
    selected: ProjectConfig | None = None
    for name in (None, *environment_names(document)):
        layers = Layers(document, name)
        config, found = _validated(layers)
        problems += [problem for problem in found if (problem.line, problem.column) not in reported]
        selected = config if name == environment else selected
    if environment is not None and environment not in environment_names(document):
        problems.append(_unknown_environment(document, environment))
    layers = Layers(document, environment)
    if not allow_missing_env:
        # Report one mistake per value: a reference that is not allowed is not also a missing variable.
        reported = {(problem.line, problem.column) for problem in problems}
        missing = missing_variable_problems(layers, layers.data(), environ)
        problems += [problem for problem in missing if (problem.line, problem.column) not in reported]
    if problems or selected is None:
        fail(document.file, problems)
    return LoadedProject(selected, layers, path)


def _project_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in PROJECT_FILE_NAMES:
        if (path / name).is_file():
            return path / name
    msg = f"No floe.yaml found in {path}."
    raise ConfigurationError(msg, hint="Create a project with: floe init")


def _validated(layers: Layers) -> tuple[ProjectConfig | None, Sequence[ConfigProblem]]:
    data: dict[str, Any] = layers.data()
    unknown = unknown_column_problems(layers, data)
    try:
        return ProjectConfig.model_validate(data), unknown
    except ValidationError as err:
        invalid = problems_of(err, layers, ProjectConfig)
        # Report one mistake per value: a term that is not valid has no column to look up.
        places = {(problem.line, problem.column) for problem in invalid}
        return None, [*(problem for problem in unknown if (problem.line, problem.column) not in places), *invalid]


def _unknown_environment(document: Document, name: str) -> ConfigProblem:
    known = environment_names(document)
    close = nearest(name, known)
    message = f"unknown environment '{name}'" + (f", did you mean '{close}'?" if close else "")
    fix = f"Known environments: {', '.join(known)}" if known else "Add it under 'environments', or leave it out"
    return Layers(document).problem(message, ("environments",), fix=fix, key=True)
