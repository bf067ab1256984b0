"""Translates error responses and connection failures of a REST catalog into floe's errors."""

from __future__ import annotations

import email.utils
import json
import re
import time
from typing import TYPE_CHECKING

import requests
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    CatalogTlsError,
    CatalogUnavailableError,
    CorruptFileError,
    CredentialVendingError,
    DeadlineExceededError,
    FloeStorageError,
    RateLimitedError,
)
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import get_logger
from floe_polaris.transport.origin import display_url

if TYPE_CHECKING:
    from floe_core.schemas import TimeoutConfig

_log = get_logger("floe.polaris")

_MAX_MESSAGE_LENGTH = 300
_TOO_MANY_REQUESTS = 429
_UNAUTHORIZED = frozenset({401, 419})
_FORBIDDEN = 403
_NOT_IMPLEMENTED = 501
_SERVICE_UNAVAILABLE = 503
_GATEWAY_FAILURES = frozenset({502, 504})
_REDIRECTS = range(300, 400)
# Messages of Iceberg's Java implementation for a metadata file that is missing or invalid.
_UNREADABLE_METADATA = re.compile(
    r"(?:Location does not exist|Failed to read file|Failed to open input stream for file): "
    r"(?P<path>[^\s\"]+\.metadata\.json(?:\.gz)?)"
)
_REJECTED = frozenset({400, 422})
# Messages of Polaris, whose status codes do not distinguish these cases from missing privileges or bad requests.
_LOCATION_CONFLICT = re.compile(
    r"conflicts with existing table or namespace at location|overlaps with an existing", re.IGNORECASE
)
_LOCATION_NOT_ALLOWED = re.compile(r"not in the list of allowed locations|Invalid locations? ", re.IGNORECASE)
# The start of a message: ``floe doctor`` tells a rejected location from a missing privilege by it.
REJECTED_LOCATION = "The catalog rejected the location"
_NO_PURGE = re.compile(r"DROP_WITH_PURGE_ENABLED|drop-with-purge", re.IGNORECASE)
_VENDING_FAILED = re.compile(r"subscoped credentials", re.IGNORECASE)
_VENDING_MISSING = re.compile(r"Credential vending was requested .* no credentials are available", re.IGNORECASE)


class CatalogServerError(CatalogConnectionError):
    """The catalog failed with an internal error; retrying is unlikely to help."""


class CatalogBusyError(CatalogUnavailableError, RateLimitedError):
    """The catalog is unavailable; the response may say when to retry."""


def was_never_sent(err: BaseException) -> bool:
    """Whether a request failed before the server could have seen it."""
    if isinstance(err, requests.exceptions.SSLError | requests.exceptions.ConnectTimeout):
        return True
    cause = err.args[0] if err.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else cause
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)


def network_error(err: requests.RequestException, url: str, timeouts: TimeoutConfig) -> FloeStorageError:
    """Translate a request that got no response."""
    address = display_url(url)
    if isinstance(err, requests.exceptions.SSLError):
        msg = f"The certificate of {address} is not trusted: {_reason(err)}"
        hint = "Set catalog.options.ca_bundle to a file with its certificate authority, or correct catalog.uri."
        return CatalogTlsError(msg, hint=hint)
    if isinstance(err, requests.exceptions.ConnectTimeout):
        msg = f"{address} did not accept a connection within {timeouts.connect_seconds:g} s."
        return DeadlineExceededError(msg, hint="Check catalog.uri, or raise catalog.timeouts.connect_seconds.")
    if isinstance(err, requests.exceptions.Timeout) or "timed out" in str(err):
        msg = f"{address} accepted the request but did not respond within {timeouts.read_seconds:g} s."
        return DeadlineExceededError(msg, hint="Check the server, or raise catalog.timeouts.read_seconds.")
    if isinstance(err, requests.exceptions.ConnectionError | requests.exceptions.ChunkedEncodingError):
        msg = f"{address} cannot be reached: {_reason(err)}"
        return CatalogUnavailableError(msg, hint="Check that the server is running and that catalog.uri is correct.")
    msg = f"Request to {address} failed: {_reason(err)}"
    return CatalogConnectionError(msg, hint="Check catalog.uri.")


def response_error(response: requests.Response, *, credentials: str) -> FloeStorageError | None:
    """Translate a response into one of floe's errors; None if PyIceberg handles it.

    Args:
        response: The catalog's response.
        credentials: The settings of the credentials, for the hint.
    """
    if response.status_code >= 500:  # noqa: PLR2004 - the class of server errors
        return _failure(response)
    return _rejection(response, credentials=credentials)


def _rejection(response: requests.Response, *, credentials: str) -> FloeStorageError | None:
    status, message = response.status_code, _suffix(server_message(response))
    if status in _REDIRECTS:
        target = display_url(response.headers.get("Location", ""))
        msg = f"{display_url(response.url)} redirects to {target}; floe does not send credentials after a redirect."
        return CatalogConnectionError(msg, hint="Set catalog.uri to the final address.")
    if status in _UNAUTHORIZED:
        # The server's message about a login goes only to the log.
        _log.warning("polaris.authenticate.refused", status=status, said=message.removeprefix(": "))
        msg = "The catalog rejected the credentials."
        return CatalogAuthenticationError(msg, hint=f"Check {credentials} in floe.yaml.")
    if status == _FORBIDDEN:
        return _denial(message or _suffix(_requested(response)))
    if status in _REJECTED:
        return _vending_error(message)
    if status == _TOO_MANY_REQUESTS:
        msg = f"The catalog is throttling requests{message}."
        return RateLimitedError(msg, retry_after=retry_after(response), hint="Try again later, or use fewer writers.")
    return None


