"""Opens a compiled project: the catalog, its storage, and an engine when one is asked for.

A manager without a project opens the engine of whatever it was given.
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
        return _open_engine(
            compute,
            config,
            catalog=self.catalog,
            plugins=(self.catalog_plugin, self.storage_plugin),
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


class LazyEngine:
    """Opens a manager's engine once, from whatever the manager was given."""

    def __init__(
        self,
        catalog: Catalog,
        compute: DataPlane | ComputePlugin | None = None,
        *,
        plugins: tuple[CatalogPlugin | None, StoragePlugin | None] = (None, None),
    ) -> None:
        """Open nothing yet.

        Args:
            catalog: The catalog that the engine has to see.
            compute: An open engine, a compute plugin, or None for the project's or the installed one.
            plugins: What connected the catalog, and where its files lie.
        """
        self._catalog = catalog
        self._compute = compute
        self._connection: ProjectConnection | None = None
        # A plugin may be connected to another catalog later; what it is connected to now opens the engine.
        self._plugins = (copy(plugins[0]), copy(plugins[1]))
        self._lock = Lock()
        self._plane: DataPlane | None = None
        self._owned = False

    def __call__(self) -> DataPlane:
        """Return the engine.

        Raises:
            MissingDependencyError: No engine is installed.
            CapabilityError: The catalog is not wired for the engine.
        """
        with self._lock:
            if self._plane is None:
                self._plane = self._open()
            return self._plane

    def use(self, connection: ProjectConnection) -> None:
        """Take the engine from an open project unless another one was given."""
        self._connection = connection

    def close(self) -> None:
        """Close the engine if it was opened here."""
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
            msg = f"floe does not know how the engine '{compute.name}' opens a {type(self._catalog).__name__}."
            hint = "Pass the plugin that connected it in its place, pass an open engine as compute=, or use a project."
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
    """Open an engine over a catalog, with what the plugins of catalog and storage ask it to be configured with.

    Raises:
        MissingDependencyError: The engine is not installed; the message names the extra.
        EngineSetupError: The plugin lacks something else.
    """
    catalog_plugin, storage_plugin = plugins
    conf: dict[str, str] = {}
    packages: tuple[str, ...] = ()
    if storage_plugin is not None:
        conf |= storage_plugin.get_spark_conf(catalog.name)
        packages += storage_plugin.get_spark_packages()
    # The catalog comes last: credentials it vends take the place of the storage section's.
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
        raise EngineSetupError(msg, hint="Install what the plugin needs.") from err


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
