"""The tenants of a catalog, listed once and then kept up to date."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from floe_tenancy.identity import refuse_collision

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.catalog.connection import ProjectConnection
    from floe_tenancy.config import IcebergCatalogConfig


def known_tenants(catalog: IcebergTableManager | ProjectConnection, config: IcebergCatalogConfig) -> list[str]:
    """List the tenants that have a namespace, sorted."""
    parent = ".".join(config.namespace_prefix) or None
    if parent and not catalog.namespaces.exists(parent):
        return []
    return [name.rsplit(".", 1)[-1] for name in catalog.namespaces.list_below(parent)]


class TenantRoster:
    """Refuses tenant ids that differ only in case. Thread-safe."""

    def __init__(self, manager: IcebergTableManager, config: IcebergCatalogConfig) -> None:
        """Create a roster without listing the tenants."""
        self._manager = manager
        self._config = config
        self._by_folded_id: dict[str, str] | None = None
        self._lock = Lock()

    def claim(self, tenant: str) -> None:
        """Add a tenant.

        Raises:
            InvalidIdentifierError: The id differs from another tenant's only in case.
        """
        with self._lock:
            if self._by_folded_id is None:
                self._by_folded_id = {name.casefold(): name for name in known_tenants(self._manager, self._config)}
            refuse_collision(tenant, self._by_folded_id.setdefault(tenant.casefold(), tenant))
