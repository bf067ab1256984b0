"""Object stores as bootstrap and off-boarding need them: create-only puts, listings, deletes."""

from floe_tenancy.stores.base import ObjectStore, StoredObject
from floe_tenancy.stores.factory import open_object_store

__all__ = ["ObjectStore", "StoredObject", "open_object_store"]
