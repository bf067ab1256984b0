"""Load a plugin from its entry point and check that it is compatible."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from floe_core.errors import FloeStorageError, PluginIncompatibleError, PluginLoadError
from floe_core.observing.redaction import redact_text
from floe_core.plugins.catalog import CatalogPlugin
from floe_core.plugins.compute import ComputePlugin
from floe_core.plugins.extensions import (
    DbtPlugin,
    IdentityPlugin,
    IngestionPlugin,
    LineageBackendPlugin,
    SemanticLayerPlugin,
    TelemetryBackendPlugin,
)
from floe_core.plugins.host.discovery import Offer, plugin_key, type_label
from floe_core.plugins.metadata import PLUGIN_API_VERSION, PluginMetadata, PluginType
from floe_core.plugins.orchestrator import OrchestratorPlugin
from floe_core.plugins.quality import QualityPlugin
from floe_core.plugins.secrets import SecretsPlugin
from floe_core.plugins.storage import StoragePlugin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import Distribution

PLUGIN_CONTRACTS: Mapping[PluginType, type] = {
    PluginType.COMPUTE: ComputePlugin,
    PluginType.ORCHESTRATOR: OrchestratorPlugin,
    PluginType.CATALOG: CatalogPlugin,
    PluginType.STORAGE: StoragePlugin,
    PluginType.TELEMETRY_BACKEND: TelemetryBackendPlugin,
    PluginType.LINEAGE_BACKEND: LineageBackendPlugin,
    PluginType.DBT: DbtPlugin,
    PluginType.SEMANTIC_LAYER: SemanticLayerPlugin,
    PluginType.INGESTION: IngestionPlugin,
    PluginType.SECRETS: SecretsPlugin,
    PluginType.IDENTITY: IdentityPlugin,
    PluginType.QUALITY: QualityPlugin,
}

_API_VERSION = re.compile(r"^(\d+)\.(\d+)$")


def load(offer: Offer, *, api_version: str = PLUGIN_API_VERSION) -> PluginMetadata:
    """Import and construct a plugin, and check that it matches its group and this version of floe.

    Raises:
        PluginLoadError: Importing or constructing it failed, or it does not match its entry point.
        PluginIncompatibleError: It was written for another plugin API version.
    """
    try:
        factory = offer.entry_point.load()
    except (Exception, SystemExit) as err:
        msg = f"The {_title(offer)} could not be imported: {_reason(err)}"
        raise PluginLoadError(msg, plugin=offer.key, hint=_import_hint(offer, err)) from err
    contract = PLUGIN_CONTRACTS[offer.type]
    if not (isinstance(factory, type) and issubclass(factory, contract)):
        msg = f"The {_title(offer)} is not a {contract.__name__}: {offer.entry_point.value} is {_kind(factory)}."
        raise PluginLoadError(msg, plugin=offer.key, hint=f"Its entry point must refer to a {contract.__name__} class.")
    try:
        plugin = cast("PluginMetadata", factory())
        plugin_name = plugin.name
        check_api_version(plugin, offer.type, api_version=api_version)
    except PluginIncompatibleError:
        raise
    except (Exception, SystemExit) as err:
        msg = f"The {_title(offer)} could not be constructed: {_reason(err)}"
        raise PluginLoadError(msg, plugin=offer.key, hint=_import_hint(offer, err)) from err
    if plugin_name != offer.name:
        msg = f"The {_title(offer)} has the name '{plugin_name}'."
        raise PluginLoadError(msg, plugin=offer.key, hint="Its entry point and its name property must match.")
    return plugin


def contract_type(plugin: PluginMetadata) -> PluginType:
    """Return a plugin's group, determined by its class.

    Raises:
        PluginLoadError: It does not implement any of the contracts.
    """
    for plugin_type, contract in PLUGIN_CONTRACTS.items():
        if isinstance(plugin, contract):
            return plugin_type
    msg = f"{type(plugin).__name__} does not implement any of floe's plugin contracts."
    hint = "Derive it from one of: " + ", ".join(sorted(c.__name__ for c in PLUGIN_CONTRACTS.values())) + "."
    raise PluginLoadError(msg, plugin=type(plugin).__name__, hint=hint)


def check_api_version(plugin: PluginMetadata, plugin_type: PluginType, *, api_version: str) -> None:
    """Check that the plugin has the same major version and no newer minor version.

    Raises:
        PluginIncompatibleError: The plugin's API version is incompatible or not valid.
    """
    key = plugin_key(plugin_type, plugin.name)
    written_for = _API_VERSION.match(plugin.floe_api_version)
    if written_for is None:
        msg = f"The plugin {key} has an invalid plugin API version: '{plugin.floe_api_version}'."
        raise PluginIncompatibleError(msg, plugin=key, hint=f"Use the form X.Y, such as {api_version}.")
    major, minor = map(int, written_for.groups())
    our_major, our_minor = map(int, api_version.split("."))
    if major == our_major and minor <= our_minor:
        return
    newer = (major, minor) > (our_major, our_minor)
    msg = f"The plugin {key} {plugin.version} was written for plugin API {major}.{minor}; floe supports {api_version}."
    hint = "Upgrade floe, or install an older version of the plugin." if newer else "Upgrade the plugin."
    raise PluginIncompatibleError(msg, plugin=key, hint=hint)


def _title(offer: Offer) -> str:
    return f"{type_label(offer.type)} plugin '{offer.name}' of {offer.origin}"


def _kind(factory: object) -> str:
    return f"the class {factory.__name__}" if isinstance(factory, type) else f"of type {type(factory).__name__}"


def _reason(err: BaseException) -> str:
    if isinstance(err, FloeStorageError):
        return redact_text(err.message)
    return redact_text(f"{type(err).__name__}: {err}")


def _import_hint(offer: Offer, err: BaseException) -> str:
    if isinstance(err, FloeStorageError) and err.hint:
        return err.hint
    if isinstance(err, ModuleNotFoundError) and err.name and offer.distribution:
        module = err.name.partition(".")[0]
        if module == offer.entry_point.module.partition(".")[0]:
            return f"{offer.origin} is not fully installed; reinstall it."
        if extra := _extra_with(offer.distribution, module):
            return f"Install it with: pip install '{offer.distribution.name}[{extra}]'"
        return f"Install '{module}', or reinstall {offer.distribution.name}."
    return f"Reinstall or upgrade {offer.origin}, or uninstall it."


def _extra_with(distribution: Distribution, module: str) -> str | None:
    """Return the first extra that installs a module, matched by the requirement's name."""
    for text in distribution.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) != canonicalize_name(module) or requirement.marker is None:
            continue
        for extra in distribution.metadata.get_all("Provides-Extra") or ():
            if not requirement.marker.evaluate({"extra": ""}) and requirement.marker.evaluate({"extra": extra}):
                return str(extra)
    return None
