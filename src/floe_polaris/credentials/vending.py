"""Vended storage credentials: read from the catalog's answers, and replaced while a long write runs."""

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

# What a catalog hands out for one table, as PyIceberg and Iceberg's Java client name it.
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

# Credentials are replaced this long before they expire, or when a third of their life is left, whichever is later.
# One file has to be written with what was valid when it was opened.
_RENEW_BEFORE_SECONDS = 300.0
_RENEW_BEFORE_SHARE = 1 / 3


def credentials_in(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the vended credentials, and when they expire, among properties."""
    return {
        key: str(value)
        for key, value in properties.items()
        if key in CREDENTIAL_KEYS or key in _EXPIRY_KEYS or key.startswith((*_CREDENTIAL_PREFIXES, _EXPIRY_PREFIX))
    }


def are_credentials(properties: Mapping[str, str]) -> bool:
    """Whether there is a credential, and not only an expiry, among what was vended."""
    return any(key in CREDENTIAL_KEYS or key.startswith(_CREDENTIAL_PREFIXES) for key in properties)


def expiry_of(properties: Mapping[str, Any]) -> float | None:
    """Return when vended credentials expire, in seconds since 1970; None when nobody said."""
    moments = [str(value) for key, value in properties.items() if key in _EXPIRY_KEYS or key.startswith(_EXPIRY_PREFIX)]
    return min((int(moment) / 1000 for moment in moments if moment.isdigit()), default=None)


class VendedFileIO(PyArrowFileIO):
    """Reads and writes with vended credentials, and asks for new ones before they end or when they are refused."""

    def __init__(self, properties: Properties, renew: Callable[[], dict[str, str]]) -> None:
        """Start with the credentials among ``properties``; ``renew`` returns the next ones."""
        super().__init__(properties)
        self._renew = renew
        self._lock = threading.Lock()
        self._due = _renewal_time(properties)
        self._file_systems = self.fs_by_scheme
        self.fs_by_scheme = self._current_file_system

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file that is uploaded with the credentials of the moment it is whole."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        return StagedFile(
            location,
            path,
            file_system=partial(self._current_file_system, scheme, netloc),
            retried=self._with_new_credentials_once,
        )

    def _current_file_system(self, scheme: str, netloc: str | None = None) -> FileSystem:
        if time.time() >= self._due:
            with self._lock:
                if time.time() >= self._due:
                    self._replace()
        return self._file_systems(scheme, netloc)

    def _with_new_credentials_once(self, upload: Callable[[], None]) -> None:
        used = self.properties
        try:
            upload()
        except OSError as err:
            if not isinstance(storage_error(err), StorageAuthenticationError):
                raise
            with self._lock:
                if self.properties is used:
                    self._replace()
            upload()

    def _replace(self) -> None:
        try:
            fresh = self._renew()
        except TransientError as err:
            if time.time() >= (expiry_of(self.properties) or 0.0):
                raise
            _log.warning("polaris.credentials.renewal_failed", error=type(err).__name__)
            # The old ones still hold; the next file asks again.
            return
        if not are_credentials(fresh):
            msg = "The catalog vended storage credentials before and vends none now."
            hint = "Look at the catalog's log and at the principal's privileges."
            raise StorageAuthenticationError(msg, hint=hint)
        self.properties = {**self.properties, **fresh}
        self._due = _renewal_time(self.properties)
        self._file_systems = PyArrowFileIO(self.properties).fs_by_scheme
        _log.info("polaris.credentials.renewed", expires_at=expiry_of(self.properties))

    def __getstate__(self) -> dict[str, Any]:
        """Leave locks and open clients behind; a copy in another process works until its credentials end."""
        return {"properties": self.properties}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Come back as it was, without a way to ask for new credentials."""
        self.__init__(state["properties"], dict)  # type: ignore[misc]
        self._due = float("inf")


def _renewal_time(properties: Mapping[str, Any]) -> float:
    expires = expiry_of(properties)
    if expires is None:
        return float("inf")
    left = max(0.0, expires - time.time())
    return expires - min(_RENEW_BEFORE_SECONDS, left * _RENEW_BEFORE_SHARE)
