"""Ownership of files: deletions for a table only ever delete the table's own files.

A table's metadata can reference files of other owners: a clone shares its source's files, ``add_files`` registers files
in place, and a registered table brings the metadata log of another table. Files outside the table's location and its
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
        places: Locations as written in the table's metadata.
        roots: The normalized locations, each ending in ``/``.
        decoded: The locations as seen by clients that decode names.
        others: Locations inside these that belong to other tables, in the form of ``roots``.
        refused: Locations that the table declares but does not own, with their owners.
    """

    places: tuple[str, ...]
    roots: tuple[str, ...]
    decoded: tuple[str, ...]
    others: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    _compass: LocationResolver = field(default_factory=LocationResolver, compare=False, repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata) -> OwnFiles:
        """Return the locations of a table: its location and the paths that its properties declare."""
        return cls.below(declared_places(metadata))

    @classmethod
    def below(cls, places: Iterable[str]) -> OwnFiles:
        """Return the files below the given locations."""
        named = tuple(dict.fromkeys(places))
        compass = LocationResolver()
        found = [root for place in named if (root := _root(compass, place)) is not None]
        return cls(
            named,
            tuple(plain for root in found for plain in root.plain),
            tuple(decoded for root in found for decoded in root.decoded),
            _compass=compass,
        )

    def without(self, places: Iterable[str], refused: Mapping[str, str] | None = None) -> OwnFiles:
        """Return a copy that excludes locations of other tables."""
        found = (_root(self._compass, place) for place in places)
        others = {name for root in found if root for name in (*root.plain, *root.decoded)}
        return replace(self, others=(*self.others, *others), refused=refused or self.refused)

    def __contains__(self, location: str) -> bool:
        """Whether a file belongs to the table under every interpretation of its name by clients."""
        found = self._compass.destinations(location)
        if found is None or not self._holds(found.plain, self.roots):
            return False
        return found.decoded is found.plain or self._holds(found.decoded, self.decoded)

    def _holds(self, names: tuple[str, ...], roots: tuple[str, ...]) -> bool:
        return all(name.startswith(roots) and not name.startswith(self.others) for name in names)

    def split(self, locations: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return the files that belong to the table, and the sorted files that do not."""
        own: list[str] = []
        foreign: list[str] = []
        for location in locations:
            (own if location in self else foreign).append(location)
        return own, tuple(sorted(foreign))


def declared_places(metadata: TableMetadata) -> tuple[str, ...]:
    """Return the locations of files that a table declares, starting with the table location."""
    declared = (metadata.properties.get(name) for name in _DECLARED_PATHS)
    return tuple(dict.fromkeys(place for place in (metadata.location, *declared) if place))


def root_of(place: str) -> str | None:
    """Return a location normalized, ending in ``/``, with links resolved; None if it cannot be resolved."""
    found = _root(LocationResolver(), place)
    return found.plain[0] if found else None


def _root(compass: LocationResolver, place: str) -> Destinations | None:
    found = compass.destinations(f"{place.rstrip('/')}/_")
    # A location that clients resolve to different folders belongs to no table.
    if found is None or len(found.plain) > 1 or len(found.decoded) > 1:
        return None
    return Destinations(tuple(name[:-1] for name in found.plain), tuple(name[:-1] for name in found.decoded))


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
