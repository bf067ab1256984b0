"""The tenancy API under its documented name; everything lives in ``floe_tenancy``."""

from floe_tenancy import (
    CatalogBootstrapResult,
    CatalogHandle,
    CatalogProvider,
    IcebergCatalogBootstrapper,
    IcebergCatalogConfig,
    IcebergTableSpec,
    SchemaEvolutionManager,
    WarehouseStorageManager,
)

__all__ = [
    "CatalogBootstrapResult",
    "CatalogHandle",
    "CatalogProvider",
    "IcebergCatalogBootstrapper",
    "IcebergCatalogConfig",
    "IcebergTableSpec",
    "SchemaEvolutionManager",
    "WarehouseStorageManager",
]
