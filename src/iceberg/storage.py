"""The tenant object stores under their documented name."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_tenancy.storage import Marker, WarehouseStorageManager
    from floe_tenancy.stores import ObjectStore, StoredObject, open_object_store

__all__ = ["Marker", "ObjectStore", "StoredObject", "WarehouseStorageManager", "open_object_store"]

_HOMES = {
    "Marker": "floe_tenancy.storage",
    "ObjectStore": "floe_tenancy.stores",
    "StoredObject": "floe_tenancy.stores",
    "WarehouseStorageManager": "floe_tenancy.storage",
    "open_object_store": "floe_tenancy.stores",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
