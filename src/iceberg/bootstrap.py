"""The tenant bootstrap API under its documented name."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_tenancy.bootstrap import CatalogBootstrapResult, CatalogHandle, IcebergCatalogBootstrapper

__all__ = ["CatalogBootstrapResult", "CatalogHandle", "IcebergCatalogBootstrapper"]

_HOMES = {
    "_load_pyiceberg_catalog": "floe_tenancy.bootstrap",
    "CatalogBootstrapResult": "floe_tenancy.bootstrap",
    "CatalogHandle": "floe_tenancy.bootstrap",
    "IcebergCatalogBootstrapper": "floe_tenancy.bootstrap",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
