"""Opens a compiled project: its catalog, its storage plugin and, on first use, its engine.

A manager without a project opens an engine for the catalog and plugins that it was given.
"""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from floe_core.declaration.expansion import expand_section
from floe_core.errors import CapabilityError, EngineSetupError, PluginNotFoundError
from floe_core.plugins import CatalogPlugin, ComputePlugin, HealthStatus, PluginType, StoragePlugin
from floe_core.plugins.host.connecting import connect_catalog, options_schema
from floe_core.plugins.host.discovery import plugin_key
from floe_core.plugins.registry import PluginRegistry, default_registry
from floe_core.plugins.secrets import open_secrets
from floe_core.schemas import ComputeConfig
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
# Plugins of open projects, with the id of the process that started them: a forked child must not stop them.
_open: WeakKeyDictionary[PluginRegistry, int] = WeakKeyDictionary()


@dataclass(frozen=True)
class ProjectConnection:
    """An open project; also a context manager that closes it.

    Attributes:
        artifacts: The compiled project.
        catalog: The connected PyIceberg catalog; its properties contain secrets.
        catalog_plugin: The plugin that connected it.
        storage_plugin: The plugin of the ``storage`` section; None if it is not installed.
        plugins: The project's configured plugins, which are started and stopped with the project.
        secrets: The first source for the ``secret_ref`` of sections; None without a secrets plugin.
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
        """Show the project's name and its plugins, but not their configuration."""
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
            PluginNotFoundError: No plugin provides the configured engine.
            CapabilityError: The engine cannot open the catalog.
        """
        with self._lock:
            if not self._planes:
                self._planes.append(self._open_plane())
            return self._planes[0]

    def _open_plane(self) -> DataPlane:
        config = expand_section(self.artifacts.compute, path="compute")
        compute = self.plugins.get(PluginType.COMPUTE, config.type)
        self.plugins.startup([(PluginType.COMPUTE, config.type)]).raise_for_failures()
        return _open_engine(
            compute,
            config,
            catalog=self.catalog,
            plugins=(self.catalog_plugin, self.storage_plugin),
            project_root=self.artifacts.project_root,
        )

    def health(self) -> dict[str, HealthStatus]:
        """Return the health of each started plugin by ``group:name``, in start order."""
        return {plugin_key(*key): self.plugins.health_check(*key) for key in self.plugins.started}

    def close(self) -> None:
        """Close the engine and the catalog, and stop the plugins in reverse start order; idempotent."""
        # If one of them fails to close, the others are still closed.
        with ExitStack() as steps, self._lock:
            steps.callback(self.plugins.shutdown)
            steps.callback(self.catalog.close)
            while self._planes:
                steps.callback(self._planes.pop().close)
        _open.pop(self.plugins, None)


class LazyEngine:
    """Opens a manager's engine on first use."""

    def __init__(
        self,
        catalog: Catalog,
        compute: DataPlane | ComputePlugin | None = None,
        *,
        plugins: tuple[CatalogPlugin | None, StoragePlugin | None] = (None, None),
    ) -> None:
        """Store the arguments; the engine is opened on first use.

        Args:
            catalog: The catalog that the engine opens.
            compute: An open engine, a compute plugin, or None for the project's engine or the installed one.
            plugins: The plugin that connected the catalog, and the storage plugin of its files.
        """
        self._catalog = catalog
        self._compute = compute
        self._connection: ProjectConnection | None = None
        # Copies, because a plugin may be connected to another catalog later.
        self._plugins = (copy(plugins[0]), copy(plugins[1]))
        self._lock = Lock()
        self._plane: DataPlane | None = None
        self._owned = False

    def __call__(self) -> DataPlane:
        """Return the engine.

        Raises:
            MissingDependencyError: No engine is installed.
            CapabilityError: There is no catalog plugin that describes how the engine opens the catalog.
        """
        with self._lock:
            if self._plane is None:
                self._plane = self._open()
            return self._plane

    def use(self, connection: ProjectConnection) -> None:
        """Use the engine of an open project, unless another one was given."""
        self._connection = connection

    def close(self) -> None:
        """Close the engine if this object opened it."""
        with self._lock:
            if self._plane is not None and self._owned:
                self._plane.close()
                self._plane = None

    def _open(self) -> DataPlane:
        if self._compute is not None and not isinstance(self._compute, ComputePlugin):
            return self._compute
        if self._compute is None and self._connection is not None:
            return self._connection.data_plane()
        catalog_plugin, storage_plugin = self._plugins
        config = ComputeConfig()
        compute = self._compute or default_registry().get(PluginType.COMPUTE, config.type)
        if catalog_plugin is None:
            msg = (
                f"The engine '{compute.name}' cannot open a {type(self._catalog).__name__} without its catalog plugin."
            )
            hint = "Pass the catalog plugin instead of the catalog, pass an open engine as compute=, or use a project."
            raise CapabilityError(msg, hint=hint)
        plane = _open_engine(
            compute, config, catalog=self._catalog, plugins=(catalog_plugin, storage_plugin), project_root=Path.cwd()
        )
        self._owned = True
        return plane


