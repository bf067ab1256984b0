"""Which engine serves a manager, opened when it is first needed."""

from __future__ import annotations

import threading
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.errors import CapabilityError, MissingDependencyError, PluginError
from floe_core.plugins import ComputePlugin, PluginType
from floe_core.schemas import ComputeConfig

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from floe_core.dataplane import DataPlane
    from floe_core.plugins import CatalogPlugin, StoragePlugin
    from floe_iceberg.catalog.connection import ProjectConnection


class LazyPlane:
    """Opens the data plane once, from whatever the manager was given.

    Attributes:
        catalog: The catalog the engine has to see.
        compute: A data plane, a compute plugin, or None for the project's or the installed one.
    """

    def __init__(
        self,
        catalog: Catalog,
        compute: DataPlane | ComputePlugin | None = None,
        *,
        plugins: tuple[CatalogPlugin | None, StoragePlugin | None] = (None, None),
    ) -> None:
        """Open nothing yet."""
        self._catalog = catalog
        self._compute = compute
        self._connection: ProjectConnection | None = None
        # A plugin may be connected to another catalog later; what it is connected to now opens the engine.
        self._plugins = (copy(plugins[0]), copy(plugins[1]))
        self._lock = threading.Lock()
        self._plane: DataPlane | None = None
        self._owned = False

    def __call__(self) -> DataPlane:
        """Return the data plane.

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
        """Close the plane if it was opened here."""
        with self._lock:
            if self._plane is not None and self._owned:
                self._plane.close()
                self._plane = None

    def _open(self) -> DataPlane:
        if self._compute is not None and not isinstance(self._compute, ComputePlugin):
            return self._compute
        try:
            if self._compute is None and self._connection is not None:
                return self._connection.data_plane()
            plugin = self._compute or self._installed()
            conf, packages = self._spark_conf()
            plane = plugin.data_plane(
                ComputeConfig(),
                catalog_name=self._catalog.name,
                conf=conf,
                packages=packages,
                project_root=Path.cwd(),
            )
        except (ImportError, PluginError) as err:
            if not isinstance(err, ImportError) and not isinstance(err.__cause__, ImportError):
                raise
            what = "The Spark engine"
            raise MissingDependencyError(what, extra="spark") from err
        self._owned = True
        return plane

    @staticmethod
    def _installed() -> ComputePlugin:
        from floe_core.plugins.registry import default_registry

        return default_registry().get(PluginType.COMPUTE, "spark")

    def _spark_conf(self) -> tuple[dict[str, str], tuple[str, ...]]:
        catalog_plugin, storage_plugin = self._plugins
        name, properties = self._catalog.name, self._catalog.properties
        if catalog_plugin is None:
            msg = f"floe does not know how Spark opens a {type(self._catalog).__name__}."
            hint = "Pass the plugin that connected it in its place, pass an open engine as compute=, or use a project."
            raise CapabilityError(msg, hint=hint)
        conf: dict[str, str] = {}
        packages: tuple[str, ...] = ()
        if storage_plugin is not None:
            conf |= storage_plugin.get_spark_conf(name)
            packages += storage_plugin.get_spark_packages()
        conf |= catalog_plugin.get_spark_conf(name, properties)
        packages += catalog_plugin.get_spark_packages(properties)
        return conf, tuple(dict.fromkeys(packages))
