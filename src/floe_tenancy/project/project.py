"""The tenancy configuration of a project, and the project as it runs for one tenant."""

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
    """Return the tenant catalog configuration of an open project: tenants are located below its warehouse.

    Raises:
        CapabilityError: Tenancy does not support the storage plugin's store, or the plugin is not installed.
    """
    storage = connection.storage_plugin
    if storage is None:
        msg = "Tenants require the plugin of the storage section, which is not installed."
        raise CapabilityError(msg, hint="Install it; bootstrap and off-boarding access the object store directly.")
    section = _section(connection.artifacts)
    uri = urlsplit(warehouse_root(storage))
    provider = next((one for one in CatalogProvider if uri.scheme in one.schemes), None)
    if provider is None:
        msg = f"Tenants are not supported on storage with the scheme '{uri.scheme}'."
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
    """Return a bootstrapper that uses an open project's catalog and storage."""
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
            # The plugin has no object store, but its FileIO properties are enough to open one.
            return open_store(address.uri(), storage.get_file_io_properties())

    return IcebergCatalogBootstrapper(load, open_bucket)


def project_isolation(connection: ProjectConnection) -> PolarisIsolation | None:
    """Return the tenant isolation of an open project; None if its catalog is not Polaris."""
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
    """Return the tables of a new tenant, as declared in ``tenancy.tables``.

    Raises:
        ConfigurationError: A declaration is not valid for tenants.
    """
    declared = _section(artifacts).tables
    return tuple(IcebergTableSpec.from_config(name, table) for name, table in declared.items()) or DEFAULT_TABLES


def tenant_namespace(artifacts: CompiledArtifacts, tenant: str) -> str:
    """Return a tenant's dotted namespace in a project.

    Raises:
        InvalidIdentifierError: The tenant id is invalid.
    """
    return f"{_section(artifacts).namespace_prefix}.{validate_tenant_id(tenant)}"


def tenant_artifacts(artifacts: CompiledArtifacts, tenant: str) -> CompiledArtifacts:
    """Return a project's artifacts for one tenant, with all tables in the tenant's namespace.

    ``bronze.orders`` becomes ``tenants.acme.bronze.orders``, with its files below the tenant's prefix.

    Raises:
        InvalidIdentifierError: The tenant id is invalid.
        ConfigurationError: A table declares a location, which tenants would share.
    """
    namespace = tenant_namespace(artifacts, tenant)
    if fixed := sorted(name for name, table in artifacts.tables.items() if table.location):
        msg = f"Tables that declare a location would be shared by all tenants: {', '.join(fixed)}."
        raise ConfigurationError(msg, hint="Remove the location; each tenant's files are stored below its own prefix.")
    changed = artifacts.model_copy(
        update={
            "tables": {f"{namespace}.{name}": table for name, table in artifacts.tables.items()},
            "retention": {f"{namespace}.{name}": kept for name, kept in artifacts.retention.items()},
        }
    )
    # Recompute the fingerprint, so that tenants do not share one.
    changed = changed.model_copy(update={"fingerprint": changed.content_digest()})
    return changed.rooted_at(artifacts.project_root)


def _section(artifacts: CompiledArtifacts) -> TenancyConfig:
    return expand_section(artifacts.tenancy, path="tenancy")
