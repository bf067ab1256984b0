"""Catalog plugins, which register tables."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from floe_core.errors import CapabilityError
from floe_core.plugins.metadata import PluginMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from floe_core.schemas import CatalogConfig


@runtime_checkable
class Catalog(Protocol):
    """What floe needs from a connected catalog; PyIceberg's ``Catalog`` satisfies it."""

    name: str

    def list_namespaces(self, namespace: Any = (), /) -> list[tuple[str, ...]]:  # noqa: ANN401 - PyIceberg's own union
        """List namespaces at the root or below a parent."""
        ...

    def list_tables(self, namespace: Any, /) -> list[Any]:  # noqa: ANN401 - PyIceberg's own union
        """List the tables of a namespace."""
        ...

    def load_table(self, identifier: Any, /) -> Any:  # noqa: ANN401 - a PyIceberg table, which floe_core does not import
        """Load a table."""
        ...


@dataclass(frozen=True, slots=True)
class CatalogCapabilities:
    """The optional features that a catalog supports."""

    branches: bool = True
    nested_namespaces: bool = True
    rename: bool = True
    purge: bool = True
    register: bool = True
    vended_credentials: bool = False
    # Whether ``catalog.warehouse`` is a storage location (sql, hive, glue) rather than a name on the server.
    warehouse_is_location: bool = False
    # The parts of ``catalog.retry`` and ``catalog.circuit_breaker`` it applies: a section, or one key of a section.
    resilience: tuple[str, ...] = ()


class CatalogPlugin(PluginMetadata):
    """Manages a catalog connection and its namespaces.

    The table methods only register tables; use ``IcebergTableManager`` to work with tables.
    """

    _connected: Catalog | None = None
    _settings: CatalogConfig | None = None

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401 - any class keyword
        """Wrap the subclass's methods to keep track of its connection."""
        super().__init_subclass__(**options)
        if "connect" in cls.__dict__:
            cls.connect = _tracking_connect(cls.connect)  # type: ignore[method-assign]
        if "configure" in cls.__dict__:
            cls.configure = _disconnecting(cls.configure)  # type: ignore[method-assign]
        if "shutdown" in cls.__dict__:
            cls.shutdown = _disconnecting(cls.shutdown)  # type: ignore[method-assign]

    @property
    def connected_catalog(self) -> Catalog | None:
        """The connected catalog; None before ``connect`` and after ``configure`` or ``shutdown``."""
        return self._connected

    @property
    def configured_with(self) -> CatalogConfig | None:
        """The ``catalog`` section passed to ``configure``; None if there was none."""
        return self._settings

    def get_config_schema(self) -> type[BaseModel] | None:
        """Return the model of the ``catalog`` section."""
        from floe_core.schemas import CatalogConfig

        return CatalogConfig

    def configure(self, config: BaseModel) -> None:
        """Accept the ``catalog`` section to connect with, and drop an earlier connection."""
        from floe_core.schemas import CatalogConfig

        self._connected = None
        if isinstance(config, CatalogConfig):
            self._settings = config

    def fresh(self) -> Self:
        """Return an unconnected plugin with the same configuration."""
        plugin = super().fresh()
        plugin._connected = None  # noqa: SLF001 - our own copy
        return plugin

    @property
    def capabilities(self) -> CatalogCapabilities:
        """The features this catalog supports."""
        return CatalogCapabilities()

    @abstractmethod
    def connect(
        self, config: CatalogConfig, *, file_io: Mapping[str, str] | None = None, project_root: Path | None = None
    ) -> Catalog:
        """Connect and return a PyIceberg catalog.

        A plugin may omit the parameters ``file_io`` and ``project_root``; floe then does not pass them.

        Args:
            config: The ``catalog`` section with unresolved references; plain values are validated first.
            file_io: File properties from the storage plugin; the catalog adds them to its own.
            project_root: Base of relative paths; the working directory by default.
        """

    @abstractmethod
    def create_namespace(self, namespace: str | tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace and its missing parents; an existing namespace is unchanged."""

    @abstractmethod
    def list_namespaces(self, parent: str | tuple[str, ...] | None = None) -> list[str]:
        """List the dotted names of the namespaces directly below ``parent``."""

    @abstractmethod
    def delete_namespace(self, namespace: str | tuple[str, ...]) -> None:
        """Delete an empty namespace."""

    @abstractmethod
    def create_table(
        self,
        identifier: str,
        schema: Any,  # noqa: ANN401 - Arrow or Iceberg schema, which floe_core does not import
        *,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Register a new, empty table with a schema."""

    @abstractmethod
    def list_tables(self, namespace: str | tuple[str, ...]) -> list[str]:
        """List the unqualified names of a namespace's tables."""

    @abstractmethod
    def drop_table(self, identifier: str, purge: bool = False) -> None:  # noqa: FBT001, FBT002 - the contract's signature
        """Drop a table; with ``purge``, also delete its files."""

    def vend_credentials(self, table_path: str, operations: Sequence[str]) -> dict[str, str]:
        """Return short-lived storage credentials for one table.

        Raises:
            CapabilityError: This catalog does not vend credentials.
        """
        msg = f"The catalog '{self.name}' does not vend credentials for {table_path} ({', '.join(operations)})."
        raise CapabilityError(msg, hint="Set the credentials in the storage section instead.")

    def get_spark_conf(self, catalog_name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the Spark configuration that opens the same catalog in Spark.

        Args:
            catalog_name: Name in Spark SQL.
            properties: The connected catalog's properties.

        Raises:
            CapabilityError: This catalog does not support Spark.
        """
        del catalog_name, properties
        msg = f"The catalog '{self.name}' does not support Spark."
        raise CapabilityError(msg, hint="Use the arrow engine, or a catalog plugin that implements get_spark_conf().")

    def get_spark_packages(self, properties: Mapping[str, str]) -> tuple[str, ...]:
        """Return the Maven packages Spark needs for this catalog, in addition to the Iceberg runtime."""
        del properties
        return ()


def _tracking_connect(connect: Callable[..., Catalog]) -> Callable[..., Catalog]:
    @functools.wraps(connect)
    def connected(self: CatalogPlugin, config: Any, **options: Any) -> Catalog:  # noqa: ANN401 - passed on
        from floe_core.plugins.host.connecting import catalog_section

        if isinstance(config, Mapping):
            config = catalog_section(self, config)
        self._connected = connect(self, config, **options)
        return self._connected

    return connected


def _disconnecting(step: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(step)
    def disconnecting(self: CatalogPlugin, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - passed on
        self._connected = None
        step(self, *arguments, **options)

    return disconnecting
