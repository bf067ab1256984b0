"""Gives each tenant of a Polaris catalog credentials of its own, good for its namespace and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.errors import ConfigurationError
from floe_core.telemetry import traced
from floe_polaris.management import TENANT_PRIVILEGES, GrantKind

if TYPE_CHECKING:
    from pydantic import SecretStr

    from floe_polaris.management import PolarisManagement, PrincipalCredentials
    from floe_tenancy.config import IcebergCatalogConfig

# Polaris's limit for the name of a principal or role.
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """A tenant's access; the secret is told once and kept nowhere.

    Attributes:
        principal: Name of the principal and of its roles.
        client_id: What it authenticates with; None when it had credentials before.
        client_secret: Its secret; None when it had credentials before.
    """

    principal: str
    client_id: str | None = None
    client_secret: SecretStr | None = None

    @property
    def is_new(self) -> bool:
        """Whether the credentials are told here, and only here."""
        return self.client_secret is not None


class PolarisIsolation:
    """Principals, roles and grants of tenants, one namespace each."""

    def __init__(self, management: PolarisManagement, *, catalog: str, config: IcebergCatalogConfig) -> None:
        """Work through Polaris's management API.

        Args:
            management: A connection whose principal may manage the server.
            catalog: The catalog's name in Polaris, which is the warehouse of a connection.
            config: Tells the tenants' namespaces.
        """
        self._management = management
        self._catalog = catalog
        self._config = config

    def principal_of(self, tenant: str) -> str:
        """Return the name of a tenant's principal and roles: catalog and namespace, so that none is shared.

        Raises:
            InvalidIdentifierError: The id cannot name a tenant.
            ConfigurationError: Catalog and namespace together are too long.
        """
        name = ".".join((self._catalog, *self._config.namespace_for(tenant)))
        if len(name) > _LONGEST_NAME:
            msg = f"The principal's name '{name}' has more than {_LONGEST_NAME} characters."
            raise ConfigurationError(msg, hint="Use a shorter namespace prefix.")
        return name

    def grant(self, tenant: str, *, rotate: bool = False) -> TenantAccess:
        """Give a tenant access to its namespace, which must exist; may be repeated.

        Args:
            tenant: Whom.
            rotate: Give a principal that is there already new credentials; the old ones end.
        """
        name = self.principal_of(tenant)
        with traced("tenancy.grant", tenant=tenant, principal=name) as operation:
            management = self._management
            management.ensure_principal_role(name)
            management.ensure_catalog_role(self._catalog, name)
            management.grant_namespace(self._catalog, name, self._config.namespace_for(tenant), TENANT_PRIVILEGES)
            management.assign_catalog_role(name, self._catalog, name)
            # Last, because its secret is told once: what fails before this can simply be repeated.
            credentials = management.create_principal(name)
            if credentials is None and rotate:
                credentials = management.reset_principal(name)
            management.assign_principal_role(name, name)
            operation.set(new_credentials=credentials is not None)
        return _access(name, credentials)

    def revoke(self, tenant: str) -> bool:
        """End a tenant's access; tell whether there was any. May be repeated."""
        name = self.principal_of(tenant)
        with traced("tenancy.revoke", tenant=tenant, principal=name):
            # The principal first: from here on nobody can act for the tenant.
            gone = [
                self._management.delete_principal(name),
                self._management.delete_principal_role(name),
                self._management.delete_catalog_role(self._catalog, name),
            ]
            return any(gone)

    def has_access(self, tenant: str) -> bool:
        """Tell whether a tenant's principal or one of its roles is there."""
        name = self.principal_of(tenant)
        management = self._management
        return (
            name in management.list_principals()
            or name in management.list_principal_roles()
            or name in management.list_catalog_roles(self._catalog)
        )

    def excess_grants(self, tenant: str) -> list[str]:
        """Name the privileges of a tenant's role that reach beyond its namespace."""
        namespace = self._config.namespace_for(tenant)
        return [
            f"{grant.privilege} on {grant.type.value} {'.'.join(grant.namespace or ())}".rstrip()
            for grant in self._management.list_grants(self._catalog, self.principal_of(tenant))
            if grant.type is GrantKind.CATALOG
            or grant.namespace is None
            or grant.namespace[: len(namespace)] != namespace
        ]


def _access(name: str, credentials: PrincipalCredentials | None) -> TenantAccess:
    if credentials is None:
        return TenantAccess(name)
    return TenantAccess(name, credentials.client_id, credentials.client_secret)