def _requested(response: requests.Response) -> str:
    """Return the request of a response without a message, such as that to a HEAD request."""
    # Responses made by hand have no request.
    method = getattr(response.request, "method", None) or "request to"
    return f"{method} {display_url(response.url)}"


def _denial(message: str) -> CatalogAuthorizationError:
    """Translate a denied operation: a missing privilege is only one of several reasons."""
    msg = f"The catalog denied this operation{message}."
    hint = "Grant the privilege to the principal's role, or use another principal (catalog.credentials)."
    if _LOCATION_CONFLICT.search(message):
        msg = f"{REJECTED_LOCATION}{message}."
        hint = "Choose a location that no other table or namespace uses, or omit the location."
    elif _LOCATION_NOT_ALLOWED.search(message):
        msg = f"{REJECTED_LOCATION}{message}."
        hint = (
            "Choose a location below the namespace's own, or omit it; 'floe catalog show' lists the allowed locations."
        )
    elif _NO_PURGE.search(message):
        hint = "Set polaris.config.drop-with-purge.enabled to true on the catalog, or drop without purging."
    return CatalogAuthorizationError(msg, hint=hint)


def _vending_error(message: str) -> FloeStorageError | None:
    """Translate a failure to vend storage credentials; None for other rejections, which PyIceberg handles."""
    if _VENDING_FAILED.search(message):
        msg = f"The catalog cannot get storage credentials{message}."
        hint = "Check the catalog's storage role and STS endpoint with: floe catalog show."
        return CredentialVendingError(msg, hint=hint)
    if _VENDING_MISSING.search(message):
        msg = f"The catalog does not vend storage credentials{message}."
        hint = "Set catalog.access_delegation to none and set storage.credentials, or configure an STS for the catalog."
        return CapabilityError(msg, hint=hint)
    return None


def _failure(response: requests.Response) -> FloeStorageError | None:
    status, address, message = response.status_code, display_url(response.url), _suffix(server_message(response))
    if status == _NOT_IMPLEMENTED:
        return None
    if path := unreadable_metadata(response.text):
        # Regardless of the status, only one table is damaged; the server is healthy.
        msg = f"The catalog cannot read '{path}': the file is corrupted, missing or not accessible to the server."
        return CorruptFileError(msg, path=path, hint="Restore the file from a backup, or drop the table.")
    if status == _SERVICE_UNAVAILABLE:
        msg = f"The catalog at {address} is not available{message}."
        return CatalogBusyError(msg, retry_after=retry_after(response), hint="Try again later.")
    if status in _GATEWAY_FAILURES:
        msg = f"The catalog at {address} is not available: a gateway responded with {status}{message}."
        return CatalogUnavailableError(msg, hint="Try again later, or check the gateway in front of the catalog.")
    msg = f"The catalog at {address} failed with {status}{message}."
    return CatalogServerError(msg, hint="Check the server's log.")


def unreadable_metadata(text: str) -> str | None:
    """Return the metadata file that a server reports as unreadable; None if the text is about something else."""
    found = _UNREADABLE_METADATA.search(text)
    return found["path"] if found else None


def server_message(response: requests.Response) -> str:
    """Return the server's message, shortened and without secrets; empty if there is no readable message."""
    try:
        content = json.loads(response.text)
    except ValueError:
        return ""
    error = content.get("error") if isinstance(content, dict) else None
    if isinstance(error, dict):
        text = str(error.get("message") or error.get("type") or "")
    elif isinstance(error, str):
        text = f"{error}: {content['error_description']}" if content.get("error_description") else error
    else:
        text = ""
    return redact_text(text.replace("\n", " "))[:_MAX_MESSAGE_LENGTH]


def retry_after(response: requests.Response) -> float | None:
    """Return the number of seconds in a ``Retry-After`` header."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    parsed = email.utils.parsedate_tz(value) if value else None
    return max(0.0, email.utils.mktime_tz(parsed) - time.time()) if parsed else None


def _reason(err: BaseException) -> str:
    """Return the innermost reason; urllib3 wraps it several times."""
    while True:
        inner = next((item for item in (*err.args, err.__cause__) if isinstance(item, BaseException)), None)
        inner = getattr(err, "reason", None) if isinstance(err, MaxRetryError) else inner
        if not isinstance(inner, BaseException) or inner is err:
            break
        err = inner
    text = str(err).rpartition(": ")[2] if isinstance(err, NewConnectionError) else str(err)
    return redact_text(text or type(err).__name__)[:_MAX_MESSAGE_LENGTH]


def _suffix(message: str) -> str:
    return f": {message.rstrip('.')}" if message else ""
