"""Vended storage credentials: read from the catalog's responses and renewed during long writes."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from floe_core.errors import StorageAuthenticationError, TransientError
from floe_core.telemetry import get_logger
from floe_iceberg.errors import storage_error
from floe_polaris.credentials.staging import StagedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyarrow.fs import FileSystem
    from pyiceberg.typedef import Properties

_log = get_logger("floe.polaris")

# Properties with vended credentials, by the names of PyIceberg and Iceberg's Java client.
CREDENTIAL_KEYS = frozenset(
    {
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "gcs.oauth2.token",
        "adls.sas-token",
        "adls.token",
    }
)
_CREDENTIAL_PREFIXES = ("adls.sas-token.", "adls.sas-token-")
_EXPIRY_KEYS = (
    "s3.session-token-expires-at-ms",
    "gcs.oauth2.token-expires-at",
    "gcs.oauth2.token-expires-at-ms",
    "adls.token-expires-at-ms",
    "expiration-time",
)
_EXPIRY_PREFIX = "adls.sas-token-expires-at-ms"

# Credentials are renewed this long before they expire, or when a third of their lifetime is left, whichever is later.
# One file must be written completely with the credentials that were valid when it was opened.
_RENEW_BEFORE_SECONDS = 300.0
_RENEW_BEFORE_SHARE = 1 / 3


def credentials_in(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the vended credentials and their expiry from a set of properties."""
    return {
        key: str(value)
        for key, value in properties.items()
        if key in CREDENTIAL_KEYS or key in _EXPIRY_KEYS or key.startswith((*_CREDENTIAL_PREFIXES, _EXPIRY_PREFIX))
    }


def are_credentials(properties: Mapping[str, str]) -> bool:
    """Whether vended properties contain credentials, not only their expiry."""
    return any(key in CREDENTIAL_KEYS or key.startswith(_CREDENTIAL_PREFIXES) for key in properties)


def expiry_of(properties: Mapping[str, Any]) -> float | None:
    """Return when vended credentials expire, in seconds since the epoch; None if unknown."""
    timestamps = [
        str(value) for key, value in properties.items() if key in _EXPIRY_KEYS or key.startswith(_EXPIRY_PREFIX)
    ]
    return min((int(timestamp) / 1000 for timestamp in timestamps if timestamp.isdigit()), default=None)


class VendedFileIO(PyArrowFileIO):
    """Reads and writes with vended credentials, and renews them before they expire or when an upload is rejected."""

    def __init__(self, properties: Properties, renew: Callable[[], dict[str, str]]) -> None:
        """Start with the credentials in ``properties``; ``renew`` returns new ones."""
        super().__init__(properties)
        self._renew = renew
        self._lock = threading.Lock()
        self._due = _renewal_time(properties)
        self._file_systems = self.fs_by_scheme
        self.fs_by_scheme = self._current_file_system

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file that is uploaded, once complete, with the credentials valid at that time."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        return StagedFile(
            location,
            path,
            file_system=partial(self._current_file_system, scheme, netloc),
            retried=self._upload_with_renewal,
        )

    def _current_file_system(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if time.time() >= self._due:
            with self._lock:
                if time.time() >= self._due:
                    self._renew_credentials()
        return self._file_systems(scheme, netloc)

    def _upload_with_renewal(self, upload: Callable[[], None]) -> None:
        used = self.properties
        try:
            upload()
        except OSError as err:
            if not isinstance(storage_error(err), StorageAuthenticationError):
                raise
            with self._lock:
                if self.properties is used:
                    self._renew_credentials()
            upload()

    def _renew_credentials(self) -> None:
        try:
            renewed = self._renew()
        except TransientError as err:
            if time.time() >= (expiry_of(self.properties) or 0.0):
                raise
            _log.warning("polaris.credentials.renewal_failed", error=type(err).__name__)
            # The old credentials are still valid; the next file tries to renew them again.
            return
        if not are_credentials(renewed):
            msg = "The catalog no longer vends storage credentials."
            hint = "Check the catalog's log and the principal's privileges."
            raise StorageAuthenticationError(msg, hint=hint)
        self.properties = {**self.properties, **renewed}
        self._due = _renewal_time(self.properties)
        self._file_systems = PyArrowFileIO(self.properties).fs_by_scheme
        _log.info("polaris.credentials.renewed", expires_at=expiry_of(self.properties))

    def __getstate__(self) -> dict[str, Any]:
        """Drop locks and open clients; a copy in another process works until its credentials expire."""
        return {"properties": self.properties}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the file client without the ability to renew its credentials."""
        self.__init__(state["properties"], dict)  # type: ignore[misc]
        self._due = float("inf")


def _renewal_time(properties: Mapping[str, Any]) -> float:
    expires = expiry_of(properties)
    if expires is None:
        return float("inf")
    remaining = max(0.0, expires - time.time())
    return expires - min(_RENEW_BEFORE_SECONDS, remaining * _RENEW_BEFORE_SHARE)
