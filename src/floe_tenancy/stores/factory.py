"""The default storage factory: one opener a provider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.errors import MissingDependencyError
from floe_tenancy.config import CatalogProvider
from floe_tenancy.properties import catalog_properties

if TYPE_CHECKING:
    from floe_tenancy.config import BucketAddress, IcebergCatalogConfig
    from floe_tenancy.stores.base import ObjectStore


def open_object_store(config: IcebergCatalogConfig, address: BucketAddress) -> ObjectStore:
    """Open the store of one of a configuration's buckets, with the properties of its catalog.

    Raises:
        MissingDependencyError: The provider's client is not installed.
    """
    try:
        return _opened(config, address)
    except ImportError as err:
        what = f"The provider {config.provider.name}"
        raise MissingDependencyError(what, extra=config.provider.value) from err


def _opened(config: IcebergCatalogConfig, address: BucketAddress) -> ObjectStore:
    if config.provider is CatalogProvider.LOCAL:
        from floe_tenancy.stores.local import LocalObjectStore

        return LocalObjectStore(Path(address.host))
    properties = catalog_properties(config)
    if config.provider is CatalogProvider.GCS:
        from floe_tenancy.stores.google import open_gcs

        return open_gcs(address, properties)
    from floe_tenancy.stores.arrow import open_azure, open_s3

    return open_s3(address, properties) if config.provider is CatalogProvider.S3 else open_azure(address, properties)
