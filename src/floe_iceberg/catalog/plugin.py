"""Base class of catalog plugins for PyIceberg catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from floe_core.errors import CatalogConnectionError
from floe_core.observing.redaction import redact_text
from floe_core.plugins import CatalogPlugin, HealthState, HealthStatus
from floe_iceberg.catalog.namespaces import NamespaceName, Namespaces, parse_namespace
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.errors import translated
from floe_iceberg.models import TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel
    from pyiceberg.catalog import Catalog


class PyIcebergCatalogPlugin(CatalogPlugin):
    """Base class of catalog plugins whose ``connect`` returns a PyIceberg catalog.

    A subclass sets ``_catalog`` in ``connect``; the namespace and table methods then use it.
    """

    _catalog: Catalog | None = None

    def __repr__(self) -> str:
        """Show the plugin's name and whether it is connected, but not its configuration."""
        state = "connected" if self._catalog is not None else "not connected"
        return f"{type(self).__name__}(name={self.name!r}, {state})"

    @property
    def catalog(self) -> Catalog:
        """The connected catalog.

        Raises:
            CatalogConnectionError: ``connect`` has not been called.
        """
        if self._catalog is None:
            msg = f"The catalog plugin '{self.name}' is not connected."
            raise CatalogConnectionError(msg, hint="Call connect(…) first, or open the project with open_project().")
        return self._catalog

    @property
    def connected_catalog(self) -> Catalog | None:
        """The connected catalog; None before ``connect`` and after ``configure`` or ``shutdown``."""
        return self._catalog

    def configure(self, config: BaseModel) -> None:
        """Store the ``catalog`` section for ``connect``, and drop an earlier connection."""
        super().configure(config)
        # The catalog stays open, because other objects may still use it.
        self._catalog = None

    def fresh(self) -> Self:
        """Return an unconnected plugin with the same configuration."""
        plugin = super().fresh()
        plugin._catalog = None  # noqa: SLF001 - our own copy
        return plugin

    @property
    def namespaces(self) -> Namespaces:
        """The connected catalog's namespaces."""
        return Namespaces(self.catalog)

    def create_namespace(self, namespace: NamespaceName, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace and its missing parents; an existing one is not changed."""
        self.namespaces.create(namespace, properties)

    def list_namespaces(self, parent: NamespaceName | None = None) -> list[str]:
        """List namespaces directly below ``parent``, dotted."""
        return self.namespaces.list_below(parent)

    def delete_namespace(self, namespace: NamespaceName) -> None:
        """Delete an empty namespace."""
        self.namespaces.delete(namespace)

    def create_table(
        self,
        identifier: str,
        schema: Any,  # noqa: ANN401 - Arrow or Iceberg schema
        *,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create a table with a schema, without partitioning or sort order."""
        name = TableIdentifier.from_string(identifier)
        with translated(self.catalog, name):
            catalog = ReconcilingCatalog.around(self.catalog)
            catalog.create_table(name.parts, schema, location=location, properties=dict(properties or {}))

    def list_tables(self, namespace: NamespaceName) -> list[str]:
        """List the table names of a namespace, sorted."""
        parts = parse_namespace(namespace)
        with self.namespaces.operation("list_tables", parts) as operation:
            found = sorted(table[-1] for table in self.catalog.list_tables(parts))
            operation.set(count=len(found))
            return found

    def drop_table(self, identifier: str, purge: bool = False) -> None:  # noqa: FBT001, FBT002 - the contract's signature
        """Drop a table; with ``purge``, also delete its own files."""
        from floe_iceberg.manager import IcebergTableManager

        # PyIceberg's purge deletes every file that the metadata references.
        IcebergTableManager(self.catalog).drop_table(identifier, purge=purge)

    def health_check(self) -> HealthStatus:
        """Check the connection by listing namespaces."""
        if self._catalog is None:
            return HealthStatus(HealthState.DEGRADED, "not connected")
        try:
            self._catalog.list_namespaces()
        except Exception as err:  # noqa: BLE001 - any failure means unhealthy
            return HealthStatus(HealthState.UNHEALTHY, redact_text(f"{type(err).__name__}: {err}"))
        return HealthStatus(HealthState.HEALTHY)

    def shutdown(self) -> None:
        """Close the connection."""
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None
