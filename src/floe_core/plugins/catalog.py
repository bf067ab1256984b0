"""Catalog plugins: where tables are registered."""

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
    """What floe needs of a connected catalog; PyIceberg's ``Catalog`` fits."""

    name: str

    def list_namespaces(self, namespace: Any = (), /) -> list[tuple[str, ...]]:  # noqa: ANN401 - PyIceberg's own union
        """List namespaces, at the root or below one."""
        ...

    def list_tables(self, namespace: Any, /) -> list[Any]:  # noqa: ANN401 - PyIceberg's own union
        """List the tables of a namespace."""
        ...

    def load_table(self, identifier: Any, /) -> Any:  # noqa: ANN401 - a PyIceberg table, which floe_core does not import
        """Load a table."""
        ...


@dataclass(frozen=True, slots=True)
class CatalogCapabilities:
    """What a catalog can do beyond the basics."""

    branches: bool = True
    nested_namespaces: bool = True
    rename: bool = True
    purge: bool = True
    register: bool = True
    vended_credentials: bool = False
    # Whether ``catalog.warehouse`` is a storage location (sql, hive, glue) rather than a name the server knows.
    warehouse_is_location: bool = False
    # What of ``catalog.retry`` and ``catalog.circuit_breaker`` it goes by: a section, or one key of it.
    resilience: tuple[str, ...] = ()


class CatalogPlugin(PluginMetadata):
    """Manages the life of a catalog connection and its namespaces.

    Table methods here are thin registrations; ``IcebergTableManager`` is the rich way to work with tables.
    """

    _connected: Catalog | None = None
    _settings: CatalogConfig | None = None

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401 - whatever a metaclass takes
        """Remember what a plugin is connected to, whoever wrote its ``connect``."""
        super().__init_subclass__(**options)
        if "connect" in cls.__dict__:
            cls.connect = _remembering(cls.connect)  # type: ignore[method-assign]
        if "configure" in cls.__dict__:
            cls.configure = _forgetting(cls.configure)  # type: ignore[method-assign]
        if "shutdown" in cls.__dict__:
            cls.shutdown = _forgetting(cls.shutdown)  # type: ignore[method-assign]

    @property
    def connected_catalog(self) -> Catalog | None:
        """The catalog it is connected to; None until ``connect``, and after ``configure`` or ``shutdown``."""
        return self._connected

    @property
    def configured_with(self) -> CatalogConfig | None:
        """The ``catalog`` section that ``configure`` took; None when it took none."""
        return self._settings

    def get_config_schema(self) -> type[BaseModel] | None:
        """Return the model of the ``catalog`` section."""
        from floe_core.schemas import CatalogConfig

        return CatalogConfig

    def configure(self, config: BaseModel) -> None:
        """Take the ``catalog`` section to connect with; an earlier connection is forgotten."""
        from floe_core.schemas import CatalogConfig

        self._connected = None
        if isinstance(config, CatalogConfig):
            self._settings = config

    def fresh(self) -> Self:
        """Return a plugin with the same configuration that is not connected."""
        plugin = super().fresh()
        plugin._connected = None  # noqa: SLF001 - our own copy
        return plugin

    @property
    def capabilities(self) -> CatalogCapabilities:
        """What this catalog can do."""
        return CatalogCapabilities()

    @abstractmethod
    def connect(
        self, config: CatalogConfig, *, file_io: Mapping[str, str] | None = None, project_root: Path | None = None
    ) -> Catalog:
        """Connect and return a PyIceberg catalog.

        A plugin may leave out ``file_io`` and ``project_root``; floe then does not pass them.

        Args:
            config: The ``catalog`` section, references unresolved; plain values are validated first.
            file_io: File properties from the storage plugin; the catalog adds them to its own.
            project_root: Where relative paths start; the working directory by default.
        """

    @abstractmethod
    def create_namespace(self, namespace: str | tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace and its missing parents; an existing one is left as it is."""

    @abstractmethod
    def list_namespaces(self, parent: str | tuple[str, ...] | None = None) -> list[str]:
        """List namespaces directly below ``parent``, dotted."""

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
        """Register a new table with a schema and nothing else."""

    @abstractmethod
    def list_tables(self, namespace: str | tuple[str, ...]) -> list[str]:
        """List the bare names of a namespace's tables."""

    @abstractmethod
    def drop_table(self, identifier: str, purge: bool = False) -> None:  # noqa: FBT001, FBT002 - the contract's signature
        """Drop a table; with ``purge`` its files too."""

    def vend_credentials(self, table_path: str, operations: Sequence[str]) -> dict[str, str]:
        """Return short-lived storage credentials for one table.

        Raises:
            CapabilityError: This catalog hands out none.
        """
        msg = f"The catalog '{self.name}' does not vend credentials for {table_path} ({', '.join(operations)})."
        raise CapabilityError(msg, hint="Put the credentials into the storage section instead.")

    def get_spark_conf(self, catalog_name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the Spark configuration that opens the same catalog in Spark.

        Args:
            catalog_name: Name in Spark SQL.
            properties: The connected catalog's own properties.

        Raises:
            CapabilityError: This catalog is not wired for Spark.
        """
        msg = f"The catalog '{self.name}' has no Spark wiring for '{catalog_name}' ({len(properties)} properties)."
        raise CapabilityError(msg, hint="Use the arrow engine, or a catalog plugin that offers get_spark_conf().")

    def get_spark_packages(self, properties: Mapping[str, str]) -> tuple[str, ...]:
        """Return the Maven packages Spark needs for this catalog, besides Iceberg's own runtime."""
        del properties
        return ()


def _remembering(connect: Callable[..., Catalog]) -> Callable[..., Catalog]:
    @functools.wraps(connect)
    def connected(self: CatalogPlugin, config: Any, **options: Any) -> Catalog:  # noqa: ANN401 - passed on
        from floe_core.plugins.host.connecting import catalog_section

        if isinstance(config, Mapping):
            config = catalog_section(self, config)
        self._connected = connect(self, config, **options)
        return self._connected

    return connected


def _forgetting(step: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(step)
    def forgetful(self: CatalogPlugin, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - passed on
        self._connected = None
        step(self, *arguments, **options)

    return forgetful
