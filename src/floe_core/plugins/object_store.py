"""Object stores: operations on the objects below one location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a listing.

    Attributes:
        key: Path below the location that was listed; it does not start with a slash.
        size: Bytes.
        modified: When it was last written, with a time zone; None if unknown.
    """

    key: str
    size: int
    modified: datetime | None = None


class ObjectListing(Protocol):
    """Lists the objects below one location, which may be a bucket, a container or a folder."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """List every object below a prefix, at any depth.

        A prefix names a folder: ``tenant-1`` does not cover ``tenant-10``. A folder that does not exist is empty.

        Raises:
            StorageAuthenticationError: The store denied access.
            StorageError: The store failed.
        """
        ...


class ObjectStore(ObjectListing, Protocol):
    """Lists, creates, reads and deletes the objects below one location."""

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that does not exist yet; return False, and change nothing, if it exists.

        Raises:
            StorageError: The store failed.
        """
        ...

    def read(self, key: str) -> bytes | None:
        """Return an object's content, None if it does not exist.

        Raises:
            StorageError: The store failed.
        """
        ...

    def delete(self, keys: Iterable[str]) -> int:
        """Delete objects and return how many keys were given; objects that are already gone count too.

        Raises:
            StorageError: The store failed; some of the objects may be deleted.
        """
        ...


def folder_prefix(prefix: str) -> str:
    """Return a prefix with a trailing ``/``, so ``tenant-1`` never covers ``tenant-10``; empty stays empty."""
    return prefix if not prefix or prefix.endswith("/") else prefix + "/"
