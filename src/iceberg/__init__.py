"""The tenancy API under its documented name. It is implemented in ``floe_tenancy`` and imported lazily."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "CatalogBootstrapResult": "floe_tenancy",
    "CatalogHandle": "floe_tenancy",
    "CatalogProvider": "floe_tenancy",
    "IcebergCatalogBootstrapper": "floe_tenancy",
    "IcebergCatalogConfig": "floe_tenancy",
    "IcebergTableSpec": "floe_tenancy",
    "SchemaEvolutionManager": "floe_tenancy",
    "WarehouseStorageManager": "floe_tenancy",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
