"""Catalog and storage plugins put to use together, whichever of the optional arguments they take."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from floe_core.errors import ConfigProblem, ConfigurationError
from floe_core.plugins.host.discovery import type_label
from floe_core.plugins.metadata import PluginType

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_core.plugins.catalog import Catalog, CatalogPlugin
    from floe_core.plugins.metadata import PluginMetadata
    from floe_core.plugins.storage import StoragePlugin
    from floe_core.schemas import CatalogConfig


def connect_catalog(
    plugin: CatalogPlugin, config: CatalogConfig, *, storage: StoragePlugin | None, project_root: Path
) -> Catalog:
    """Connect a catalog plugin, with its files where the storage plugin says.

    Args:
        plugin: The catalog's plugin.
        config: The ``catalog`` section; without a warehouse, a catalog of locations takes the storage plugin's.
        storage: Where files lie; None when the catalog knows.
        project_root: Where relative paths start.
    """
    if config.warehouse is None and storage is not None and plugin.capabilities.warehouse_is_location:
        config = config.model_copy(update={"warehouse": warehouse_root(storage)})
    options: dict[str, Any] = {
        "file_io": storage.get_file_io_properties() if storage is not None else {},
        "project_root": project_root,
    }
    return plugin.connect(config, **{name: value for name, value in options.items() if _takes(plugin.connect, name)})


def opened_catalog(
    plugin: CatalogPlugin, storage: StoragePlugin | None, config: CatalogConfig | Mapping[str, object] | None
) -> Catalog:
    """Return the catalog that a plugin is connected to, or connect it as it was configured; nothing is guessed.

    Args:
        plugin: The catalog's plugin.
        storage: Where files lie, for a plugin that has to connect.
        config: What to connect to instead; plain values are validated first.

    Raises:
        ConfigurationError: The plugin is neither connected nor configured, or the plain values do not fit.
    """
    if isinstance(config, Mapping):
        config = catalog_section(plugin, config)
    if config is None and plugin.connected_catalog is not None:
        return plugin.connected_catalog
    config = config or plugin.configured_with
    if config is None:
        msg = f"The catalog plugin '{plugin.name}' is neither connected nor configured."
        hint = "Call its connect(config) or registry.configure(…) first, or pass catalog_config."
        raise ConfigurationError(msg, hint=hint)
    return connect_catalog(plugin, config, storage=storage, project_root=Path.cwd())


def catalog_section(plugin: CatalogPlugin, values: Mapping[str, object]) -> CatalogConfig:
    """Return a ``catalog`` section from plain values.

    Raises:
        ConfigurationError: The values do not fit; each problem has its place.
    """
    from floe_core.schemas import CatalogConfig

    return cast("CatalogConfig", validated(CatalogConfig, values, PluginType.CATALOG, plugin.name))


def warehouse_root(storage: StoragePlugin) -> str:
    """Return the warehouse's URI, also of a plugin whose ``get_warehouse_uri`` always wants a namespace."""
    namespace = inspect.signature(storage.get_warehouse_uri).parameters.get("namespace")
    if namespace is None or namespace.default is not inspect.Parameter.empty:
        return storage.get_warehouse_uri()
    return storage.get_warehouse_uri("").rstrip("/")


def options_schema(plugin: PluginMetadata, section: type[BaseModel]) -> type[BaseModel] | None:
    """Return the plugin's model of a section's ``options``; a model that shares keys with the section describes it."""
    schema = plugin.get_config_schema()
    return None if schema is None or section.model_fields.keys() & schema.model_fields.keys() else schema


def validated(schema: type[BaseModel], values: Mapping[str, object], plugin_type: PluginType, name: str) -> BaseModel:
    """Return a plugin's configuration from plain values.

    Raises:
        ConfigurationError: The values do not fit; each problem has its place.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as err:
        # The cause is dropped: a validation error prints the value it refused.
        raise refused(err, f"The configuration of the {type_label(plugin_type)} plugin '{name}'") from None


def refused(err: ValidationError, what: str) -> ConfigurationError:
    """Describe settings that do not fit; the offending values may be secrets, so they are left out."""
    problems = []
    for problem in err.errors(include_input=False, include_url=False, include_context=False):
        path, said = ".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")
        problems.append(ConfigProblem(path=path, message=f"{path}: {said}" if path else said))
    return ConfigurationError(f"{what} is not valid.", problems=problems)


def _takes(function: Callable[..., object], name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
