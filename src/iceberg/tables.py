"""The default tenant tables under their documented name."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_tenancy.tables import DEFAULT_TABLES, IcebergTableSpec

__all__ = ["DEFAULT_TABLES", "IcebergTableSpec"]

_HOMES = {
    "DEFAULT_TABLES": "floe_tenancy.tables",
    "IcebergTableSpec": "floe_tenancy.tables",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
