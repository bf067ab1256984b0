"""Gives a tenant its isolated catalog: prefixes, namespace, tables; every step can be repeated."""

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
    """What a bootstrap left behind.

    Attributes:
        tenant: Whose catalog it is.
        namespace: The tenant's namespace.
        warehouse_uri: Where its files lie.
        created_tables: Tables this call made.
        existing_tables: Tables that were there already.
        markers: The tenant's bootstrap markers.
        took: How long it took.
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
    """A tenant's way into the catalog."""

    catalog: Catalog
    namespace: tuple[str, ...]


def _load_pyiceberg_catalog(config: IcebergCatalogConfig) -> Catalog:
    """Load the catalog by name, so that PyIceberg's own variables and configuration file apply."""
    return load_catalog(config.name, **catalog_properties(config))


class BootstrapSession:
    """An open catalog and its object stores, for one tenant or many; safe to share between threads.

    Attributes:
        config: The catalog the tenants share.
        manager: Its tables.
        storage: Its prefixes.
    """

    def __init__(
        self, config: IcebergCatalogConfig, manager: IcebergTableManager, storage: WarehouseStorageManager
    ) -> None:
        """Take what is open."""
        self.config = config
        self.manager = manager
        self.storage = storage
        self._roster = TenantRoster(manager, config)

    def bootstrap(self, tenant: str, tables: Sequence[IcebergTableSpec] = DEFAULT_TABLES) -> CatalogBootstrapResult:
        """Make one tenant's prefixes, namespace and tables.

        Each step is harmless to repeat and none waits for a later one to be undone, so a rerun after a crash goes on
        where the first run ended.
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
        """Connect to nothing yet.

        Args:
            catalog_loader: Takes a configuration and returns a connected catalog.
            storage_factory: Takes a configuration and a bucket and returns its object store.
        """
        self._load = catalog_loader
        self._storage_factory = storage_factory

    def bootstrap_client(
        self,
        tenant: str,
        config: IcebergCatalogConfig,
        tables: Sequence[IcebergTableSpec] = DEFAULT_TABLES,
    ) -> CatalogBootstrapResult:
        """Make the tenant's prefixes, namespace and tables; what is there already is left as it is.

        Raises:
            InvalidIdentifierError: The id cannot name a tenant, or differs from another one's in case only.
            StorageError: The object store failed.
            CatalogConnectionError: The catalog cannot be reached.
        """
        # Before the catalog is even connected: a bad id touches nothing.
        validate_tenant_id(tenant)
        with self.session(config) as session:
            return session.bootstrap(tenant, tables)

    @contextmanager
    def session(self, config: IcebergCatalogConfig) -> Iterator[BootstrapSession]:
        """Open the catalog once for many tenants."""
        catalog = self._load(config)
        manager = IcebergTableManager(catalog)
        storage = WarehouseStorageManager(config, self._storage_factory)
        try:
            yield BootstrapSession(config, manager, storage)
        finally:
            manager.close()
            if self._load is _load_pyiceberg_catalog:
                # A loader of the caller's own may hand out a catalog that others use.
                catalog.close()

    def open_catalog(self, tenant: str, config: IcebergCatalogConfig) -> CatalogHandle:
        """Open the catalog for a tenant.

        Raises:
            InvalidIdentifierError: The id cannot name a tenant.
        """
        namespace = config.namespace_for(tenant)
        return CatalogHandle(catalog=self._load(config), namespace=namespace)


def ensure_namespace(manager: IcebergTableManager, namespace: tuple[str, ...], location: str) -> bool:
    """Make a namespace with its location; tell whether it is new.

    Raises:
        ConfigurationError: The namespace is there, at another location.
    """
    try:
        if manager.create_namespace(namespace, {"location": location}):
            return True
    except FloeStorageError:
        raise
    except Exception:
        # Catalogs say in different ways that another process was quicker.
        if not manager.namespaces.exists(namespace):
            raise
    found = manager.namespaces.properties(namespace).get("location")
    if found is None:
        # Made as the parent of another namespace, or by somebody who did not know where it lies.
        manager.namespaces.update_properties(namespace, updates={"location": location})
    elif plain_uri(found) != plain_uri(location):
        msg = f"Namespace '{'.'.join(namespace)}' lies at {found}, not at {location}."
        raise ConfigurationError(msg, hint="Correct warehouse bucket and prefix, or give the tenant another id.")
    return False


def provision_tables(
    manager: IcebergTableManager,
    tenant: str,
    config: IcebergCatalogConfig,
    tables: Sequence[IcebergTableSpec],
    *,
    is_new: bool = False,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Create the tables that are missing; return the created and the existing ones.

    Args:
        manager: The catalog's tables.
        tenant: Whose tables.
        config: Where they lie.
        tables: What they look like.
        is_new: Whether the namespace was just made, so that nobody need ask what is in it.
    """
    namespace = ".".join(config.namespace_for(tenant))
    there = set() if is_new else set(manager.list_tables(namespace))
    created = []
    for spec in tables:
        if spec.name in there:
            continue
        declared = spec.declaration(
            location=config.table_location(tenant, spec.name),
            properties=config.table_properties(tenant, spec.name),
        )
        # Another process may have been quicker; its table is as good as ours.
        with contextlib.suppress(TableExistsError):
            manager.create_from_config(f"{namespace}.{spec.name}", declared)
            created.append(spec.name)
    return tuple(created), tuple(spec.name for spec in tables if spec.name not in created)
