"""Which files are a table's own: on its behalf, no other file is ever deleted.

A table's metadata can name files that belong to somebody else: a clone shares the files of its source, ``add_files``
takes in files where they are, and a registered table brings a foreign log along. What lies outside the table's location
and the paths it declares for itself is kept and reported, whoever refers to it.
"""

from __future__ import annotations

import os.path
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

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
# Names of one store under which files may be written down.
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb", "gcs": "gs", "": "file"}
_LOCATION = re.compile(r"^(?P<scheme>[a-zA-Z][\w+.-]*):(?P<rest>.*)$", re.DOTALL)
# One slash or three begin a path; after two of them comes a host, which no local file has.
_LOCAL = re.compile(r"^(?://)?(?P<path>/.*)$", re.DOTALL)


def normal(location: str) -> str:
    """Return one spelling for all spellings of a location: ``file:/x``, ``file:///x`` and ``/x`` are one file."""
    scheme, rest = _split(location)
    if scheme == "file":
        return "file:/" + re.sub(r"/+", "/", rest).lstrip("/")
    return f"{scheme}:{rest}"


def real(location: str) -> str:
    """Return one name for all names of a file: links to the folder of a local file are followed."""
    return _resolved(location) or normal(location)


def path_alone(location: str) -> str:
    """Return the path of a location, without scheme and store."""
    scheme, rest = _split(location)
    if scheme == "file":
        return "/" + re.sub(r"/+", "/", rest).lstrip("/")
    return "/" + rest.lstrip("/").partition("/")[2]


def spellings(location: str) -> tuple[str, ...]:
    """Return the ways in which a writer may have begun the names of files in a location."""
    scheme, rest = _split(location.rstrip("/"))
    if scheme == "file":
        path = "/" + re.sub(r"/+", "/", rest).lstrip("/")
        return tuple(f"{start}{path}/" for start in ("", "file:", "file://"))
    names = [name for name, same in _SAME_SCHEME.items() if same == scheme and name]
    return tuple(f"{name}:{rest}/" for name in (scheme, *names))


def _split(location: str) -> tuple[str, str]:
    match = _LOCATION.match(location)
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("", location)
    return _SAME_SCHEME.get(scheme, scheme), rest


@dataclass(frozen=True)
class OwnFiles:
    """The places whose files belong to one table.

    Attributes:
        places: Locations as the table writes them down.
        roots: The same in one spelling, each ending in ``/``.
        others: Places below those that belong to other tables, in the same form.
    """

    places: tuple[str, ...]
    roots: tuple[str, ...]
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: TableMetadata) -> OwnFiles:
        """Return the places of a table: its location and the paths that its properties declare."""
        declared = (metadata.properties.get(name) for name in _DECLARED_PATHS)
        places = tuple(dict.fromkeys(place for place in (metadata.location, *declared) if place))
        return cls(places, tuple(root for place in places if (root := _root(place))))

    def without(self, places: Iterable[str]) -> OwnFiles:
        """Return the same without places of other tables."""
        return replace(self, others=tuple(root for place in places if (root := _root(place))))

    def __contains__(self, location: str) -> bool:
        """Whether a file belongs to the table."""
        resolved = _resolved(location)
        return resolved is not None and resolved.startswith(self.roots) and not resolved.startswith(self.others)

    def split(self, locations: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
        """Return the files that belong to the table, and those that do not, sorted."""
        own: list[str] = []
        foreign: list[str] = []
        for location in locations:
            (own if location in self else foreign).append(location)
        return own, tuple(sorted(foreign))


def _root(place: str) -> str | None:
    resolved = _resolved(f"{place.rstrip('/')}/_")
    return resolved[:-1] if resolved is not None else None


def _resolved(location: str) -> str | None:
    """Return where a location really leads; None when nobody can tell."""
    scheme, rest = _split(location)
    if scheme == "file":
        local = _LOCAL.match(rest)
        if local is None or re.match("//[^/]", rest):
            return None
        folder, name = os.path.split(os.path.normpath("/" + local["path"].lstrip("/")))
        return f"file:{_real_folder(folder).rstrip('/')}/{name}"
    # An object store has no folders to go up in; a client that tidies names up would reach another object.
    if any(part in {".", ".."} for part in rest.split("/")):
        return None
    return f"{scheme}:{rest}"


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


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
