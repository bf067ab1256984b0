"""Polaris's management API: catalogs, principals, roles and grants; every ``ensure_…`` method is idempotent."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from floe_core.errors import CapabilityError, CatalogConnectionError, CatalogRequestError, ConfigurationError
from floe_core.retry import CircuitBreaker
from floe_core.telemetry import traced
from floe_polaris.client import breaker_for
from floe_polaris.errors import server_message
from floe_polaris.transport.auth import authenticator_for
from floe_polaris.transport.http import DeadlineSession
from floe_polaris.transport.origin import display_url, origin_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import requests

    from floe_polaris.config import PolarisCatalogConfig
    from floe_polaris.storage_info import StorageInfo

_CATALOG_PATH = "/api/catalog"
_MANAGEMENT_PATH = "/api/management/v1"
_NOT_FOUND = 404
_CONFLICT = 409


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class CatalogInfo(_Value):
    """A Polaris catalog; its name is the warehouse of a connection."""

    name: str
    type: str = "INTERNAL"
    properties: dict[str, str] = Field(default_factory=dict)
    storage: dict[str, Any] = Field(default_factory=dict, alias="storageConfigInfo")


class PrincipalCredentials(_Value):
    """The credentials of a principal; Polaris returns them only once."""

    client_id: str = Field(alias="clientId")
    client_secret: SecretStr = Field(alias="clientSecret")


class GrantKind(StrEnum):
    """The kind of object a grant applies to."""

    CATALOG = "catalog"
    NAMESPACE = "namespace"
    TABLE = "table"
    VIEW = "view"
    POLICY = "policy"


class Grant(_Value):
    """One privilege of a catalog role."""

    type: GrantKind = GrantKind.CATALOG
    privilege: str
    namespace: tuple[str, ...] | None = None
    table_name: str | None = Field(default=None, alias="tableName")
    view_name: str | None = Field(default=None, alias="viewName")
    policy_name: str | None = Field(default=None, alias="policyName")

    def __str__(self) -> str:
        """Format as ``PRIVILEGE on kind name``."""
        leaf = self.table_name or self.view_name or self.policy_name
        place = ".".join((*(self.namespace or ()), *([leaf] if leaf else [])))
        return f"{self.privilege} on {self.type.value} {place}".rstrip()


# The minimum that a tenant needs in its own namespace. Never NAMESPACE_WRITE_PROPERTIES or a privilege that includes
# it: a tenant could remove its namespace's location and then store tables wherever the parent namespace may. Never
# VIEW_CREATE or VIEW_WRITE_PROPERTIES: Polaris does not check where a view's metadata is written. TABLE_WRITE_DATA
# includes writing a table's properties and location, which Polaris checks against the namespace's location.
TENANT_PRIVILEGES = (
    "NAMESPACE_CREATE",
    "NAMESPACE_LIST",
    "NAMESPACE_READ_PROPERTIES",
    "NAMESPACE_DROP",
    "TABLE_CREATE",
    "TABLE_LIST",
    "TABLE_READ_DATA",
    "TABLE_WRITE_DATA",
    "TABLE_DROP",
    "VIEW_LIST",
    "VIEW_READ_PROPERTIES",
)


class PolarisManagement:
    """Manages a Polaris server with the credentials of a catalog connection.

    Attributes:
        uri: Address of the management API.
    """

    def __init__(
        self,
        config: PolarisCatalogConfig,
        *,
        management_uri: str | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """Prepare a connection; nothing is sent yet.

        Args:
            config: A connection whose principal has the privileges to manage the server.
            management_uri: Address of the management API; derived from ``…/api/catalog`` by default.
            breaker: A breaker shared with a catalog connection; a new one by default.

        Raises:
            ConfigurationError: The address cannot be derived, or is on another server.
        """
        self.uri = management_uri or _management_uri(config.uri)
        if origin_of(self.uri) != config.origin:
            msg = f"The management API at {display_url(self.uri)} is not on the catalog's own server."
            raise ConfigurationError(msg, hint="floe sends credentials only to the server of catalog.uri.")
        token_breaker = CircuitBreaker(
            config.circuit_breaker, name=f"token endpoint at {display_url(config.token_uri)}"
        )
        self._session = DeadlineSession(
            config,
            url=self.uri,
            breaker=breaker or breaker_for(config),
            authenticator=authenticator_for(config, breaker=token_breaker),
        )

    def __repr__(self) -> str:
        """Return the address."""
        return f"PolarisManagement(uri={display_url(self.uri)!r})"

    def list_catalogs(self) -> list[CatalogInfo]:
        """List the catalogs."""
        return [CatalogInfo.model_validate(item) for item in self._get("catalogs").get("catalogs", [])]

    def find_catalog(self, name: str) -> CatalogInfo | None:
        """Return a catalog; None if it does not exist."""
        content = self._find("catalogs", name)
        return CatalogInfo.model_validate(content) if content else None

    def ensure_catalog(
        self,
        name: str,
        *,
        base_location: str,
        storage: StorageInfo,
        purge: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> bool:
        """Create a catalog if it does not exist, and return whether it was created.

        Args:
            name: The catalog's name, which is the warehouse of a connection.
            base_location: Default location of its tables.
            storage: How Polaris accesses the store.
            purge: Whether dropping a table may delete its files.
            properties: Additional catalog properties.
        """
        body = {
            "name": name,
            "type": "INTERNAL",
            "properties": {
                "default-base-location": base_location,
                "polaris.config.drop-with-purge.enabled": str(purge).lower(),
                **(properties or {}),
            },
            "storageConfigInfo": storage.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        return self._ensure("create_catalog", "catalogs", {"catalog": body})

    def delete_catalog(self, name: str) -> bool:
        """Delete an empty catalog and return whether it existed."""
        return self._delete("delete_catalog", "catalogs", name)

    def list_principals(self) -> list[str]:
        """List the names of the principals."""
        return [item["name"] for item in self._get("principals").get("principals", [])]

    def create_principal(self, name: str) -> PrincipalCredentials | None:
        """Create a principal and return its credentials; None if it already exists."""
        body = {"principal": {"name": name}, "credentialRotationRequired": False}
        with traced("polaris.create_principal", principal=name):
            response = self._post("principals", body)
            if response.status_code == _CONFLICT:
                return None
            return _credentials(_content(self._checked(response)))

    def reset_principal(self, name: str) -> PrincipalCredentials:
        """Replace a principal's credentials; the old ones become invalid."""
        with traced("polaris.reset_principal", principal=name):
            return _credentials(_content(self._checked(self._post(_path("principals", name, "reset"), {}))))

    def delete_principal(self, name: str) -> bool:
        """Delete a principal and return whether it existed."""
        return self._delete("delete_principal", "principals", name)

    def list_principal_roles(self) -> list[str]:
        """List the names of the principal roles."""
        return [item["name"] for item in self._get("principal-roles").get("roles", [])]

    def ensure_principal_role(self, name: str) -> bool:
        """Create a principal role if it does not exist, and return whether it was created."""
        return self._ensure("create_principal_role", "principal-roles", {"principalRole": {"name": name}})

    def delete_principal_role(self, name: str) -> bool:
        """Delete a principal role and return whether it existed."""
        return self._delete("delete_principal_role", "principal-roles", name)

    def list_catalog_roles(self, catalog: str) -> list[str]:
        """List the names of a catalog's catalog roles."""
        content = self._get(_path("catalogs", catalog, "catalog-roles"))
        return [item["name"] for item in content.get("roles", [])]

    def ensure_catalog_role(self, catalog: str, name: str) -> bool:
        """Create a catalog role if it does not exist, and return whether it was created."""
        path = _path("catalogs", catalog, "catalog-roles")
        return self._ensure("create_catalog_role", path, {"catalogRole": {"name": name}})

    def delete_catalog_role(self, catalog: str, name: str) -> bool:
        """Delete a catalog role and return whether it existed."""
        return self._delete("delete_catalog_role", "catalogs", catalog, "catalog-roles", name)

    def assign_principal_role(self, principal: str, role: str) -> None:
        """Assign a principal role to a principal."""
        self._put(_path("principals", principal, "principal-roles"), {"principalRole": {"name": role}})

    def roles_of_principal(self, principal: str) -> list[str] | None:
        """List the principal roles of a principal; None if the principal does not exist."""
        found = self._find("principals", principal, "principal-roles")
        return None if found is None else [item["name"] for item in found.get("roles", [])]

    def catalog_roles_of(self, principal_role: str, catalog: str) -> list[str] | None:
        """List the catalog roles of a principal role in a catalog; None if the principal role does not exist."""
        found = self._find("principal-roles", principal_role, "catalog-roles", catalog)
        return None if found is None else [item["name"] for item in found.get("roles", [])]

    def assign_catalog_role(self, principal_role: str, catalog: str, catalog_role: str) -> None:
        """Assign a catalog role to a principal role."""
        path = _path("principal-roles", principal_role, "catalog-roles", catalog)
        self._put(path, {"catalogRole": {"name": catalog_role}})

    def list_grants(self, catalog: str, role: str) -> list[Grant]:
        """List the grants of a catalog role."""
        content = self._get(_path("catalogs", catalog, "catalog-roles", role, "grants"))
        return [Grant.model_validate(item) for item in content.get("grants", [])]

    def find_grants(self, catalog: str, role: str) -> list[Grant] | None:
        """List the grants of a catalog role; None if the role does not exist."""
        content = self._find("catalogs", catalog, "catalog-roles", role, "grants")
        return None if content is None else [Grant.model_validate(item) for item in content.get("grants", [])]

    def grant(self, catalog: str, role: str, grants: Iterable[Grant]) -> None:
        """Grant privileges to a catalog role; existing grants are kept."""
        path = _path("catalogs", catalog, "catalog-roles", role, "grants")
        for item in grants:
            self._put(path, {"grant": item.model_dump(mode="json", by_alias=True, exclude_none=True)})

    def revoke(self, catalog: str, role: str, grants: Iterable[Grant]) -> None:
        """Revoke privileges from a catalog role, each as returned by ``list_grants``."""
        path = _path("catalogs", catalog, "catalog-roles", role, "grants")
        for item in grants:
            with traced("polaris.revoke", path=path, privilege=item.privilege):
                body = {"grant": item.model_dump(mode="json", by_alias=True, exclude_none=True)}
                self._checked(self._post(path, body))

    def grant_namespace(
        self, catalog: str, role: str, namespace: Sequence[str], privileges: Iterable[str] = TENANT_PRIVILEGES
    ) -> None:
        """Grant a catalog role privileges in a single namespace."""
        self.grant(
            catalog,
            role,
            [
                Grant(type=GrantKind.NAMESPACE, privilege=privilege, namespace=tuple(namespace))
                for privilege in privileges
            ],
        )

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _ensure(self, operation: str, path: str, body: dict[str, Any]) -> bool:
        with traced(f"polaris.{operation}", path=path) as span:
            response = self._post(path, body)
            created = response.status_code != _CONFLICT
            if created:
                self._checked(response)
            span.set(created=created)
            return created

    def _delete(self, operation: str, *path: str) -> bool:
        with traced(f"polaris.{operation}", path=_path(*path)):
            response = self._session.delete(f"{self.uri}/{_path(*path)}")
            if response.status_code == _NOT_FOUND:
                return False
            self._checked(response)
            return True

    def _find(self, *path: str) -> dict[str, Any] | None:
        response = self._session.get(f"{self.uri}/{_path(*path)}")
        return None if response.status_code == _NOT_FOUND else _content(self._checked(response))

    def _get(self, path: str) -> dict[str, Any]:
        return _content(self._checked(self._session.get(f"{self.uri}/{path}")))

    def _post(self, path: str, body: dict[str, Any]) -> requests.Response:
        return self._session.post(f"{self.uri}/{path}", json=body)

    def _put(self, path: str, body: dict[str, Any]) -> None:
        with traced("polaris.grant", path=path):
            self._checked(self._session.put(f"{self.uri}/{path}", json=body))

    def _checked(self, response: requests.Response) -> requests.Response:
        if response.ok:
            return response
        message = server_message(response) or f"status {response.status_code}"
        msg = f"Polaris rejected {response.request.method} {display_url(response.url)}: {message}"
        if response.status_code == _NOT_FOUND and not message.startswith("status"):
            raise CatalogConnectionError(msg, hint="Create the missing object first.")
        if response.status_code == _NOT_FOUND:
            raise CapabilityError(msg, hint="The server has no Polaris management API there; check management_uri.")
        no_reason = message.startswith("status")
        hint = "Polaris gave no reason. Check names, privileges and locations." if no_reason else None
        raise CatalogRequestError(msg, hint=hint or "Correct the value that Polaris rejected.")


def _path(*parts: str) -> str:
    """Join path segments; names are escaped to prevent path traversal."""
    return "/".join(quote(part, safe="") for part in parts)


def _management_uri(catalog_uri: str) -> str:
    trimmed = catalog_uri.rstrip("/")
    if not trimmed.endswith(_CATALOG_PATH):
        msg = f"Cannot derive the address of the management API from {display_url(catalog_uri)}."
        raise ConfigurationError(msg, hint="Set management_uri, such as https://host/api/management/v1.")
    return trimmed.removesuffix(_CATALOG_PATH) + _MANAGEMENT_PATH


def _content(response: requests.Response) -> dict[str, Any]:
    try:
        content = json.loads(response.text or "{}")
    except ValueError as err:
        msg = f"{display_url(response.url)} did not respond like the Polaris management API."
        raise CatalogConnectionError(msg, hint="Check catalog.uri, or set management_uri.") from err
    return content if isinstance(content, dict) else {}


def _credentials(content: dict[str, Any]) -> PrincipalCredentials:
    return PrincipalCredentials.model_validate(content.get("credentials") or {})
