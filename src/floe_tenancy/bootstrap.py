"""Create a tenant's isolated catalog: prefixes, namespace and tables. Every step is idempotent."""

from __future__ import annotations

import contextlib
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pyiceberg.catalog import load_catalog

from floe_core.declaration.locations import plain_uri
from floe_core.errors import ConfigurationError, FloeStorageError, TableExistsError
from floe_core.telemetry import traced
from floe_iceberg import IcebergTableManager
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.layout.properties import catalog_properties
from floe_tenancy.layout.roster import TenantRoster, known_tenants
from floe_tenancy.storage import Marker, WarehouseStorageManager
from floe_tenancy.stores import open_object_store
from floe_tenancy.tables import DEFAULT_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyiceberg.catalog import Catalog

    from floe_tenancy.config import BucketAddress, IcebergCatalogConfig
    from floe_tenancy.stores import ObjectStore
    from floe_tenancy.tables import IcebergTableSpec


@dataclass(frozen=True, slots=True)
class CatalogBootstrapResult:
    """The result of a bootstrap.

    Attributes:
        tenant: The tenant.
        namespace: The tenant's namespace.
        warehouse_uri: Location of the tenant's files.
        created_tables: Tables created by this call.
        existing_tables: Tables that already existed.
        markers: The tenant's bootstrap markers.
        took: Duration of the call.
    """

    tenant: str
    namespace: tuple[str, ...]
    warehouse_uri: str
    created_tables: tuple[str, ...]
    existing_tables: tuple[str, ...]
    markers: tuple[Marker, ...]
    took: timedelta


@dataclass(frozen=True, slots=True)
class CatalogHandle:
    """A catalog and a tenant's namespace in it."""

    catalog: Catalog
    namespace: tuple[str, ...]


def _load_pyiceberg_catalog(config: IcebergCatalogConfig) -> Catalog:
    """Load the catalog by name; PyIceberg's environment variables and configuration file apply."""
    return load_catalog(config.name, **catalog_properties(config))


class BootstrapSession:
    """An open catalog and its object stores, for one or many tenants. Thread-safe.

    Attributes:
        config: Configuration of the shared catalog.
        manager: Access to its tables.
        storage: Access to its prefixes.
    """

    def __init__(
        self, config: IcebergCatalogConfig, manager: IcebergTableManager, storage: WarehouseStorageManager
    ) -> None:
        """Create a session from open connections."""
        self.config = config
        self.manager = manager
        self.storage = storage
        self._roster = TenantRoster(manager, config)

    def bootstrap(self, tenant: str, tables: Sequence[IcebergTableSpec] = DEFAULT_TABLES) -> CatalogBootstrapResult:
        """Create one tenant's prefixes, namespace and tables.

        Every step is idempotent and needs no rollback if a later one fails, so a rerun after a crash continues where
        the first run stopped.
        """
        started = time.perf_counter()
        config = self.config
        namespace = config.namespace_for(tenant)
        with traced("tenancy.bootstrap", tenant=tenant, namespace=".".join(namespace)) as operation:
            self._roster.claim(tenant)
            markers = self.storage.ensure_prefixes(tenant)
            is_new = ensure_namespace(self.manager, namespace, config.warehouse_uri_for(tenant))
            created, existing = provision_tables(self.manager, tenant, config, tables, is_new=is_new)
            operation.set(created_tables=len(created))
        return CatalogBootstrapResult(
            tenant=tenant,
            namespace=namespace,
            warehouse_uri=config.warehouse_uri_for(tenant),
            created_tables=created,
            existing_tables=existing,
            markers=markers,
            took=timedelta(seconds=time.perf_counter() - started),
        )

    def tenants(self) -> list[str]:
        """List the tenants that have a namespace, sorted."""
        return known_tenants(self.manager, self.config)


