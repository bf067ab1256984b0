"""Gives each tenant of a Polaris catalog credentials of its own, good for its namespace and nothing else."""

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

# Polaris's limit for the name of a principal or role.
_LONGEST_NAME = 256
# Catalog properties that lift Polaris's check of locations; older servers know them without "polaris.config.".
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
    """A tenant's access; the secret is told once and kept nowhere.

    Attributes:
        principal: Name of the principal and of its roles.
        client_id: What it authenticates with; None when it had credentials before.
        client_secret: Its secret; None when it had credentials before.
        revoked: Privileges of its role that were taken away, because a tenant should not have them.
    """

    principal: str
    client_id: str | None = None
    client_secret: SecretStr | None = None
    revoked: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether the credentials are told here, and only here."""
        return self.client_secret is not None


@dataclass(frozen=True, slots=True)
class AccessReview:
    """How a tenant's access differs from what it should be.

    Attributes:
        excess: Privileges and roles that it has and should not have.
        missing: Privileges and roles that it should have and has not.
    """

    excess: tuple[str, ...]
    missing: tuple[str, ...]


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

    def grant(
        self, tenant: str, *, rotate: bool = False, hand_over: Callable[[TenantAccess], None] | None = None
    ) -> TenantAccess:
        """Give a tenant access to its namespace, which must exist; may be repeated.

        What its role may do beyond that is taken away, such as privileges that an earlier floe granted.

        Args:
            tenant: Whom.
            rotate: Give a principal that is there already new credentials; the old ones end.
            hand_over: Takes new credentials the moment the server has told them. What fails after that can be repeated;
                the secret is told this once.
        """
        name = self.principal_of(tenant)
        with traced("tenancy.grant", tenant=tenant, principal=name) as operation:
            management = self._management
            management.ensure_principal_role(name)
            management.ensure_catalog_role(self._catalog, name)
            revoked = self._tighten(tenant, name)
            management.assign_catalog_role(name, self._catalog, name)
            # Last, because its secret is told once: what fails before this can simply be repeated.
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

    def review(self, tenant: str) -> AccessReview | None:
        """Compare what a tenant may do with what it should; None for one without principal and roles."""
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
            held = management.catalog_roles_of(name, catalog) or []
            excess += [
                f"the role '{role}' of catalog '{catalog}'" for role in held if (catalog, role) != self._own(name)
            ]
            missing += [] if catalog != self._catalog or name in held else [f"the role '{name}' of catalog '{catalog}'"]
        return AccessReview(tuple(excess), tuple(missing))

    def unsafe_settings(self) -> list[str]:
        """Name the catalog's settings with which Polaris lets a tenant's tables lie where its neighbors' are."""
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
        """Give a tenant's role exactly what it should have; return what it had beyond that."""
        management, expected = self._management, self._expected(tenant)
        held = management.list_grants(self._catalog, name)
        # What it should have comes first: a pipeline may be running with these credentials.
        management.grant(self._catalog, name, [grant for grant in expected if grant not in held])
        excess = [grant for grant in held if grant not in expected]
        management.revoke(self._catalog, name, excess)
        return tuple(map(str, excess))


def _access(name: str, credentials: PrincipalCredentials | None, revoked: tuple[str, ...]) -> TenantAccess:
    if credentials is None:
        return TenantAccess(name, revoked=revoked)
    return TenantAccess(name, credentials.client_id, credentials.client_secret, revoked)
