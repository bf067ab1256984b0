"""The tables of a project's pipeline, per tenant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from floe_core.declaration.locations import plain_uri
from floe_core.errors import CatalogAuthorizationError, ConfigurationError, NamespaceNotFoundError
from floe_core.schemas import TableConfig
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.layout.layout import METADATA_PATH
from floe_tenancy.layout.roster import known_tenants
from floe_tenancy.project.project import tenancy_config, tenant_namespace, tenant_table_specs

if TYPE_CHECKING:
    from floe_iceberg.catalog.connection import ProjectConnection


class TenantTables:
    """The tables of an open project, per tenant.

    For tenant ``acme``, ``bronze.orders`` is ``tenants.acme.bronze.orders``, with its files below acme's prefix.
    """

    def __init__(self, connection: ProjectConnection) -> None:
        """Create the object without accessing the catalog.

        Raises:
            CapabilityError: The project's storage does not support tenants.
        """
        self._connection = connection
        self._artifacts = connection.artifacts
        self._config = tenancy_config(connection)
        self._ready: set[str] = set()

    def tenants(self) -> list[str]:
        """List the tenants of the project, sorted."""
        return known_tenants(self._connection, self._config)

    def name(self, tenant: str, table: str) -> str:
        """Return the full name of a tenant's table.

        Raises:
            InvalidIdentifierError: The tenant id is invalid.
        """
        return f"{tenant_namespace(self._artifacts, tenant)}.{table}"

    def require(self, tenant: str) -> None:
        """Refuse a tenant that was never bootstrapped; nothing is changed.

        Raises:
            InvalidIdentifierError: The tenant id is invalid.
            NamespaceNotFoundError: There is no such tenant.
            ConfigurationError: Its namespace has another location.
        """
        if validate_tenant_id(tenant) in self._ready:
            return
        namespace = self._config.namespace_for(tenant)
        if not self._connection.namespaces.exists(namespace):
            raise self._unknown(tenant)
        expected = self._config.warehouse_uri_for(tenant)
        found = self._connection.namespaces.properties(namespace).get("location")
        if found is None or plain_uri(found) != plain_uri(expected):
            msg = f"Namespace of tenant '{tenant}' has location {found}, expected {expected}."
            raise ConfigurationError(msg, hint=f"Run: floe tenants bootstrap {tenant}")
        self._ready.add(tenant)

    def declaration(self, tenant: str, table: str) -> TableConfig:
        """Return the declaration of a tenant's table: that of floe.yaml, located below the tenant's prefix.

        Raises:
            ConfigurationError: The table declares a location, or its location is inside that of another table.
        """
        declared = self._artifacts.tables.get(table, TableConfig())
        if declared.location:
            msg = f"Table '{table}' declares a location, which all tenants would share."
            raise ConfigurationError(
                msg, hint="Remove the location; each tenant's files are stored below its own prefix."
            )
        namespace = table.split(".", 1)[0]
        if namespace in {spec.name for spec in tenant_table_specs(self._artifacts)}:
            msg = f"The location of '{table}' would be inside that of the tenant table '{namespace}'."
            raise ConfigurationError(msg, hint="Rename the asset's namespace, or the table in tenancy.tables.")
        path = table.replace(".", "/")
        metadata = self._config.metadata_uri_for(tenant)
        properties = {METADATA_PATH: f"{metadata}/{path}/metadata"} if metadata else {}
        return declared.model_copy(
            update={
                "location": f"{self._config.warehouse_uri_for(tenant)}/{path}",
                "properties": {**declared.properties, **properties},
            }
        )

    def _unknown(self, tenant: str) -> NamespaceNotFoundError:
        try:
            known = self.tenants()
        except CatalogAuthorizationError:
            known = []
        same = [name for name in known if name.casefold() == tenant.casefold()]
        close = same or get_close_matches(tenant, known, n=1)
        suggestion = f"Did you mean '{close[0]}'? " if close else ""
        # Bootstrap refuses ids that differ only in case.
        create = "" if same else f"Create it with: floe tenants bootstrap {tenant}"
        return NamespaceNotFoundError(f"Tenant '{tenant}' not found.", hint=(suggestion + create).rstrip())
