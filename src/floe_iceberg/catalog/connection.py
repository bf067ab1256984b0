"""Opens a compiled project: the catalog, its storage, and an engine when one is asked for."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from floe_core.declaration.expansion import expand_section
from floe_core.errors import PluginNotFoundError
from floe_core.plugins import CatalogPlugin, HealthStatus, PluginType, StoragePlugin
from floe_core.plugins.host.connecting import connect_catalog, options_schema
from floe_core.plugins.host.discovery import plugin_key
from floe_core.plugins.registry import PluginRegistry
from floe_core.plugins.secrets import open_secrets
from floe_core.telemetry import get_logger
from floe_iceberg.catalog.namespaces import Namespaces

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pyiceberg.catalog import Catalog

    from floe_core.dataplane import DataPlane
    from floe_core.schemas import CatalogConfig, CompiledArtifacts, StorageConfig
    from floe_core.secrets import SecretSource

_log = get_logger(__name__)
# Plugins of projects that nobody has closed, with the process that started them: a fork of it must not stop them.
_open: WeakKeyDictionary[PluginRegistry, int] = WeakKeyDictionary()


@dataclass(frozen=True)
class ProjectConnection:
    """An open project; also a context manager that closes it.

    Attributes:
        artifacts: What was compiled.
        catalog: The connected PyIceberg catalog; its properties hold secrets.
        catalog_plugin: The plugin that connected it.
        storage_plugin: The plugin of the storage section, None when it is not installed.
        plugins: The project's own plugins: configured, started when the project was opened, stopped when it is closed.
        secrets: Where the ``secret_ref`` of sections is looked up first; None without a secrets plugin.
    """

    artifacts: CompiledArtifacts
    catalog: Catalog = field(repr=False)
    catalog_plugin: CatalogPlugin
    storage_plugin: StoragePlugin | None
    plugins: PluginRegistry = field(repr=False)
    secrets: SecretSource | None = field(default=None, repr=False)
    _planes: list[DataPlane] = field(default_factory=list, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __repr__(self) -> str:
        """Name the project and its plugins; configuration stays out."""
        return (
            f"ProjectConnection(project={self.artifacts.name!r}, catalog={self.catalog_plugin!r}, "
            f"storage={self.storage_plugin!r})"
        )

    def __enter__(self) -> Self:
        """Return the connection itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    @property
    def namespaces(self) -> Namespaces:
        """The catalog's namespaces."""
        return Namespaces(self.catalog)

    def data_plane(self) -> DataPlane:
        """Return the project's engine, opened on first use and shared afterwards.

        Raises:
            PluginNotFoundError: No plugin offers the configured engine.
            CapabilityError: The catalog cannot be opened by an engine.
        """
        with self._lock:
            if not self._planes:
                self._planes.append(self._open_plane())
            return self._planes[0]

    def _open_plane(self) -> DataPlane:
        config = expand_section(self.artifacts.compute, path="compute")
        compute = self.plugins.get(PluginType.COMPUTE, config.type)
        self.plugins.startup([(PluginType.COMPUTE, config.type)]).raise_for_failures()
        name, properties = self.catalog.name, self.catalog.properties
        conf: dict[str, str] = {}
        packages: tuple[str, ...] = ()
        if self.storage_plugin is not None:
            conf |= self.storage_plugin.get_spark_conf(name)
            packages += self.storage_plugin.get_spark_packages()
        # The catalog comes last: credentials it vends take the place of the storage section's.
        conf |= self.catalog_plugin.get_spark_conf(name, properties)
        packages += self.catalog_plugin.get_spark_packages(properties)
        return compute.data_plane(
            config,
            catalog_name=name,
            conf=conf,
            packages=tuple(dict.fromkeys(packages)),
            project_root=self.artifacts.project_root,
        )

    def health(self) -> dict[str, HealthStatus]:
        """Ask each plugin that the project started how it is; by ``group:name``, in the order of their start."""
        return {plugin_key(*key): self.plugins.health_check(*key) for key in self.plugins.started}

    def close(self) -> None:
        """Release the engine and the catalog, and stop the plugins, last one first; closing twice does nothing."""
        # What cannot be released does not keep the rest.
        with ExitStack() as steps, self._lock:
            steps.callback(self.plugins.shutdown)
            steps.callback(self.catalog.close)
            while self._planes:
                steps.callback(self._planes.pop().close)
        _open.pop(self.plugins, None)


def open_project(artifacts: CompiledArtifacts, *, registry: PluginRegistry | None = None) -> ProjectConnection:
    """Start a project's plugins, each after what it needs, and connect to its catalog.

    Args:
        artifacts: What ``floe compile`` wrote, as ``CompiledArtifacts.from_json_file()`` loads it.
        registry: Where plugins come from; all installed ones by default.

    Raises:
        SecretReferenceError: A variable or secret that the configuration refers to is not set.
        PluginNotFoundError: No plugin offers the configured catalog.
        PluginError: A plugin, or one that it needs, did not start; the message names it.
        ConfigurationError: A plugin cannot use its section.
        CatalogConnectionError: The catalog cannot be reached.
        CatalogAuthenticationError: The catalog does not accept the credentials.
    """
    # Other projects of this process may use the same registry.
    plugins = (registry or PluginRegistry()).for_project()
    try:
        secrets = open_secrets(artifacts, plugins)
        storage = bound_storage(artifacts, plugins, secrets)
        config = expand_section(artifacts.catalog, path="catalog", secrets=secrets)
        key = (PluginType.CATALOG, config.type)
        plugin = plugins.get(PluginType.CATALOG, config.type)
        _configure(plugins, key, config)
        used = [key] if storage is None else [(PluginType.STORAGE, storage.name), key]
        plugins.startup(used).raise_for_failures()
        catalog = connect_catalog(plugin, config, storage=storage, project_root=artifacts.project_root)
    except BaseException:
        plugins.shutdown()
        raise
    _open[plugins] = os.getpid()
    return ProjectConnection(artifacts, cast("Catalog", catalog), plugin, storage, plugins, secrets)


@atexit.register
def _stop_what_is_open() -> None:
    """Stop the plugins of projects that are open when the process ends, as those of a Dagster process are."""
    for plugins, process in list(_open.items()):
        if process == os.getpid():
            plugins.shutdown()


def bound_storage(
    artifacts: CompiledArtifacts, plugins: PluginRegistry, secrets: SecretSource | None
) -> StoragePlugin | None:
    """Return the storage plugin, configured and bound to the project's section; None when it is not installed."""
    config = expand_section(artifacts.storage, path="storage", secrets=secrets)
    try:
        plugin = plugins.get(PluginType.STORAGE, config.type)
    except PluginNotFoundError as err:
        # A REST catalog that vends credentials needs no storage plugin of ours.
        _log.warning("storage_plugin_missing", storage=config.type, reason=str(err))
        return None
    _configure(plugins, (PluginType.STORAGE, config.type), config)
    plugin.bind(config, project_root=artifacts.project_root)
    return plugin


def _configure(plugins: PluginRegistry, key: tuple[PluginType, str], section: CatalogConfig | StorageConfig) -> None:
    """Hand a plugin the options of its section, when it has a model for them."""
    if options_schema(plugins.get(*key), type(section)) is not None:
        plugins.configure(*key, section.options)
