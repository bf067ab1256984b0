"""Tenant isolation on Polaris: each tenant gets its own credentials, which only have access to its namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.errors import ConfigurationError
from floe_core.telemetry import traced
from floe_polaris.management import TENANT_PRIVILEGES, Grant, GrantKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import SecretStr

    from floe_polaris.management import PolarisManagement, PrincipalCredentials
    from floe_tenancy.config import IcebergCatalogConfig

# Polaris's maximum length of principal and role names.
_MAX_NAME_LENGTH = 256
# Catalog properties that disable Polaris's location checks; older servers use them without "polaris.config.".
_UNSAFE_SETTINGS = frozenset(
    {
        "allow.unstructured.table.location",
        "allow.external.table.location",
        "allow.overlapping.table.location",
        "namespace-custom-location.enabled",
    }
)


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """A tenant's access; the secret is returned once and never stored.

    Attributes:
        principal: Name of the principal and of its roles.
        client_id: Client id; None if the tenant already had credentials.
        client_secret: Client secret; None if the tenant already had credentials.
        revoked: Excess privileges that were revoked from its role.
    """

    principal: str
    client_id: str | None = None
    client_secret: SecretStr | None = None
    revoked: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether new credentials were created."""
        return self.client_secret is not None


@dataclass(frozen=True, slots=True)
class AccessReview:
    """Differences between a tenant's actual and expected access.

    Attributes:
        excess: Privileges and roles that the tenant has but should not have.
        missing: Privileges and roles that the tenant should have but does not.
    """

    excess: tuple[str, ...]
    missing: tuple[str, ...]


class PolarisIsolation:
    """Principals, roles and grants of tenants, one namespace each."""

    def __init__(self, management: PolarisManagement, *, catalog: str, config: IcebergCatalogConfig) -> None:
        """Use Polaris's management API.

        Args:
            management: A connection whose principal may administer the server.
            catalog: Name of the catalog in Polaris; connections use it as the warehouse.
            config: Configuration with the tenants' namespaces.
        """
        self._management = management
        self._catalog = catalog
        self._config = config

    def principal_of(self, tenant: str) -> str:
        """Return the name of a tenant's principal and roles, unique per catalog and namespace.

        Raises:
            InvalidIdentifierError: The tenant id is invalid.
            ConfigurationError: The name is too long.
        """
        name = ".".join((self._catalog, *self._config.namespace_for(tenant)))
        if len(name) > _MAX_NAME_LENGTH:
            msg = f"Principal name '{name}' has more than {_MAX_NAME_LENGTH} characters."
            raise ConfigurationError(msg, hint="Use a shorter namespace prefix.")
        return name

    def grant(
        self, tenant: str, *, rotate: bool = False, hand_over: Callable[[TenantAccess], None] | None = None
    ) -> TenantAccess:
        """Grant a tenant access to its namespace, which must exist. Idempotent.

        Excess privileges of its role are revoked, such as those granted by earlier versions of floe.

        Args:
            tenant: The tenant.
            rotate: Whether to replace the credentials of an existing principal; the old ones become invalid.
            hand_over: Called with new credentials as soon as the server returns them. Steps that fail later can be
                repeated, but the server never returns the secret again.
        """
        name = self.principal_of(tenant)
        with traced("tenancy.grant", tenant=tenant, principal=name) as operation:
            management = self._management
            management.ensure_principal_role(name)
            management.ensure_catalog_role(self._catalog, name)
            revoked = self._tighten(tenant, name)
            management.assign_catalog_role(name, self._catalog, name)
            # Create the principal late: its secret is returned only once, and earlier steps can be repeated.
            credentials = management.create_principal(name)
            if credentials is None and rotate:
                credentials = management.reset_principal(name)
            access = _access(name, credentials, revoked)
            if access.is_new and hand_over:
                hand_over(access)
            management.assign_principal_role(name, name)
            operation.set(new_credentials=access.is_new, revoked=len(revoked))
            return access

    def revoke(self, tenant: str) -> bool:
        """Revoke a tenant's access; return whether it had any. Idempotent."""
        name = self.principal_of(tenant)
        with traced("tenancy.revoke", tenant=tenant, principal=name):
            # Delete the principal first, to invalidate its credentials at once.
            gone = [
                self._management.delete_principal(name),
                self._management.delete_principal_role(name),
                self._management.delete_catalog_role(self._catalog, name),
            ]
            return any(gone)

    def has_access(self, tenant: str) -> bool:
        """Return whether a tenant's principal or one of its roles exists."""
        name = self.principal_of(tenant)
        management = self._management
        return (
            name in management.list_principals()
            or name in management.list_principal_roles()
            or name in management.list_catalog_roles(self._catalog)
        )

    def review(self, tenant: str) -> AccessReview | None:
        """Compare a tenant's actual and expected access; return None if it has no principal and no roles."""
        name, management = self.principal_of(tenant), self._management
        grants = management.find_grants(self._catalog, name)
        roles = management.roles_of_principal(name)
        if grants is None and roles is None:
            return None
        expected = self._expected(tenant)
        excess = [str(grant) for grant in grants or () if grant not in expected]
        missing = [str(grant) for grant in expected if grant not in (grants or ())]
        excess += [f"the principal role '{role}'" for role in roles or () if role != name]
        missing += [] if name in (roles or ()) else [f"the principal role '{name}'"]
        catalogs = {self._catalog, *(catalog.name for catalog in management.list_catalogs())}
        for catalog in sorted(catalogs):
            granted = management.catalog_roles_of(name, catalog) or []
            excess += [
                f"the role '{role}' of catalog '{catalog}'" for role in granted if (catalog, role) != self._own(name)
            ]
            missing += (
                [] if catalog != self._catalog or name in granted else [f"the role '{name}' of catalog '{catalog}'"]
            )
        return AccessReview(tuple(excess), tuple(missing))

    def unsafe_settings(self) -> list[str]:
        """Return the catalog settings that allow a tenant's tables to be located in another tenant's prefix."""
        catalog = self._management.find_catalog(self._catalog)
        if catalog is None:
            return []
        found = [
            f"{key}={value}"
            for key, value in catalog.properties.items()
            if key.removeprefix("polaris.config.") in _UNSAFE_SETTINGS and value.strip().lower() == "true"
        ]
        return [*found, *(["type=EXTERNAL"] if catalog.type == "EXTERNAL" else [])]

    def _own(self, name: str) -> tuple[str, str]:
        return self._catalog, name

    def _expected(self, tenant: str) -> list[Grant]:
        namespace = self._config.namespace_for(tenant)
        return [Grant(type=GrantKind.NAMESPACE, privilege=item, namespace=namespace) for item in TENANT_PRIVILEGES]

    def _tighten(self, tenant: str, name: str) -> tuple[str, ...]:
        """Give a tenant's role exactly the expected privileges; return the revoked ones."""
        management, expected = self._management, self._expected(tenant)
        granted = management.list_grants(self._catalog, name)
        # Grant before revoking: a pipeline may be running with these credentials.
        management.grant(self._catalog, name, [grant for grant in expected if grant not in granted])
        excess = [grant for grant in granted if grant not in expected]
        management.revoke(self._catalog, name, excess)
        return tuple(map(str, excess))


def _access(name: str, credentials: PrincipalCredentials | None, revoked: tuple[str, ...]) -> TenantAccess:
    if credentials is None:
        return TenantAccess(name, revoked=revoked)
    return TenantAccess(name, credentials.client_id, credentials.client_secret, revoked)