def _open_engine(
    compute: ComputePlugin,
    config: ComputeConfig,
    *,
    catalog: Catalog,
    plugins: tuple[CatalogPlugin, StoragePlugin | None],
    project_root: Path,
) -> DataPlane:
    """Open an engine for a catalog, with the configuration from the catalog and storage plugins.

    Raises:
        MissingDependencyError: The engine is not installed; the message names the extra.
        EngineSetupError: Another dependency of the plugin is missing.
    """
    catalog_plugin, storage_plugin = plugins
    conf: dict[str, str] = {}
    packages: tuple[str, ...] = ()
    if storage_plugin is not None:
        conf |= storage_plugin.get_spark_conf(catalog.name)
        packages += storage_plugin.get_spark_packages()
    # The catalog comes last: credentials that it vends override those of the storage section.
    conf |= catalog_plugin.get_spark_conf(catalog.name, catalog.properties)
    packages += catalog_plugin.get_spark_packages(catalog.properties)
    try:
        return compute.data_plane(
            config,
            catalog_name=catalog.name,
            conf=conf,
            packages=tuple(dict.fromkeys(packages)),
            project_root=project_root,
            catalog=catalog,
        )
    except ImportError as err:
        msg = f"The compute plugin '{compute.name}' cannot open its engine: {err}."
        raise EngineSetupError(msg, hint="Install the missing dependency.") from err


def open_project(artifacts: CompiledArtifacts, *, registry: PluginRegistry | None = None) -> ProjectConnection:
    """Start a project's plugins in dependency order, and connect to its catalog.

    Args:
        artifacts: The compiled project, for example from ``CompiledArtifacts.from_json_file()``.
        registry: The registry of plugins; all installed plugins by default.

    Raises:
        SecretReferenceError: A variable or secret that the configuration refers to is not set.
        PluginNotFoundError: No plugin provides the configured catalog.
        PluginError: A plugin or one of its dependencies did not start; the message names it.
        ConfigurationError: A section is invalid for its plugin.
        CatalogConnectionError: The catalog is unreachable.
        CatalogAuthenticationError: The catalog rejected the credentials.
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
    """Stop the plugins of projects that are still open when the process ends, as in a Dagster process."""
    for plugins, process in list(_open.items()):
        if process == os.getpid():
            plugins.shutdown()


def bound_storage(
    artifacts: CompiledArtifacts, plugins: PluginRegistry, secrets: SecretSource | None
) -> StoragePlugin | None:
    """Return the storage plugin, configured and bound to the project's section; None if it is not installed."""
    config = expand_section(artifacts.storage, path="storage", secrets=secrets)
    try:
        plugin = plugins.get(PluginType.STORAGE, config.type)
    except PluginNotFoundError as err:
        # A REST catalog that vends credentials needs no storage plugin.
        _log.warning("storage_plugin_missing", storage=config.type, reason=str(err))
        return None
    _configure(plugins, (PluginType.STORAGE, config.type), config)
    plugin.bind(config, project_root=artifacts.project_root)
    return plugin


def _configure(plugins: PluginRegistry, key: tuple[PluginType, str], section: CatalogConfig | StorageConfig) -> None:
    """Configure a plugin with the options of its section, if it has a model for them."""
    if options_schema(plugins.get(*key), type(section)) is not None:
        plugins.configure(*key, section.options)
