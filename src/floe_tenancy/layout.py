"""What a tenant has: namespaces, tables, objects, and whose tables lie where."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.errors import FloeStorageError
from floe_core.locations import lies_in
from floe_iceberg.own_files import declared_places
from floe_iceberg.row_counts import RowCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from floe_iceberg import IcebergTableManager
    from floe_tenancy.config import IcebergCatalogConfig

METADATA_PATH = "write.metadata.path"
_LOADS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class TenantTable:
    """A table and every place its files go to.

    Attributes:
        name: ``namespace.table``.
        places: Its location, its metadata file, and folders that its properties name.
        columns: Names of its columns.
        properties: Its properties.
        snapshot_id: Current snapshot, None when it has none yet.
        rows: Rows of the current snapshot.
    """

    name: str
    places: tuple[str, ...]
    columns: tuple[str, ...]
    properties: dict[str, str]
    snapshot_id: int | None
    rows: int


def tenant_roots(config: IcebergCatalogConfig, tenant: str) -> tuple[str, ...]:
    """Return the URIs below which everything of a tenant lies."""
    found = (config.warehouse_uri_for(tenant), config.metadata_uri_for(tenant))
    return tuple(uri for uri in found if uri)


def namespaces_of(manager: IcebergTableManager, namespace: str) -> list[str]:
    """Return a namespace and all below it, parents first; none when it does not exist."""
    if not manager.namespaces.exists(namespace):
        return []
    return [namespace, *manager.namespaces.tree(namespace)]


def tables_of(manager: IcebergTableManager, namespaces: Iterable[str]) -> list[TenantTable]:
    """Describe every table of some namespaces."""
    names = [f"{namespace}.{table}" for namespace in namespaces for table in manager.list_tables(namespace)]
    with ThreadPoolExecutor(max_workers=_LOADS_AT_ONCE, thread_name_prefix="floe-layout") as pool:
        return list(pool.map(lambda name: _described(manager, name), names))


def _described(manager: IcebergTableManager, name: str) -> TenantTable:
    table = manager.load_table(name)
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot else None
    return TenantTable(
        name=name,
        places=(*declared_places(table.metadata), table.metadata_location),
        columns=tuple(table.schema().column_names),
        properties=dict(table.properties),
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        rows=RowCount.of(summary.additional_properties).rows if summary else 0,
    )


def places_of_all(manager: IcebergTableManager) -> dict[str, tuple[str, ...] | None]:
    """Tell where every table of a catalog lies; None for one that cannot be looked at."""
    names = [f"{ns}.{table}" for ns in manager.namespaces.tree() for table in manager.list_tables(ns)]

    def places(name: str) -> tuple[str, ...] | None:
        try:
            return _described(manager, name).places
        except FloeStorageError:
            # One that was dropped meanwhile lies nowhere.
            return None if manager.table_exists(name) else ()

    with ThreadPoolExecutor(max_workers=_LOADS_AT_ONCE, thread_name_prefix="floe-layout") as pool:
        return dict(zip(names, pool.map(places, names), strict=True))


def intruders(config: IcebergCatalogConfig, tenant: str, everybody: Mapping[str, tuple[str, ...] | None]) -> list[str]:
    """Name the tables of others that lie below a tenant's prefixes, or of which nobody can tell."""
    own = ".".join(config.namespace_for(tenant))
    roots = tenant_roots(config, tenant)
    return [
        name
        for name, places in everybody.items()
        if not name.startswith(f"{own}.") and (places is None or any(lies_in(place, roots) for place in places))
    ]
