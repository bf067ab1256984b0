"""Proof that a catalog connection works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_cli.output import count
from floe_core.errors import CatalogAuthorizationError

if TYPE_CHECKING:
    from floe_iceberg.catalog.connection import ProjectConnection


def prove_connection(connection: ProjectConnection) -> str:
    """Ask the catalog for its namespaces and say what it answered.

    A tenant's credentials may be refused the list of all namespaces; that, too, is an answer of a working catalog.
    """
    name = f"{connection.artifacts.catalog.type} catalog '{connection.catalog.name}'"
    try:
        found = connection.namespaces.list_below()
    except CatalogAuthorizationError:
        return f"{name} answers, and does not let these credentials list all namespaces"
    return f"{name} answers, {count(len(found), 'namespace')}"


def spark_packages(connection: ProjectConnection) -> tuple[str, ...]:
    """Return the Maven packages that catalog and storage ask of Spark."""
    storage = connection.storage_plugin.get_spark_packages() if connection.storage_plugin else ()
    catalog = connection.catalog_plugin.get_spark_packages(connection.catalog.properties)
    return tuple(dict.fromkeys((*storage, *catalog)))
