"""What every object store offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from floe_core.errors import StorageAuthenticationError, StorageError
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_log = get_logger(__name__)

# How long a client goes on trying when the store does not answer; a bootstrap can always be repeated.
RETRY_SECONDS = 15

_REFUSALS = frozenset(
    {"UnauthenticatedError", "PermissionDeniedError", "PermissionError", "Forbidden", "Unauthorized", "RefreshError"}
)


_REFUSAL_WORDS = ("401 Unauthorized", "403 Forbidden", "AccessDenied")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a listing."""

    key: str
    size: int


class ObjectStore(Protocol):
    """One bucket, container or folder; keys never start with a slash."""

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that is not there yet; return False, and change nothing, when it is."""
        ...

    def read(self, key: str) -> bytes | None:
        """Return an object's content, None when it is not there."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """List every object below a prefix that ends in ``/``."""
        ...

    def delete(self, keys: Iterable[str]) -> int:
        """Delete objects; those already gone are no error. Return how many were named."""
        ...


def folder_prefix(prefix: str) -> str:
    """Return a prefix that ends in ``/``, so that ``tenant-1`` never covers ``tenant-10``."""
    return prefix if not prefix or prefix.endswith("/") else prefix + "/"


def store_error(err: Exception, verb: str, key: str) -> StorageError:
    """Turn a client's error into floe's; the client's own words go to the log."""
    _log.debug("object_store.failed", verb=verb, key=key, error=type(err).__name__, reason=redact_text(str(err)))
    # obstore types a refused read or write, and gives a refused listing or bulk delete as text.
    if type(err).__name__ in _REFUSALS or any(word in str(err) for word in _REFUSAL_WORDS):
        msg = f"The object store refused to {verb} '{key}'."
        return StorageAuthenticationError(msg, hint="Check the credentials of the catalog configuration.")
    msg = f"The object store failed to {verb} '{key}': {type(err).__name__}."
    return StorageError(msg, hint="Check bucket, endpoint and network; --debug shows the store's own words.")
