"""Which files are a table's own: on its behalf, no other file is ever deleted.

A table's metadata can name files that belong to somebody else: a clone shares the files of its source, ``add_files``
takes in files where they are, and a registered table brings a foreign log along. What lies outside the table's location
and the paths it declares for itself is kept and reported, whoever refers to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from floe_core.declaration.locations import Compass, Destinations
from floe_core.errors import SharedFilesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table.metadata import TableMetadata

GC_PROPERTY = "gc.enabled"
# Where writers of this table put files, besides its location.
_DECLARED_PATHS = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


@dataclass(frozen=True)
class OwnFiles:
    """The places whose files belong to one table.

    Attributes:
        places: Locations as the table writes them down.
        roots: The same in one spelling, each ending in ``/``.
        decoded: Where clients that decode names look for them.
        others: Places below those that belong to other tables, in the form of the roots.
        refused: Places that the table declares and that are not its own, with whose they are.
    """

    places: tuple[str, ...]
    roots: tuple[str, ...]
    decoded: tuple[str, ...]
    others: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    _compass: Compass = field(default_factory=Compass, compare=False, repr=False)

    @classmethod
    def of(cls, metadata: TableMetadata) -> OwnFiles:
        """Return the places of a table: its location and the paths that its properties declare."""
        return cls.below(declared_places(metadata))

    @classmethod
    def below(cls, places: Iterable[str]) -> OwnFiles:
        """Return the files below some places."""
        named = tuple(dict.fromkeys(places))
        compass = Compass()
        found = [root for place in named if (root := _root(compass, place)) is not None]
        return cls(
            named,
            tuple(plain for root in found for plain in root.plain),
            tuple(decoded for root in found for decoded in root.decoded),
            _compass=compass,
        )

    def without(self, places: Iterable[str], refused: Mapping[str, str] | None = None) -> OwnFiles:
        """Return the same without places of other tables."""
        found = (_root(self._compass, place) for place in places)
        others = {name for root in found if root for name in (*root.plain, *root.decoded)}
        return replace(self, others=(*self.others, *others), refused=refused or self.refused)

    def __contains__(self, location: str) -> bool:
        """Whether a file belongs to the table, wherever a client may take its name to lead."""
        found = self._compass.destinations(location)
        if found is None or not self._holds(found.plain, self.roots):
            return False
        return found.decoded is found.plain or self._holds(found.decoded, self.decoded)

    def _holds(self, names: tuple[str, ...], roots: tuple[str, ...]) -> bool:
        return all(name.startswith(roots) and not name.startswith(self.others) for name in names)

    def split(self, locations: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return the files that belong to the table, and those that do not, sorted."""
        own: list[str] = []
        foreign: list[str] = []
        for location in locations:
            (own if location in self else foreign).append(location)
        return own, tuple(sorted(foreign))


def declared_places(metadata: TableMetadata) -> tuple[str, ...]:
    """Return where a table says that its files lie: its location first."""
    declared = (metadata.properties.get(name) for name in _DECLARED_PATHS)
    return tuple(dict.fromkeys(place for place in (metadata.location, *declared) if place))


def root_of(place: str) -> str | None:
    """Return a place in one spelling, ending in ``/``, with links followed; None when nobody can tell where it is."""
    found = _root(Compass(), place)
    return found.plain[0] if found else None


def _root(compass: Compass, place: str) -> Destinations | None:
    found = compass.destinations(f"{place.rstrip('/')}/_")
    # A place that different clients look for in different folders is nobody's.
    if found is None or len(found.plain) > 1 or len(found.decoded) > 1:
        return None
    return Destinations(tuple(name[:-1] for name in found.plain), tuple(name[:-1] for name in found.decoded))


def is_collected(properties: Mapping[str, str]) -> bool:
    """Whether a table's files may be deleted: ``gc.enabled=false`` says that other tables share them."""
    return properties.get(GC_PROPERTY, "true").strip().lower() == "true"


def require_collected(metadata: TableMetadata, *, table: str, what: str) -> None:
    """Refuse to delete files of a table that shares them.

    Raises:
        SharedFilesError: The table says ``gc.enabled=false``.
    """
    if not is_collected(metadata.properties):
        msg = f"{what} of table '{table}' would delete files, and its property {GC_PROPERTY} forbids it."
        hint = f"Other tables may share these files. If none does, set {GC_PROPERTY}=true. Nothing was changed."
        raise SharedFilesError(msg, hint=hint, table=table)
