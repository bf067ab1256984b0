"""Bootstrap markers: small files that create a tenant's prefixes before the catalog writes to them."""

from __future__ import annotations

import getpass
import json
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from floe_core.errors import ConfigurationError
from floe_core.runtime.distribution import version
from floe_tenancy.identity import refuse_collision
from floe_tenancy.stores import open_object_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_tenancy.config import BucketAddress, IcebergCatalogConfig
    from floe_tenancy.stores import ObjectStore

MARKER_NAME = ".catalog-bootstrap"
MARKER_VERSION = 1


@dataclass(frozen=True, slots=True)
class Marker:
    """One marker of a tenant, and whether this call wrote it."""

    uri: str
    key: str
    created: bool


class WarehouseStorageManager:
    """Writes and reads the markers of tenants' prefixes."""

    def __init__(
        self,
        config: IcebergCatalogConfig,
        factory: Callable[[IcebergCatalogConfig, BucketAddress], ObjectStore] = open_object_store,
    ) -> None:
        """Create a manager without opening stores.

        Args:
            config: Configuration of the shared catalog.
            factory: Opens the store of a bucket; replace it to use a custom provider.
        """
        self._config = config
        self._factory = factory
        self._stores: dict[str, ObjectStore] = {}

    def store(self, address: BucketAddress) -> ObjectStore:
        """Return the store of one of the configuration's buckets."""
        root = address.uri()
        if root not in self._stores:
            self._stores[root] = self._factory(self._config, address)
        return self._stores[root]

    def prefixes(self, tenant: str) -> list[tuple[BucketAddress, str]]:
        """Return the tenant's prefixes: the warehouse prefix, and the metadata prefix if configured."""
        found = [(self._config.warehouse, self._config.warehouse_key_for(tenant))]
        metadata, key = self._config.metadata, self._config.metadata_key_for(tenant)
        if metadata is not None and key is not None and (metadata, key) not in found:
            found.append((metadata, key))
        return found

    def ensure_prefixes(self, tenant: str) -> tuple[Marker, ...]:
        """Write missing markers; existing ones are not changed.

        Raises:
            InvalidIdentifierError: The prefix belongs to a tenant whose id differs only in case.
            ConfigurationError: The prefix has the marker of another owner.
        """
        content = json.dumps(_marker_content(tenant), indent=2).encode()
        return tuple(self._ensure(tenant, address, prefix, content) for address, prefix in self.prefixes(tenant))

    def _ensure(self, tenant: str, address: BucketAddress, prefix: str, content: bytes) -> Marker:
        key, store = prefix + MARKER_NAME, self.store(address)
        created = store.create(key, content)
        if not created:
            self._refuse_foreign_marker(tenant, address.uri(key), _parsed(store.read(key)))
        return Marker(uri=address.uri(key), key=key, created=created)

    @staticmethod
    def _refuse_foreign_marker(tenant: str, uri: str, found: dict[str, Any] | None) -> None:
        # On a case-insensitive file system, ACME finds the marker of acme here.
        owner = found.get("tenant") if found else None
        if owner == tenant:
            return
        if isinstance(owner, str) and owner.casefold() == tenant.casefold():
            refuse_collision(tenant, owner)
        msg = f"Marker {uri} does not belong to tenant '{tenant}'."
        raise ConfigurationError(msg, hint="Check the files below this prefix; remove the marker if it is stale.")

    def read_markers(self, tenant: str) -> dict[str, dict[str, Any] | None]:
        """Return each marker's content by URI; None if a marker is missing or unreadable."""
        found: dict[str, dict[str, Any] | None] = {}
        for address, prefix in self.prefixes(tenant):
            content = self.store(address).read(prefix + MARKER_NAME)
            found[address.uri(prefix + MARKER_NAME)] = _parsed(content)
        return found


def _marker_content(tenant: str) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "created_by": f"{_user()}@{socket.gethostname()}",
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "floe_version": version(),
        "marker_version": MARKER_VERSION,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _parsed(content: bytes | None) -> dict[str, Any] | None:
    if content is None:
        return None
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
