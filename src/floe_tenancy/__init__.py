"""Isolated Iceberg catalogs for tenants: bootstrap, schema evolution, verification and off-boarding."""

from floe_iceberg.table.history.legal_hold import LEGAL_HOLD
from floe_tenancy.bootstrap import (
    BootstrapSession,
    CatalogBootstrapResult,
    CatalogHandle,
    IcebergCatalogBootstrapper,
)
from floe_tenancy.config import BucketAddress, CatalogProvider, IcebergCatalogConfig
from floe_tenancy.evolution import EvolutionPlan, SchemaEvolutionManager
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.isolation import AccessReview, PolarisIsolation, TenantAccess
from floe_tenancy.offboarding.inventory import OffboardingPlan
from floe_tenancy.offboarding.offboard import OffboardingResult, OffboardingStep, TenantOffboarding
from floe_tenancy.project.fleet import FleetReport, TenantOutcome, TenantState, bootstrap_many, evolve_all
from floe_tenancy.project.pipeline import TenantTables
from floe_tenancy.project.project import (
    project_bootstrapper,
    project_isolation,
    tenancy_config,
    tenant_artifacts,
    tenant_namespace,
    tenant_table_specs,
)
from floe_tenancy.storage import Marker, WarehouseStorageManager
from floe_tenancy.stores import ObjectStore, StoredObject, open_object_store
from floe_tenancy.tables import DEFAULT_TABLES, IcebergTableSpec
from floe_tenancy.verify import CheckState, LayoutCheck, LayoutReport, verify_tenant, verify_tenants

__all__ = [
    "DEFAULT_TABLES",
    "LEGAL_HOLD",
    "AccessReview",
    "BootstrapSession",
    "BucketAddress",
    "CatalogBootstrapResult",
    "CatalogHandle",
    "CatalogProvider",
    "CheckState",
    "EvolutionPlan",
    "FleetReport",
    "IcebergCatalogBootstrapper",
    "IcebergCatalogConfig",
    "IcebergTableSpec",
    "LayoutCheck",
    "LayoutReport",
    "Marker",
    "ObjectStore",
    "OffboardingPlan",
    "OffboardingResult",
    "OffboardingStep",
    "PolarisIsolation",
    "SchemaEvolutionManager",
    "StoredObject",
    "TenantAccess",
    "TenantOffboarding",
    "TenantOutcome",
    "TenantState",
    "TenantTables",
    "WarehouseStorageManager",
    "bootstrap_many",
    "evolve_all",
    "open_object_store",
    "project_bootstrapper",
    "project_isolation",
    "tenancy_config",
    "tenant_artifacts",
    "tenant_namespace",
    "tenant_table_specs",
    "validate_tenant_id",
    "verify_tenant",
    "verify_tenants",
]
