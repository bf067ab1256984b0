"""The default storage factory: one opener a provider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.errors import MissingDependencyError
from floe_tenancy.config import CatalogProvider
from floe_tenancy.layout.properties import catalog_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from floe_tenancy.config import BucketAddress, IcebergCatalogConfig
    from floe_tenancy.stores.base import ObjectStore


def open_object_store(config: IcebergCatalogConfig, address: BucketAddress) -> ObjectStore:
    """Open the store of one of a configuration's buckets, with the properties of its catalog.

    Raises:
        MissingDependencyError: The provider's client is not installed.
    """
    local = config.provider is CatalogProvider.LOCAL
    return open_store(config.provider, address, {} if local else catalog_properties(config))


def open_store(provider: CatalogProvider, address: BucketAddress, properties: Mapping[str, str]) -> ObjectStore:
    """Open a bucket with PyIceberg's file properties.

    Raises:
        MissingDependencyError: The provider's client is not installed.
    """
    try:
        return _opened(provider, address, properties)
    except ImportError as err:
        what = f"The provider {provider.name}"
        raise MissingDependencyError(what, extra=provider.value) from err


def _opened(provider: CatalogProvider, address: BucketAddress, properties: Mapping[str, str]) -> ObjectStore:
    if provider is CatalogProvider.LOCAL:
        from floe_tenancy.stores.local import LocalObjectStore

        return LocalObjectStore(Path(address.host))
    if provider is CatalogProvider.GCS:
        from floe_tenancy.stores.google import open_gcs

        return open_gcs(address, properties)
    from floe_tenancy.stores.arrow import open_azure, open_s3

    return open_s3(address, properties) if provider is CatalogProvider.S3 else open_azure(address, properties)
