"""Tenants of a project: the configuration of floe.yaml, and the project as one tenant sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from floe_core.declaration.expansion import expand_section
from floe_core.errors import CapabilityError, ConfigurationError
from floe_core.plugins.host.connecting import warehouse_root
from floe_storage.opening import open_store
from floe_tenancy.bootstrap import IcebergCatalogBootstrapper
from floe_tenancy.config import CatalogProvider, IcebergCatalogConfig
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.isolation import PolarisIsolation
from floe_tenancy.tables import DEFAULT_TABLES, IcebergTableSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from floe_core.schemas import CompiledArtifacts, TenancyConfig
    from floe_iceberg.catalog.connection import ProjectConnection
    from floe_tenancy.config import BucketAddress
    from floe_tenancy.stores import ObjectStore

POLARIS = "polaris"


def tenancy_config(connection: ProjectConnection) -> IcebergCatalogConfig:
    """Return where an open project's tenants live: below the warehouse of its storage section.

    Raises:
        CapabilityError: The storage plugin's store is of a kind that tenancy does not know.
    """
    storage = connection.storage_plugin
    if storage is None:
        msg = "Tenants need the storage section's plugin, which is not installed."
        raise CapabilityError(msg, hint="Install it: markers and off-boarding work on the object store itself.")
    section = _section(connection.artifacts)
    uri = urlsplit(warehouse_root(storage))
    provider = next((one for one in CatalogProvider if uri.scheme in one.schemes), None)
    if provider is None:
        msg = f"Tenants cannot live on a store with '{uri.scheme}' addresses."
        raise CapabilityError(msg, hint="Use local, s3, gcs or azure storage.")
    is_local = provider is CatalogProvider.LOCAL
    return IcebergCatalogConfig(
        name=connection.catalog.name,
        provider=provider,
        warehouse_bucket=uri.path if is_local else f"{uri.scheme}://{uri.netloc}",
        warehouse_prefix="" if is_local else uri.path,
        metadata_bucket=section.metadata_bucket,
        metadata_prefix=section.metadata_prefix,
        namespace_prefix=tuple(section.namespace_prefix.split(".")),
    )


def project_bootstrapper(connection: ProjectConnection) -> IcebergCatalogBootstrapper:
    """Return a bootstrapper that works through an open project's catalog and storage."""
    storage = connection.storage_plugin

    def load(_: IcebergCatalogConfig) -> Catalog:
        return connection.catalog

    def open_bucket(config: IcebergCatalogConfig, address: BucketAddress) -> ObjectStore:
        del config
        if storage is None:
            return open_store(address.uri(), {})
        try:
            return storage.object_store(address.uri())
        except CapabilityError:
            # A plugin without stores of its own still knows how PyIceberg accesses its files.
            return open_store(address.uri(), storage.get_file_io_properties())

    return IcebergCatalogBootstrapper(load, open_bucket)


def project_isolation(connection: ProjectConnection) -> PolarisIsolation | None:
    """Return the project's way to give tenants credentials of their own; None when its catalog is no Polaris."""
    section = connection.artifacts.catalog
    if section.type != POLARIS:
        return None
    from floe_polaris import PolarisCatalogConfig
    from floe_polaris.management import PolarisManagement

    expanded = expand_section(section, path="catalog", secrets=connection.secrets)
    config = PolarisCatalogConfig.from_catalog_config(expanded)
    return PolarisIsolation(
        PolarisManagement(config), catalog=config.warehouse or config.name, config=tenancy_config(connection)
    )


def tenant_table_specs(artifacts: CompiledArtifacts) -> tuple[IcebergTableSpec, ...]:
    """Return the tables every tenant starts with, as ``tenancy.tables`` declares them.

    Raises:
        ConfigurationError: A declaration cannot be used for tenants.
    """
    declared = _section(artifacts).tables
    return tuple(IcebergTableSpec.from_config(name, table) for name, table in declared.items()) or DEFAULT_TABLES


def tenant_namespace(artifacts: CompiledArtifacts, tenant: str) -> str:
    """Return a tenant's namespace in a project, dotted.

    Raises:
        InvalidIdentifierError: The id cannot name a tenant.
    """
    return f"{_section(artifacts).namespace_prefix}.{validate_tenant_id(tenant)}"


def tenant_artifacts(artifacts: CompiledArtifacts, tenant: str) -> CompiledArtifacts:
    """Return the project as one tenant runs it: every table lies in the tenant's namespace.

    ``bronze.orders`` becomes ``tenants.acme.bronze.orders``, and its files go below the tenant's prefix.

    Raises:
        InvalidIdentifierError: The id cannot name a tenant.
        ConfigurationError: A table declares a location, which tenants would share.
    """
    namespace = tenant_namespace(artifacts, tenant)
    if fixed := sorted(name for name, table in artifacts.tables.items() if table.location):
        msg = f"Tables with a location of their own would be shared by all tenants: {', '.join(fixed)}."
        raise ConfigurationError(msg, hint="Remove the location: each tenant's files lie below its own prefix.")
    changed = artifacts.model_copy(
        update={
            "tables": {f"{namespace}.{name}": table for name, table in artifacts.tables.items()},
            "retention": {f"{namespace}.{name}": kept for name, kept in artifacts.retention.items()},
        }
    )
    # Equal content, equal digest: runs of two tenants must not be taken for one.
    changed = changed.model_copy(update={"fingerprint": changed.content_digest()})
    return changed.rooted_at(artifacts.project_root)


def _section(artifacts: CompiledArtifacts) -> TenancyConfig:
    return expand_section(artifacts.tenancy, path="tenancy")
