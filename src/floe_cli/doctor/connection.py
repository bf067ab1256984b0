"""Verify the catalog connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_cli.output import count
from floe_core.errors import CatalogAuthorizationError

if TYPE_CHECKING:
    from floe_iceberg.catalog.connection import ProjectConnection


def probe_catalog(connection: ProjectConnection) -> str:
    """List the catalog's namespaces and describe the response.

    A tenant's credentials may lack the privilege to list all namespaces, but the connection still works.
    """
    name = f"{connection.artifacts.catalog.type} catalog '{connection.catalog.name}'"
    try:
        found = connection.namespaces.list_below()
    except CatalogAuthorizationError:
        return f"{name} responds; these credentials are not allowed to list all namespaces"
    return f"{name} responds, {count(len(found), 'namespace')}"


def spark_packages(connection: ProjectConnection) -> tuple[str, ...]:
    """Return the Maven packages that the catalog and storage plugins need in Spark."""
    storage = connection.storage_plugin.get_spark_packages() if connection.storage_plugin else ()
    catalog = connection.catalog_plugin.get_spark_packages(connection.catalog.properties)
    return tuple(dict.fromkeys((*storage, *catalog)))
