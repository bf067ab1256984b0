"""Translate errors of object store clients into floe's errors."""

from __future__ import annotations

from floe_core.errors import StorageAuthenticationError, StorageError
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import get_logger

_log = get_logger(__name__)

# Total time for retries if a store does not respond. All operations are safe to repeat.
RETRY_SECONDS = 15

_DENIED_ERRORS = frozenset(
    {"UnauthenticatedError", "PermissionDeniedError", "PermissionError", "Forbidden", "Unauthorized", "RefreshError"}
)
_DENIED_TEXTS = ("401 Unauthorized", "403 Forbidden", "AccessDenied")


def store_error(err: Exception, verb: str, key: str) -> StorageError:
    """Translate a client's error and log the client's own message."""
    _log.debug("object_store.failed", verb=verb, key=key, error=type(err).__name__, reason=redact_text(str(err)))
    # obstore has exception types for denied reads and writes; for denied listings and bulk deletes, only text.
    if type(err).__name__ in _DENIED_ERRORS or any(word in str(err) for word in _DENIED_TEXTS):
        msg = f"The object store denied access: cannot {verb} '{key}'."
        return StorageAuthenticationError(msg, hint="Check storage.credentials in floe.yaml, and the store's policy.")
    msg = f"The object store failed to {verb} '{key}': {type(err).__name__}."
    return StorageError(
        msg, hint="Check the bucket, endpoint and network. Run with --debug to see the store's message."
    )
