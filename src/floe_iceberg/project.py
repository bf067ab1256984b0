"""Opens a compiled project: the catalog, its storage, and an engine when one is asked for."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, cast

from floe_core.errors import PluginNotFoundError
from floe_core.expansion import expand_section
from floe_core.plugins import CatalogPlugin, PluginType, StoragePlugin
from floe_core.plugins.registry import PluginRegistry
from floe_core.telemetry import get_logger
from floe_iceberg.namespaces import Namespaces

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pyiceberg.catalog import Catalog

    from floe_core.dataplane import DataPlane
    from floe_core.schemas import CompiledArtifacts

_log = get_logger(__name__)


@dataclass(frozen=True)
class ProjectConnection:
    """An open project; also a context manager that closes it.

    Attributes:
        artifacts: What was compiled.
        catalog: The connected PyIceberg catalog; its properties hold secrets.
        catalog_plugin: The plugin that connected it.
        storage_plugin: The plugin of the storage section, None when it is not installed.
    """

    artifacts: CompiledArtifacts
    catalog: Catalog = field(repr=False)
    catalog_plugin: CatalogPlugin
    storage_plugin: StoragePlugin | None
    _registry: PluginRegistry = field(repr=False)
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
        compute = self._registry.get(PluginType.COMPUTE, config.type)
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

    def close(self) -> None:
        """Release the engine and the catalog connection; closing twice does nothing."""
        with self._lock:
            while self._planes:
                self._planes.pop().close()
        self.catalog.close()


def open_project(artifacts: CompiledArtifacts, *, registry: PluginRegistry | None = None) -> ProjectConnection:
    """Connect to a project's catalog through the configured plugins.

    Args:
        artifacts: What ``floe compile`` wrote, as ``CompiledArtifacts.from_json_file()`` loads it.
        registry: Where plugins come from; all installed ones by default.

    Raises:
        SecretReferenceError: A variable or secret that the configuration refers to is not set.
        PluginNotFoundError: No plugin offers the configured catalog.
        ConfigurationError: A plugin cannot use its section.
        CatalogConnectionError: The catalog cannot be reached.
        CatalogAuthenticationError: The catalog does not accept the credentials.
    """
    registry = registry or PluginRegistry()
    storage = _open_storage(artifacts, registry)
    config = expand_section(artifacts.catalog, path="catalog")
    # The registry hands out one instance; a copy of it belongs to this project alone.
    plugin = copy(registry.get(PluginType.CATALOG, config.type))
    if config.warehouse is None and storage is not None and plugin.capabilities.warehouse_is_location:
        config = config.model_copy(update={"warehouse": storage.get_warehouse_uri()})
    file_io = storage.get_file_io_properties() if storage is not None else {}
    catalog = plugin.connect(config, file_io=file_io, project_root=artifacts.project_root)
    return ProjectConnection(artifacts, cast("Catalog", catalog), plugin, storage, registry)


def _open_storage(artifacts: CompiledArtifacts, registry: PluginRegistry) -> StoragePlugin | None:
    config = expand_section(artifacts.storage, path="storage")
    try:
        plugin = copy(registry.get(PluginType.STORAGE, config.type))
    except PluginNotFoundError as err:
        # A REST catalog that vends credentials needs no storage plugin of ours.
        _log.warning("storage_plugin_missing", storage=config.type, reason=str(err))
        return None
    plugin.bind(config, project_root=artifacts.project_root)
    return plugin
