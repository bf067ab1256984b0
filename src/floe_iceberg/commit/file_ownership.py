"""Decides in which of the locations that a table declares its files may be deleted.

The writer of the metadata chooses a table's location and paths, and a tenant may point them at another tenant's data.
The folder named after the table below its namespace always belongs to the table. Every other location is compared with
the other tables of the catalog: a location that equals, is inside or contains a location of theirs is not exclusively
the table's, and neither is a declared path inside the location of another namespace.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import NoSuchNamespaceError

from floe_core.declaration.locations import is_at_or_below
from floe_core.errors import (
    CapabilityError,
    CatalogAuthorizationError,
    CorruptFileError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.commit.own_files import OwnFiles, declared_locations, normalized_root
from floe_iceberg.models import TableIdentifier
from floe_iceberg.names import name_of
from floe_iceberg.pyiceberg_internals.catalogs import default_table_location
from floe_iceberg.read.integrity import load_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

_LOADS_AT_ONCE = 8
_METADATA_FOLDER = "/metadata"
# A namespace that this client cannot list contains nothing that it has to protect.
_NOT_VISIBLE = (NamespaceNotFoundError, CatalogAuthorizationError, CapabilityError)


@dataclass(frozen=True)
class _Claim:
    """A location that belongs to another table or namespace.

    Attributes:
        owner: The table or namespace.
        location: The normalized location, ending in ``/``, with links resolved.
        fixed: Whether it is a table's location or metadata folder.
        is_namespace: Whether it is a namespace's location.
    """

    owner: str
    location: str
    fixed: bool = False
    is_namespace: bool = False


def own_files(context: ManagerContext, table: Table, *, shared: bool = False, search: bool = True) -> OwnFiles:
    """Return the files that may be deleted for a table.

    Args:
        context: The manager's context.
        table: The table.
        shared: Whether files of another table were found in the table's own folder.
        search: Whether to load other tables to decide; if not, only locations that certainly belong to the table count.
    """
    locations = declared_locations(table.metadata)
    default_location = default_namespace_location(context, table.name()[:-1])
    if default_location is None and not shared:
        return OwnFiles.below(locations)
    folder = f"{default_location.rstrip('/')}/{table.name()[-1]}" if default_location else None
    certain = [] if shared or folder is None else [location for location in locations if _within(location, folder)]
    undecided = [location for location in locations if location not in certain]
    if not undecided or not search:
        return OwnFiles.below(certain)
    nearby = (
        default_location is not None
        and not shared
        and all(_within(location, default_location) for location in undecided)
    )
    claims = list(_claims(context, table, everywhere=not nearby))
    granted, refused = list(certain), {}
    for location in undecided:
        owner = _owner(location, claims, declared=location != table.metadata.location)
        if owner is None:
            granted.append(location)
        else:
            refused[location] = owner
    for location, owner in refused.items():
        context.logger.warning("iceberg.own_files", table=name_of(table), kept=location, belongs_to=owner)
    own = OwnFiles.below(granted)
    inside = (
        claim.location for claim in claims if claim.location not in own.roots and claim.location.startswith(own.roots)
    )
    return own.without(inside, refused=refused)


def default_namespace_location(context: ManagerContext, namespace: tuple[str, ...]) -> str | None:
    """Return the default location of the tables of a namespace; None if only the server knows it."""
    namespaces = Namespaces(context.catalog)
    default_location: str | None = None
    for depth in range(1, len(namespace) + 1):
        location = None
        with contextlib.suppress(*_NOT_VISIBLE):
            location = namespaces.properties(namespace[:depth]).get("location")
        # A namespace must not choose a location outside its parent's location.
        if location and (default_location is None or is_at_or_below(location, [default_location])):
            default_location = location
        elif default_location is not None:
            default_location = f"{default_location.rstrip('/')}/{namespace[depth - 1]}"
    return default_location or _below_warehouse(context, namespace)


def default_table_location_of(context: ManagerContext, name: tuple[str, ...]) -> str | None:
    """Return the default location of a table; None if only the server knows it."""
    default_location = default_namespace_location(context, name[:-1])
    return f"{default_location.rstrip('/')}/{name[-1]}" if default_location else None


def _below_warehouse(context: ManagerContext, namespace: tuple[str, ...]) -> str | None:
    """Return the location that an embedded catalog uses for a namespace without a location."""
    catalog = context.catalog.inner if isinstance(context.catalog, ReconcilingCatalog) else context.catalog
    if not isinstance(catalog, MetastoreCatalog):
        return None
    # Without a warehouse, there is no default location.
    with contextlib.suppress(ValueError, KeyError, NoSuchNamespaceError):
        location = default_table_location(catalog, ".".join(namespace), "_")
        return location.removesuffix("/_")
    return None


def _within(location: str, folder: str) -> bool:
    inner, outer = normalized_root(location), normalized_root(folder)
    return inner is not None and outer is not None and inner.startswith(outer)


def _owner(location: str, claims: list[_Claim], *, declared: bool) -> str | None:
    """Return the owner of a location: the first claim that equals or contains it."""
    root = normalized_root(location)
    if root is None:
        return "unknown"
    # A rename to another namespace does not move files: a location inside another namespace proves nothing.
    found = (claim for claim in claims if root.startswith(claim.location) and (declared or not claim.is_namespace))
    return next((claim.owner for claim in found), None)


def _claims(context: ManagerContext, table: Table, *, everywhere: bool) -> Iterator[_Claim]:
    """Yield the locations of other tables: those of the namespace and below, or all visible ones."""
    own = table.name()[:-1]
    namespaces = Namespaces(context.catalog)
    seen = [".".join(own)]
    for parent in (None, ".".join(own)) if everywhere else (".".join(own),):
        # A tenant sees only its own namespace, and its storage keys are limited to it as well.
        with contextlib.suppress(*_NOT_VISIBLE):
            seen += namespaces.tree(parent)
    names: list[tuple[str, ...]] = []
    for namespace in dict.fromkeys(seen):
        parts = tuple(namespace.split("."))
        if everywhere and not _are_related(parts, own):
            yield from _namespace_claims(context, namespaces, parts)
        with contextlib.suppress(*_NOT_VISIBLE):
            names += context.catalog.list_tables(parts)
    with ThreadPoolExecutor(max_workers=_LOADS_AT_ONCE, thread_name_prefix="floe-neighbors") as pool:
        others = [name for name in names if name != table.name()]
        for found in pool.map(lambda name: list(_table_claims(context, name)), others):
            for claim in found:
                # Tables of one owner may share a folder; their file names are unique.
                if claim.fixed or claim.owner.split(".")[: len(own)] != list(own):
                    yield claim


def _are_related(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one namespace equals, contains or is inside the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _namespace_claims(context: ManagerContext, namespaces: Namespaces, parts: tuple[str, ...]) -> Iterator[_Claim]:
    with contextlib.suppress(*_NOT_VISIBLE):
        location = namespaces.properties(parts).get("location") or _below_warehouse(context, parts)
        if location and (root := normalized_root(location)):
            yield _Claim(".".join(parts), root, is_namespace=True)


def _table_claims(context: ManagerContext, name: tuple[str, ...]) -> Iterator[_Claim]:
    owner = ".".join(name)
    for location, fixed in _locations_of(context, name):
        if root := normalized_root(location):
            yield _Claim(owner, root, fixed=fixed)


def _locations_of(context: ManagerContext, name: tuple[str, ...]) -> Iterable[tuple[str, bool]]:
    identifier = TableIdentifier(namespace=".".join(name[:-1]), name=name[-1])
    try:
        table = load_table(context, identifier)
    except TableNotFoundError:
        return []
    except CorruptFileError as err:
        # Its location is unreadable, but the path of its metadata file is the best evidence of it.
        folder = err.path.rpartition("/")[0]
        return [(folder, True), (folder.removesuffix(_METADATA_FOLDER), True)]
    except Exception:  # noqa: BLE001 - a table that fails to load still owns its folder
        by_name = default_table_location_of(context, name)
        return [(by_name, True)] if by_name else []
    location, *paths = declared_locations(table.metadata)
    folder = table.metadata_location.rpartition("/")[0]
    return [(location, True), (folder, True), *((path, False) for path in paths)]