class IcebergCatalogBootstrapper:
    """Bootstraps tenants and opens their catalogs."""

    def __init__(
        self,
        catalog_loader: Callable[[IcebergCatalogConfig], Catalog] = _load_pyiceberg_catalog,
        storage_factory: Callable[[IcebergCatalogConfig, BucketAddress], ObjectStore] = open_object_store,
    ) -> None:
        """Create a bootstrapper without connecting.

        Args:
            catalog_loader: Returns a connected catalog for a configuration.
            storage_factory: Returns the object store of a bucket for a configuration.
        """
        self._load = catalog_loader
        self._storage_factory = storage_factory

    def bootstrap_client(
        self,
        tenant: str,
        config: IcebergCatalogConfig,
        tables: Sequence[IcebergTableSpec] = DEFAULT_TABLES,
    ) -> CatalogBootstrapResult:
        """Create the tenant's prefixes, namespace and tables; anything that already exists is not changed.

        Raises:
            InvalidIdentifierError: The tenant id is invalid, or differs from an existing one only in case.
            StorageError: The object store failed.
            CatalogConnectionError: The catalog cannot be reached.
        """
        # Validate the id before connecting to the catalog.
        validate_tenant_id(tenant)
        with self.session(config) as session:
            return session.bootstrap(tenant, tables)

    @contextmanager
    def session(self, config: IcebergCatalogConfig) -> Iterator[BootstrapSession]:
        """Open the catalog, to bootstrap many tenants with one connection."""
        catalog = self._load(config)
        manager = IcebergTableManager(catalog)
        storage = WarehouseStorageManager(config, self._storage_factory)
        try:
            yield BootstrapSession(config, manager, storage)
        finally:
            manager.close()
            if self._load is _load_pyiceberg_catalog:
                # A custom loader may return a catalog that the caller shares.
                catalog.close()

    def open_catalog(self, tenant: str, config: IcebergCatalogConfig) -> CatalogHandle:
        """Open the catalog for a tenant.

        Raises:
            InvalidIdentifierError: The tenant id is invalid.
        """
        namespace = config.namespace_for(tenant)
        return CatalogHandle(catalog=self._load(config), namespace=namespace)


def ensure_namespace(manager: IcebergTableManager, namespace: tuple[str, ...], location: str) -> bool:
    """Create a namespace with its location; return whether it is new.

    Raises:
        ConfigurationError: The namespace exists with another location.
    """
    try:
        if manager.create_namespace(namespace, {"location": location}):
            return True
    except FloeStorageError:
        raise
    except Exception:
        # Another process may have created it first; catalogs report this with different errors.
        if not manager.namespaces.exists(namespace):
            raise
    found = manager.namespaces.properties(namespace).get("location")
    if found is None:
        # It was created as the parent of another namespace, or by another client without a location.
        manager.namespaces.update_properties(namespace, updates={"location": location})
    elif plain_uri(found) != plain_uri(location):
        msg = f"Namespace '{'.'.join(namespace)}' is located at {found}, not at {location}."
        raise ConfigurationError(msg, hint="Correct the warehouse bucket and prefix, or use another tenant id.")
    return False


def provision_tables(
    manager: IcebergTableManager,
    tenant: str,
    config: IcebergCatalogConfig,
    tables: Sequence[IcebergTableSpec],
    *,
    is_new: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Create missing tables; return the names of created and existing ones.

    Args:
        manager: Access to the catalog's tables.
        tenant: The tenant.
        config: Configuration of the shared catalog.
        tables: Specifications of the tables.
        is_new: Whether the namespace was just created, so that listing its tables can be skipped.
    """
    namespace = ".".join(config.namespace_for(tenant))
    existing = set() if is_new else set(manager.list_tables(namespace))
    created = []
    for spec in tables:
        if spec.name in existing:
            continue
        declared = spec.declaration(
            location=config.table_location(tenant, spec.name),
            properties=config.table_properties(tenant, spec.name),
        )
        # Another process may have created the same table first.
        with contextlib.suppress(TableExistsError):
            manager.create_from_config(f"{namespace}.{spec.name}", declared)
            created.append(spec.name)
    return tuple(created), tuple(spec.name for spec in tables if spec.name not in created)
