"""An isolated Iceberg catalog for each tenant: bootstrapped, evolved, off-boarded."""

from floe_tenancy.bootstrap import CatalogBootstrapResult, CatalogHandle, IcebergCatalogBootstrapper
from floe_tenancy.config import CatalogProvider, IcebergCatalogConfig
from floe_tenancy.evolution import EvolutionPlan, SchemaEvolutionManager
from floe_tenancy.fleet import FleetReport, TenantOutcome, TenantState, bootstrap_many, evolve_all
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.storage import Marker, WarehouseStorageManager
from floe_tenancy.stores import ObjectStore, StoredObject, open_object_store
from floe_tenancy.tables import DEFAULT_TABLES, IcebergTableSpec

__all__ = [
    "DEFAULT_TABLES",
    "CatalogBootstrapResult",
    "CatalogHandle",
    "CatalogProvider",
    "EvolutionPlan",
    "FleetReport",
    "IcebergCatalogBootstrapper",
    "IcebergCatalogConfig",
    "IcebergTableSpec",
    "Marker",
    "ObjectStore",
    "SchemaEvolutionManager",
    "StoredObject",
    "TenantOutcome",
    "TenantState",
    "WarehouseStorageManager",
    "bootstrap_many",
    "evolve_all",
    "open_object_store",
    "validate_tenant_id",
]
