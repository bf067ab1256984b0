"""``floe compile``: turn floe.yaml into one frozen value that all other parts of floe use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel, ValidationError

from floe_core.config.checks import PLUGIN_SECTIONS
from floe_core.config.document import fail
from floe_core.config.problems import problems_of
from floe_core.config.project import load_with_places
from floe_core.errors import PluginError
from floe_core.governance import PolicyEnforcer
from floe_core.plugins.host.connecting import options_schema
from floe_core.plugins.host.discovery import plugin_key
from floe_core.plugins.metadata import PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_core.runtime.distribution import version
from floe_core.schemas import CompiledArtifacts, EffectiveRetention
from floe_core.schemas.artifacts import DEFAULT_ARTIFACTS_PATH
from floe_core.secrets import expand, missing_variables
from floe_core.telemetry import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from floe_core.config.project import LoadedProject
    from floe_core.errors import ConfigProblem
    from floe_core.plugins.host.discovery import PluginInfo
    from floe_core.plugins.metadata import PluginMetadata
    from floe_core.schemas import ProjectConfig

_log = get_logger(__name__)

_SECTIONS_WITH_OPTIONS = ("catalog", "storage", "vault")


class Plugins(Protocol):
    """The methods of a plugin registry that compiling needs."""

    def list(self) -> Iterable[PluginInfo]:
        """List installed plugins without loading them."""

    def get(self, plugin_type: PluginType, name: str, /) -> PluginMetadata:
        """Return a plugin."""


def compile_project(
    path: Path,
    *,
    environment: str | None = None,
    registry: Plugins | None = None,
    environ: Mapping[str, str] | None = None,
    allow_missing_env: bool = False,
) -> CompiledArtifacts:
    """Validate a project and resolve it for one environment; equal inputs give equal artifacts.

    Args:
        path: floe.yaml, or the folder that contains it.
        environment: The environment to compile; only the base by default.
        registry: The plugin registry; all installed plugins by default.
        environ: Environment variables for checking references; those of the process by default.
        allow_missing_env: Accept references to variables that are not set.

    Raises:
        ConfigurationError: The file is not valid; ``problems`` lists every mistake with its location.
        SchemaVersionError: The file was written for a newer version of floe.
    """
    registry = registry or PluginRegistry()
    installed = list(registry.list())
    known = {kind: {info.name for info in installed if info.type == kind} for kind in PLUGIN_SECTIONS.values()}
    project = load_with_places(
        path,
        environment=environment,
        environ=environ,
        allow_missing_env=allow_missing_env,
        known_plugins=known,
    )
    chosen = _chosen_plugins(project.config, environ)
    if problems := [*_option_problems(project, chosen, registry), *_check_problems(project, registry, installed)]:
        fail(project.layers.document.file, problems)
    artifacts = CompiledArtifacts(
        **dict(project.config),
        floe_version=version(),
        environment=environment,
        plugins=_versions(chosen, installed),
        retention=_retention(project.config),
    )
    artifacts = artifacts.model_copy(update={"fingerprint": artifacts.content_digest()})
    return artifacts.rooted_at(project.path.parent)


def write_artifacts(artifacts: CompiledArtifacts, path: Path | None = None) -> Path:
    """Write artifacts, by default to ``.floe/compiled_artifacts.json`` of their project.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    return artifacts.to_json_file(path or artifacts.project_root / DEFAULT_ARTIFACTS_PATH)


def _chosen_plugins(config: ProjectConfig, environ: Mapping[str, str] | None) -> dict[str, tuple[PluginType, str]]:
    named = {section: getattr(config, section).type for section in PLUGIN_SECTIONS}
    names = {section: str(name) for section, name in named.items() if name is not None}
    return {
        section: (PLUGIN_SECTIONS[section], expand(name, environ))
        for section, name in names.items()
        if not missing_variables(name, environ)
    }


def _versions(chosen: Mapping[str, tuple[PluginType, str]], installed: Iterable[PluginInfo]) -> dict[str, str]:
    found = {(info.type, info.name): info for info in installed}
    return {
        plugin_key(*key): found[key].distribution_version or found[key].version or ""
        for key in chosen.values()
        if key in found
    }


def _retention(config: ProjectConfig) -> dict[str, EffectiveRetention]:
    settled = {name: PolicyEnforcer.retention_of(config.governance, t.retention) for name, t in config.tables.items()}
    return {
        name: EffectiveRetention(snapshot_days=int(days), derivation=days.derivation) for name, days in settled.items()
    }


def _option_problems(
    project: LoadedProject, chosen: Mapping[str, tuple[PluginType, str]], registry: Plugins
) -> list[ConfigProblem]:
    problems: list[ConfigProblem] = []
    for section in _SECTIONS_WITH_OPTIONS:
        schema = _options_schema(section, project, chosen, registry)
        if schema is None:
            continue
        options: dict[str, str] = getattr(project.config, section).options
        try:
            schema.model_validate(options)
        except ValidationError as err:
            # A value from the environment is checked when the plugin is configured with it.
            deferred = {key for key, value in options.items() if "${" in value}
            located = problems_of(err, project.layers, schema, at=(section, "options"))
            problems += [
                problem
                for problem, item in zip(located, err.errors(include_url=False), strict=True)
                if not item["loc"] or item["loc"][0] not in deferred
            ]
    return problems


def _check_problems(project: LoadedProject, registry: Plugins, installed: Iterable[PluginInfo]) -> list[ConfigProblem]:
    """Return the checks whose quality plugin is not installed, or whose options are not valid for it."""
    names = sorted(info.name for info in installed if info.type is PluginType.QUALITY)
    problems: list[ConfigProblem] = []
    for table, declared in project.config.tables.items():
        for index, check in enumerate(declared.checks):
            path = ("tables", table, "checks", index)
            if check.plugin is None:
                continue
            if check.plugin not in names:
                message = f"a check of {table} uses the quality plugin '{check.plugin}', which is not installed"
                fix = (
                    f"Installed: {', '.join(names) or 'none'}. Use one of them, or install the package that provides it"
                )
                problems.append(project.layers.problem(message, (*path, "plugin"), fix=fix))
                continue
            schema = registry.get(PluginType.QUALITY, check.plugin).get_config_schema()
            try:
                _ = schema.model_validate(check.options) if schema else None
            except ValidationError as err:
                problems += problems_of(err, project.layers, schema, at=(*path, "options")) if schema else []
    return problems


def _options_schema(
    section: str, project: LoadedProject, chosen: Mapping[str, tuple[PluginType, str]], registry: Plugins
) -> type[BaseModel] | None:
    """Return the plugin's model of ``options``; None if it has none or the plugin cannot be loaded here."""
    if section not in chosen:
        return None
    try:
        plugin = registry.get(*chosen[section])
    except PluginError as err:
        # It may be installed where the project runs, and is loaded again there.
        _log.warning("compile.plugin_not_checked", plugin=plugin_key(*chosen[section]), reason=str(err))
        return None
    return options_schema(plugin, type(getattr(project.config, section)))
