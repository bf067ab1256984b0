"""Object stores for bootstrap and off-boarding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.plugins.object_store import ObjectStore, StoredObject
from floe_storage.opening import open_store
from floe_tenancy.config import CatalogProvider
from floe_tenancy.layout.properties import catalog_properties

if TYPE_CHECKING:
    from floe_tenancy.config import BucketAddress, IcebergCatalogConfig

__all__ = ["ObjectStore", "StoredObject", "open_object_store"]


def open_object_store(config: IcebergCatalogConfig, address: BucketAddress) -> ObjectStore:
    """Open the store of a bucket in the configuration, using the properties of the catalog.

    Raises:
        MissingDependencyError: The provider's client is not installed.
    """
    local = config.provider is CatalogProvider.LOCAL
    return open_store(address.uri(), {} if local else catalog_properties(config))
