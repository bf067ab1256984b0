"""Namespaces and tables of a tenant, and the locations of all tables in the catalog."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from floe_core.declaration.locations import is_at_or_below
from floe_core.errors import CorruptFileError, FloeStorageError, NamespaceNotFoundError, TransientError
from floe_core.observing.redaction import redact_text
from floe_iceberg.commit.own_files import OwnFiles, declared_locations
from floe_iceberg.names import is_usable
from floe_iceberg.read.row_counts import RowCount
from floe_tenancy.layout.contents import ContentKind, NamespaceContent, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from floe_iceberg import IcebergTableManager
    from floe_tenancy.config import IcebergCatalogConfig

METADATA_PATH = "write.metadata.path"
_LOADS_AT_ONCE = 8


def is_own_location(own: OwnFiles, place: str) -> bool:
    """Whether a folder or file is certainly located at or below one of the places, however a client resolves it."""
    return f"{place.rstrip('/')}/_" in own


@dataclass(frozen=True, slots=True)
class TenantTable:
    """A table and all locations of its files.

    Attributes:
        name: ``namespace.table``.
        places: Its location, its metadata file, and the folders in its properties.
        columns: Names of its columns.
        properties: Its properties.
        snapshot_id: Current snapshot, None if it has no snapshots.
        rows: Rows of the current snapshot.
        broken: Why the table cannot be read; None if it can be. Only the name of a broken table is reliable.
    """

    name: str
    places: tuple[str, ...]
    columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    snapshot_id: int | None = None
    rows: int = 0
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class TablePlaces:
    """The locations of a table.

    Attributes:
        places: Its location, its metadata file, and the folders set in its properties.
        broken: Why the table cannot be read; its places are then derived from its metadata file and its namespace.
    """

    places: tuple[str, ...]
    broken: str | None = None


def tenant_roots(config: IcebergCatalogConfig, tenant: str) -> tuple[str, ...]:
    """Return the URIs of a tenant's prefixes."""
    found = (config.warehouse_uri_for(tenant), config.metadata_uri_for(tenant))
    return tuple(uri for uri in found if uri)


def tenant_files(config: IcebergCatalogConfig, tenant: str) -> OwnFiles:
    """Return the files of a tenant: those below its prefixes."""
    return OwnFiles.below(tenant_roots(config, tenant))


def namespaces_of(manager: IcebergTableManager, namespace: str) -> list[str]:
    """Return a namespace and all namespaces below it, parents first; empty if it does not exist."""
    if not manager.namespaces.exists(namespace):
        return []
    return [namespace, *manager.namespaces.tree(namespace)]


def tables_of(manager: IcebergTableManager, namespaces: Iterable[str]) -> list[TenantTable]:
    """Describe all tables in the namespaces; a table that cannot be read is marked as broken."""
    names = [f"{namespace}.{table}" for namespace in namespaces for table in manager.list_tables(namespace)]
    return _all_described(manager, names)


def _all_described(manager: IcebergTableManager, names: list[str]) -> list[TenantTable]:
    with ThreadPoolExecutor(max_workers=_LOADS_AT_ONCE, thread_name_prefix="floe-layout") as pool:
        found = pool.map(lambda name: _described(manager, name), names)
        return [table for table in found if table is not None]


def _described(manager: IcebergTableManager, name: str) -> TenantTable | None:
    """Describe a table; return None if it was dropped concurrently."""
    try:
        table = manager.load_table(name)
    except TransientError:
        raise
    except FloeStorageError as err:
        if not _is_listed(manager, name):
            return None
        return TenantTable(name, _known_places(manager, name, err), broken=redact_text(err.message))
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot else None
    return TenantTable(
        name=name,
        places=(*declared_locations(table.metadata), table.metadata_location),
        columns=tuple(table.schema().column_names),
        properties=dict(table.properties),
        snapshot_id=snapshot.snapshot_id if snapshot else None,
        rows=RowCount.of(summary.additional_properties).rows if summary else 0,
    )


def _is_listed(manager: IcebergTableManager, name: str) -> bool:
    namespace, _, table = name.rpartition(".")
    try:
        return table in manager.list_tables(namespace)
    except NamespaceNotFoundError:
        return False


def _known_places(manager: IcebergTableManager, name: str, err: FloeStorageError) -> tuple[str, ...]:
    """Return the known places of an unreadable table: its metadata file, and its default location in the namespace."""
    places = [err.path] if isinstance(err, CorruptFileError) else []
    namespace, _, table = name.rpartition(".")
    location = manager.namespaces.properties(namespace).get("location")
    return (*places, *([f"{location.rstrip('/')}/{table}"] if location else []))


def places_of_all(manager: IcebergTableManager) -> dict[str, TablePlaces]:
    """Return the locations of all tables in a catalog; unreadable tables do not cause an error."""
    usable: list[str] = []
    found: dict[str, TablePlaces] = {}
    for namespace, tables in walk(manager):
        for table in tables:
            parts = (*namespace, table)
            if all(map(is_usable, parts)):
                usable.append(".".join(parts))
            else:
                found[NamespaceContent(ContentKind.TABLE, parts).name] = _places_of_unaddressable(manager, parts)
    found |= {table.name: TablePlaces(table.places, table.broken) for table in _all_described(manager, usable)}
    return found


def _places_of_unaddressable(manager: IcebergTableManager, parts: tuple[str, ...]) -> TablePlaces:
    """Return the places of a table whose name floe cannot address."""
    try:
        table = manager.catalog.load_table(parts)
    except TransientError:
        raise
    except Exception as err:  # noqa: BLE001 - an odd name can cause any error; report the table as unreadable
        return TablePlaces((), broken=redact_text(str(err)))
    return TablePlaces((*declared_locations(table.metadata), table.metadata_location))


def intruders(config: IcebergCatalogConfig, tenant: str, all_tables: Mapping[str, TablePlaces]) -> list[str]:
    """Return tables of others that are located below a tenant's prefixes."""
    roots = tenant_roots(config, tenant)
    return [
        name
        for name, table in all_tables.items()
        if not _is_own(config, tenant, name) and any(is_at_or_below(place, roots) for place in table.places)
    ]


def broken_of_others(config: IcebergCatalogConfig, tenant: str, all_tables: Mapping[str, TablePlaces]) -> list[str]:
    """Return tables of others that cannot be read, so that only some of their locations are known."""
    return [name for name, table in all_tables.items() if table.broken and not _is_own(config, tenant, name)]


def _is_own(config: IcebergCatalogConfig, tenant: str, name: str) -> bool:
    return name.startswith(f"{'.'.join(config.namespace_for(tenant))}.")
