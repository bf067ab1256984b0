"""Locations of files: one spelling for each, and which place a location leads to.

The same file has several names: schemes of one store, links, and dots that go up in a path, plain or encoded. Whoever
decides about a file by its name compares names that were brought into one form here.
"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

# Names of one store under which files may be written down.
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb", "gcs": "gs", "": "file"}
_LOCATION = re.compile(r"^(?P<scheme>[a-zA-Z][\w+.-]*):(?P<rest>.*)$", re.DOTALL)
# One slash or three begin a path; after two of them comes a host, which no local file has.
_LOCAL = re.compile(r"^(?://)?(?P<path>/.*)$", re.DOTALL)
_HOST = re.compile("//[^/]")
# A client may cut a URI at the first two, and takes the third for a slash.
_MISREAD = re.compile(r"[?#\\\x00-\x1f\x7f]")
_DOTS = re.compile(r"(?:^|[/\\])\.{1,2}(?=[/\\]|$)")
# Nobody encodes a path more often than this by mistake.
_MOST_DECODINGS = 4


def normal(location: str) -> str:
    """Return one spelling for all spellings of a location: ``file:/x``, ``file:///x`` and ``/x`` are one file."""
    scheme, rest = _split(location)
    if scheme == "file":
        return "file:/" + re.sub(r"/+", "/", rest).lstrip("/")
    return f"{scheme}:{rest}"


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


def plain_uri(uri: str) -> str:
    """Return a URI in one spelling; Java writes ``file:/`` where others write ``file:///``."""
    return re.sub(r"^file:/+", "file:///", uri).rstrip("/")


def lies_in(uri: str, roots: Iterable[str]) -> bool:
    """Whether a URI is at or below one of some roots, by name; ``tenant-10`` is not below ``tenant-1``."""
    place = f"{_lexical(uri)}/"
    return any(place.startswith(f"{_lexical(root)}/") for root in roots)


def local_path(location: str) -> str | None:
    """Return the path of a local location, None for one in a store."""
    scheme, rest = _split(location)
    local = _LOCAL.match(rest) if scheme == "file" and not _HOST.match(rest) else None
    return "/" + local["path"].lstrip("/") if local else None


def links_below(places: Iterable[str]) -> tuple[str, ...]:
    """Return the links to folders that lie below local places: whoever follows them leaves the place."""
    found: list[str] = []
    for path in filter(None, map(local_path, places)):
        for folder, names, _ in os.walk(path):
            found += [link for name in names if os.path.islink(link := os.path.join(folder, name))]  # noqa: PTH114, PTH118 - many
    return tuple(sorted(found))


def _lexical(uri: str) -> str:
    place = normal(uri).rstrip("/")
    # Only folders can be gone up in; to an object store a dot is a character like any other.
    return f"file:{os.path.normpath(place[len('file:') :])}" if place.startswith("file:") else place


def _split(location: str) -> tuple[str, str]:
    match = _LOCATION.match(location)
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("", location)
    return _SAME_SCHEME.get(scheme, scheme), rest


class Destinations(NamedTuple):
    """Where a location may lead to.

    Attributes:
        plain: Places that clients which take the name as it is reach; more than one when links and dots meet.
        decoded: Places that clients which decode the name first reach.
    """

    plain: tuple[str, ...]
    decoded: tuple[str, ...]


class Compass:
    """Tells where locations lead to; links are followed once for each folder, so make a new one for each decision."""

    def __init__(self) -> None:
        """Know no folder yet."""
        self._folders: dict[str, str] = {}

    def real(self, location: str) -> str:
        """Return one name for all names of a file: links to the folder of a local file are followed."""
        found = self.destinations(location)
        return found.plain[0] if found else normal(location)

    def destinations(self, location: str) -> Destinations | None:
        """Return where a location may lead to, in one spelling; None when that cannot be told."""
        scheme, rest = _split(location)
        if scheme == "file":
            return self._local(location, rest)
        # An object store has no folders to go up in; a client that tidies names up would reach another object.
        if _MISREAD.search(rest) or _DOTS.search(rest) or rest.endswith("/"):
            return None
        plain = (f"{scheme}:{rest}",)
        if "%" not in rest:
            return Destinations(plain, plain)
        decoded = _decoded(rest)
        return None if decoded is None or _DOTS.search(decoded) else Destinations(plain, (f"{scheme}:{decoded}",))

    def _local(self, location: str, rest: str) -> Destinations | None:
        local = _LOCAL.match(rest)
        # A bare path is not parsed as a URI, so nothing is cut off.
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
        tidy = os.path.normpath(path)
        if not _DOTS.search(path):
            return (self._entry(tidy),)
        # The system follows a link before it goes up from there; others drop the link and the dots together.
        whole = self._folder(path)
        return tuple(dict.fromkeys((self._entry(tidy), f"file:{whole}")))

    def _entry(self, path: str) -> str:
        # The last part stays as it is: deleting a link leaves what it leads to.
        folder, name = os.path.split(path)
        return f"file:{self._folder(folder).rstrip('/')}/{name}"

    def _folder(self, folder: str) -> str:
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = os.path.realpath(folder)
        return known


def _decoded(path: str) -> str | None:
    for _ in range(_MOST_DECODINGS):
        plain = unquote(path)
        if plain == path:
            return path
        path = plain
    return None
