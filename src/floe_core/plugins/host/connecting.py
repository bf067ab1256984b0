"""Connect catalog and storage plugins, and pass only the optional arguments they accept."""

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
    """Connect a catalog plugin that stores its files with a storage plugin.

    Args:
        plugin: The catalog plugin.
        config: The ``catalog`` section; if it has no warehouse but the catalog needs a location, the storage plugin's
            warehouse is used.
        storage: The storage plugin; None if the catalog determines where files are stored.
        project_root: Base of relative paths.
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
    """Return the catalog that a plugin is connected to, or connect it with its configuration.

    Args:
        plugin: The catalog plugin.
        storage: The storage plugin, used when connecting.
        config: A configuration to connect with instead; plain values are validated first.

    Raises:
        ConfigurationError: The plugin is neither connected nor configured, or the plain values are not valid.
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
        ConfigurationError: The values are not valid; each problem has its path.
    """
    from floe_core.schemas import CatalogConfig

    return cast("CatalogConfig", validated(CatalogConfig, values, PluginType.CATALOG, plugin.name))


def warehouse_root(storage: StoragePlugin) -> str:
    """Return the warehouse's URI, even if the plugin's ``get_warehouse_uri`` requires a namespace."""
    namespace = inspect.signature(storage.get_warehouse_uri).parameters.get("namespace")
    if namespace is None or namespace.default is not inspect.Parameter.empty:
        return storage.get_warehouse_uri()
    return storage.get_warehouse_uri("").rstrip("/")


def options_schema(plugin: PluginMetadata, section: type[BaseModel]) -> type[BaseModel] | None:
    """Return the plugin's model of a section's ``options``; None if its model describes the whole section."""
    schema = plugin.get_config_schema()
    return None if schema is None or section.model_fields.keys() & schema.model_fields.keys() else schema


def validated(schema: type[BaseModel], values: Mapping[str, object], plugin_type: PluginType, name: str) -> BaseModel:
    """Return a plugin's configuration from plain values.

    Raises:
        ConfigurationError: The values are not valid; each problem has its path.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as err:
        # The cause is dropped because a validation error prints the invalid value.
        raise refused(err, f"The configuration of the {type_label(plugin_type)} plugin '{name}'") from None


def refused(err: ValidationError, what: str) -> ConfigurationError:
    """Describe invalid settings without their values, which may be secrets."""
    problems = []
    for problem in err.errors(include_input=False, include_url=False, include_context=False):
        path, reason = ".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")
        problems.append(ConfigProblem(path=path, message=f"{path}: {reason}" if path else reason))
    return ConfigurationError(f"{what} is not valid.", problems=problems)


def _takes(function: Callable[..., object], name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
