"""The tenant catalog configuration under its documented name."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_tenancy.config import BucketAddress, CatalogProvider, IcebergCatalogConfig

__all__ = ["BucketAddress", "CatalogProvider", "IcebergCatalogConfig"]

_HOMES = {
    "BucketAddress": "floe_tenancy.config",
    "CatalogProvider": "floe_tenancy.config",
    "IcebergCatalogConfig": "floe_tenancy.config",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
