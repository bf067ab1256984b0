"""Normalize file locations and resolve where they lead.

The same file can have several names: equivalent schemes of a store, links, and dot segments in a path, plain or
percent-encoded. Code that decides about a file by its name must compare names that this module normalized.
"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

# Equivalent schemes of one store that may appear in file names.
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb", "gcs": "gs", "": "file"}
_LOCATION = re.compile(r"^(?P<scheme>[a-zA-Z][\w+.-]*):(?P<rest>.*)$", re.DOTALL)
# A path starts with one slash or three; two slashes are followed by a host, which local files do not have.
_LOCAL = re.compile(r"^(?://)?(?P<path>/.*)$", re.DOTALL)
_HOST = re.compile("//[^/]")
# A client may cut a URI at the first two characters and read the third as a slash.
_MISREAD = re.compile(r"[?#\\\x00-\x1f\x7f]")
_DOTS = re.compile(r"(?:^|[/\\])\.{1,2}(?=[/\\]|$)")
# More levels of encoding than this are not a mistake.
_MAX_DECODINGS = 4


def normal(location: str) -> str:
    """Return the normalized spelling of a location: ``file:/x``, ``file:///x`` and ``/x`` are the same file."""
    scheme, rest = _split(location)
    if scheme == "file":
        return "file:/" + re.sub(r"/+", "/", rest).lstrip("/")
    return f"{scheme}:{rest}"


def path_only(location: str) -> str:
    """Return the path of a location without its scheme and store."""
    scheme, rest = _split(location)
    if scheme == "file":
        return "/" + re.sub(r"/+", "/", rest).lstrip("/")
    return "/" + rest.lstrip("/").partition("/")[2]


def spellings(location: str) -> tuple[str, ...]:
    """Return the prefixes that writers may have used for the names of files in a location."""
    scheme, rest = _split(location.rstrip("/"))
    if scheme == "file":
        path = "/" + re.sub(r"/+", "/", rest).lstrip("/")
        return tuple(f"{start}{path}/" for start in ("", "file:", "file://"))
    names = [name for name, same in _SAME_SCHEME.items() if same == scheme and name]
    return tuple(f"{name}:{rest}/" for name in (scheme, *names))


def plain_uri(uri: str) -> str:
    """Return a URI with a normalized file scheme; Java writes ``file:/`` where others write ``file:///``."""
    return re.sub(r"^file:/+", "file:///", uri).rstrip("/")


def is_at_or_below(uri: str, roots: Iterable[str]) -> bool:
    """Whether a URI equals or is below one of the roots, by name; ``tenant-10`` is not below ``tenant-1``."""
    place = f"{_lexical(uri)}/"
    return any(place.startswith(f"{_lexical(root)}/") for root in roots)


def local_path(location: str) -> str | None:
    """Return the path of a local location; None for a location in a store."""
    scheme, rest = _split(location)
    local = _LOCAL.match(rest) if scheme == "file" and not _HOST.match(rest) else None
    return "/" + local["path"].lstrip("/") if local else None


def links_below(places: Iterable[str]) -> tuple[str, ...]:
    """Return the links to folders below local locations; following them leaves the location."""
    found: list[str] = []
    for path in filter(None, map(local_path, places)):
        for folder, names, _ in os.walk(path):
            found += [link for name in names if os.path.islink(link := os.path.join(folder, name))]  # noqa: PTH114, PTH118 - many
    return tuple(sorted(found))


def _lexical(uri: str) -> str:
    place = normal(uri).rstrip("/")
    # Dot segments have a meaning only in file systems; in an object store a dot is an ordinary character.
    return f"file:{os.path.normpath(place[len('file:') :])}" if place.startswith("file:") else place


def _split(location: str) -> tuple[str, str]:
    match = _LOCATION.match(location)
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("", location)
    return _SAME_SCHEME.get(scheme, scheme), rest


class Destinations(NamedTuple):
    """The files that a location may refer to.

    Attributes:
        plain: The files for clients that use the name as it is; several if the path combines links and dot segments.
        decoded: The files for clients that percent-decode the name first.
    """

    plain: tuple[str, ...]
    decoded: tuple[str, ...]


class LocationResolver:
    """Resolves locations. Links are followed once per folder and cached, so create a new one for each decision."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._folders: dict[str, str] = {}

    def real(self, location: str) -> str:
        """Return the canonical name of a file; links to the folder of a local file are followed."""
        found = self.destinations(location)
        return found.plain[0] if found else normal(location)

    def destinations(self, location: str) -> Destinations | None:
        """Return the files that a location may refer to, normalized; None if that cannot be determined."""
        scheme, rest = _split(location)
        if scheme == "file":
            return self._local(location, rest)
        # Dot segments have no meaning in an object store; a client that normalizes names would access another object.
        if _MISREAD.search(rest) or _DOTS.search(rest) or rest.endswith("/"):
            return None
        plain = (f"{scheme}:{rest}",)
        if "%" not in rest:
            return Destinations(plain, plain)
        decoded = _decoded(rest)
        return None if decoded is None or _DOTS.search(decoded) else Destinations(plain, (f"{scheme}:{decoded}",))

    def _local(self, location: str, rest: str) -> Destinations | None:
        local = _LOCAL.match(rest)
        # A bare path is not parsed as a URI, so no part is cut off.
        misread = "\\" in rest or "\0" in rest or (rest is not location and _MISREAD.search(rest))
        if local is None or _HOST.match(rest) or misread:
            return None
        path = "/" + local["path"].lstrip("/")
        plain = self._followed(path)
        if "%" not in path:
            return Destinations(plain, plain)
        decoded = _decoded(path)
        return None if decoded is None or "\0" in decoded else Destinations(plain, self._followed(decoded))

    def _followed(self, path: str) -> tuple[str, ...]:
        normalized = os.path.normpath(path)
        if not _DOTS.search(path):
            return (self._entry(normalized),)
        # The operating system follows a link before it applies ".."; other clients drop the link together with "..".
        whole = self._folder(path)
        return tuple(dict.fromkeys((self._entry(normalized), f"file:{whole}")))

    def _entry(self, path: str) -> str:
        # The last part is not resolved: deleting a link does not delete its target.
        folder, name = os.path.split(path)
        return f"file:{self._folder(folder).rstrip('/')}/{name}"

    def _folder(self, folder: str) -> str:
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = os.path.realpath(folder)
        return known


def _decoded(path: str) -> str | None:
    for _ in range(_MAX_DECODINGS):
        plain = unquote(path)
        if plain == path:
            return path
        path = plain
    return None
