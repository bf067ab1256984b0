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
from floe_iceberg.commit.own_files import OwnFiles, declared_places, root_of
from floe_iceberg.models import TableIdentifier
from floe_iceberg.pyiceberg_internals.catalogs import default_table_location
from floe_iceberg.read.integrity import load_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

_LOADS_AT_ONCE = 8
_METADATA_FOLDER = "/metadata"
# A namespace that this client cannot list contains nothing that it has to protect.
_OUT_OF_SIGHT = (NamespaceNotFoundError, CatalogAuthorizationError, CapabilityError)


@dataclass(frozen=True)
class _Claim:
    """A location that belongs to another table or namespace.

    Attributes:
        owner: The table or namespace.
        place: The normalized location, ending in ``/``, with links resolved.
        fixed: Whether it is a table's location or metadata folder.
        room: Whether it is a namespace's location.
    """

    owner: str
    place: str
    fixed: bool = False
    room: bool = False


def own_files(context: ManagerContext, table: Table, *, shared: bool = False, search: bool = True) -> OwnFiles:
    """Return the files that may be deleted for a table.

    Args:
        context: The manager's context.
        table: The table.
        shared: Whether files of another table were found in the table's own folder.
        search: Whether to load other tables to decide; if not, a doubtful location does not count as the table's.
    """
    places = declared_places(table.metadata)
    home = home_of(context, table.name()[:-1])
    if home is None and not shared:
        return OwnFiles.below(places)
    folder = f"{home.rstrip('/')}/{table.name()[-1]}" if home else None
    certain = [] if shared or folder is None else [place for place in places if _within(place, folder)]
    asked = [place for place in places if place not in certain]
    if not asked or not search:
        return OwnFiles.below(certain)
    nearby = home is not None and not shared and all(_within(place, home) for place in asked)
    claims = list(_claims(context, table, everywhere=not nearby))
    granted, refused = list(certain), {}
    for place in asked:
        owner = _owner(place, claims, declared=place != table.metadata.location)
        if owner is None:
            granted.append(place)
        else:
            refused[place] = owner
    for place, owner in refused.items():
        context.logger.warning("iceberg.own_files", table=".".join(table.name()), kept=place, belongs_to=owner)
    own = OwnFiles.below(granted)
    inside = (claim.place for claim in claims if claim.place not in own.roots and claim.place.startswith(own.roots))
    return own.without(inside, refused=refused)


def home_of(context: ManagerContext, namespace: tuple[str, ...]) -> str | None:
    """Return the default location of the tables of a namespace; None if only the server knows it."""
    namespaces = Namespaces(context.catalog)
    home: str | None = None
    for depth in range(1, len(namespace) + 1):
        location = None
        with contextlib.suppress(*_OUT_OF_SIGHT):
            location = namespaces.properties(namespace[:depth]).get("location")
        # A namespace must not choose a location outside its parent's location.
        if location and (home is None or is_at_or_below(location, [home])):
            home = location
        elif home is not None:
            home = f"{home.rstrip('/')}/{namespace[depth - 1]}"
    return home or _below_warehouse(context, namespace)


def folder_of(context: ManagerContext, name: tuple[str, ...]) -> str | None:
    """Return the default location of a table; None if only the server knows it."""
    home = home_of(context, name[:-1])
    return f"{home.rstrip('/')}/{name[-1]}" if home else None


def _below_warehouse(context: ManagerContext, namespace: tuple[str, ...]) -> str | None:
    """Return the location that an embedded catalog uses for a namespace without a location."""
    catalog = context.catalog.inner if isinstance(context.catalog, ReconcilingCatalog) else context.catalog
    if not isinstance(catalog, MetastoreCatalog):
        return None
    # Without a warehouse, there is no default location.
    with contextlib.suppress(ValueError, KeyError, NoSuchNamespaceError):
        place = default_table_location(catalog, ".".join(namespace), "_")
        return place.removesuffix("/_")
    return None


def _within(place: str, folder: str) -> bool:
    inner, outer = root_of(place), root_of(folder)
    return inner is not None and outer is not None and inner.startswith(outer)


def _owner(place: str, claims: list[_Claim], *, declared: bool) -> str | None:
    """Return the owner of a location: the first claim that equals or contains it."""
    root = root_of(place)
    if root is None:
        return "unknown"
    # A rename to another namespace does not move files: a location inside another namespace proves nothing.
    found = (claim for claim in claims if root.startswith(claim.place) and (declared or not claim.room))
    return next((claim.owner for claim in found), None)


def _claims(context: ManagerContext, table: Table, *, everywhere: bool) -> Iterator[_Claim]:
    """Yield the locations of other tables: those of the namespace and below, or all visible ones."""
    own = table.name()[:-1]
    namespaces = Namespaces(context.catalog)
    seen = [".".join(own)]
    for parent in (None, ".".join(own)) if everywhere else (".".join(own),):
        # A tenant sees only its own namespace, and its storage keys are limited to it as well.
        with contextlib.suppress(*_OUT_OF_SIGHT):
            seen += namespaces.tree(parent)
    names: list[tuple[str, ...]] = []
    for namespace in dict.fromkeys(seen):
        parts = tuple(namespace.split("."))
        if everywhere and not _same_line(parts, own):
            yield from _room(context, namespaces, parts)
        with contextlib.suppress(*_OUT_OF_SIGHT):
            names += context.catalog.list_tables(parts)
    with ThreadPoolExecutor(max_workers=_LOADS_AT_ONCE, thread_name_prefix="floe-neighbors") as pool:
        others = [name for name in names if name != table.name()]
        for found in pool.map(lambda name: list(_places(context, name)), others):
            for claim in found:
                # Tables of one owner may share a folder; their file names are unique.
                if claim.fixed or claim.owner.split(".")[: len(own)] != list(own):
                    yield claim


def _same_line(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one namespace equals, contains or is inside the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _room(context: ManagerContext, namespaces: Namespaces, parts: tuple[str, ...]) -> Iterator[_Claim]:
    with contextlib.suppress(*_OUT_OF_SIGHT):
        location = namespaces.properties(parts).get("location") or _below_warehouse(context, parts)
        if location and (root := root_of(location)):
            yield _Claim(".".join(parts), root, room=True)


def _places(context: ManagerContext, name: tuple[str, ...]) -> Iterator[_Claim]:
    owner = ".".join(name)
    for place, fixed in _declared(context, name):
        if root := root_of(place):
            yield _Claim(owner, root, fixed=fixed)


def _declared(context: ManagerContext, name: tuple[str, ...]) -> Iterable[tuple[str, bool]]:
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
        by_name = folder_of(context, name)
        return [(by_name, True)] if by_name else []
    location, *paths = declared_places(table.metadata)
    folder = table.metadata_location.rpartition("/")[0]
    return [(location, True), (folder, True), *((path, False) for path in paths)]
