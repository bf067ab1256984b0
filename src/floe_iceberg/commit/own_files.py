"""Ownership of files: deletions for a table only ever delete the table's own files.

A table's metadata can reference files of other owners: a clone shares its source's files, ``add_files`` registers files
in location, and a registered table brings the metadata log of another table. Files outside the table's location and its
declared paths are kept and reported, no matter what references them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from floe_core.declaration.locations import Destinations, LocationResolver
from floe_core.errors import SharedFilesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table.metadata import TableMetadata

GC_PROPERTY = "gc.enabled"
# Properties with further paths to which writers of the table write files.
_DECLARED_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


@dataclass(frozen=True)
class OwnFiles:
    """The locations whose files belong to one table.

    Attributes:
        locations: Locations as written in the table's metadata.
        roots: The normalized locations, each ending in ``/``.
        decoded: The locations as seen by clients that decode names.
        others: Locations inside these that belong to other tables, in the form of ``roots``.
        refused: Locations that the table declares but does not own, with their owners.
    """

    locations: tuple[str, ...]
    roots: tuple[str, ...]
    decoded: tuple[str, ...]
    others: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    _resolver: LocationResolver = field(default_factory=LocationResolver, compare=False, repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata) -> OwnFiles:
        """Return the locations of a table: its location and the paths that its properties declare."""
        return cls.below(declared_locations(metadata))

    @classmethod
    def below(cls, locations: Iterable[str]) -> OwnFiles:
        """Return the files below the given locations."""
        named = tuple(dict.fromkeys(locations))
        resolver = LocationResolver()
        destinations = [root for location in named if (root := _root(resolver, location)) is not None]
        return cls(
            named,
            tuple(plain for root in destinations for plain in root.plain),
            tuple(decoded for root in destinations for decoded in root.decoded),
            _resolver=resolver,
        )

    def without(self, locations: Iterable[str], refused: Mapping[str, str] | None = None) -> OwnFiles:
        """Return a copy that excludes locations of other tables."""
        destinations = (_root(self._resolver, location) for location in locations)
        others = {name for root in destinations if root for name in (*root.plain, *root.decoded)}
        return replace(self, others=(*self.others, *others), refused=refused or self.refused)

    def __contains__(self, location: str) -> bool:
        """Whether a file belongs to the table under every interpretation of its name by clients."""
        destinations = self._resolver.destinations(location)
        if destinations is None or not self._contains_all(destinations.plain, self.roots):
            return False
        return destinations.decoded is destinations.plain or self._contains_all(destinations.decoded, self.decoded)

    def _contains_all(self, names: tuple[str, ...], roots: tuple[str, ...]) -> bool:
        return all(name.startswith(roots) and not name.startswith(self.others) for name in names)

    def split(self, locations: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return the files that belong to the table, and the sorted files that do not."""
        own: list[str] = []
        foreign: list[str] = []
        for location in locations:
            (own if location in self else foreign).append(location)
        return own, tuple(sorted(foreign))


def declared_locations(metadata: TableMetadata) -> tuple[str, ...]:
    """Return the locations of files that a table declares, starting with the table location."""
    declared = (metadata.properties.get(name) for name in _DECLARED_PATHS)
    return tuple(dict.fromkeys(location for location in (metadata.location, *declared) if location))


def normalized_root(location: str) -> str | None:
    """Return a location normalized, ending in ``/``, with links resolved; None if it cannot be resolved."""
    destinations = _root(LocationResolver(), location)
    return destinations.plain[0] if destinations else None


def _root(resolver: LocationResolver, location: str) -> Destinations | None:
    destinations = resolver.destinations(f"{location.rstrip('/')}/_")
    # A location that clients resolve to different folders belongs to no table.
    if destinations is None or len(destinations.plain) > 1 or len(destinations.decoded) > 1:
        return None
    return Destinations(
        tuple(name[:-1] for name in destinations.plain), tuple(name[:-1] for name in destinations.decoded)
    )


def is_collected(properties: Mapping[str, str]) -> bool:
    """Whether a table's files may be deleted; ``gc.enabled=false`` means that other tables share them."""
    return properties.get(GC_PROPERTY, "true").strip().lower() == "true"


def require_collected(metadata: TableMetadata, *, table: str, what: str) -> None:
    """Require that the table's files may be deleted.

    Raises:
        SharedFilesError: The table has ``gc.enabled=false``.
    """
    if not is_collected(metadata.properties):
        msg = f"{what} of table '{table}' would delete files, which its property {GC_PROPERTY} forbids."
        hint = f"Other tables may share these files. If not, set {GC_PROPERTY}=true. Nothing was changed."
        raise SharedFilesError(msg, hint=hint, table=table)
