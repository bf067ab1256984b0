"""Translates errors of PyIceberg, Arrow and catalog clients to floe's errors."""

from __future__ import annotations

import difflib
import errno
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg import exceptions as pyiceberg_errors

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    CatalogRequestError,
    CatalogUnavailableError,
    CommitStateUnknownError,
    ConcurrencyConflictError,
    FloeStorageError,
    NamespaceNotFoundError,
    RateLimitedError,
    StorageAuthenticationError,
    StorageError,
    StorageFullError,
    TableExistsError,
    TableNotFoundError,
)
from floe_core.observing.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog

    from floe_iceberg.models import TableIdentifier

TableAlreadyExistsError = TableExistsError

_LISTED = 10
# Messages of PyIceberg's parser for unsupported types and snapshots.
_UNKNOWN_TYPE = re.compile(r"Unsupported field type: '?(?P<type>[\w() ,:-]+)'?")
_JAVA_ERROR = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )+")
_INLINE_MANIFESTS = re.compile(r"snapshots\.\d+\.manifest-list\s+Field required")
# Libraries that are only used to access catalogs.
_CLIENTS = frozenset({"requests", "sqlalchemy", "thrift"})
_OUTAGES = frozenset({"ConnectionError", "ConnectTimeout", "InterfaceError", "OperationalError", "ReadTimeout"})
_FULL_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_TEXTS = ("no space left", "quota", "file too large")
# Stores write these with spaces, underscores or neither.
_DENIED_TEXTS = (
    "accessdenied",
    "authenticationfailed",
    "expiredtoken",
    "forbidden",
    "invalidaccesskeyid",
    "invalidtokenid",
    "signaturedoesnotmatch",
)


@contextmanager
def translated(catalog: Catalog, identifier: TableIdentifier) -> Iterator[None]:
    """Translate library errors raised in the block to floe's errors."""
    try:
        yield
    except FloeStorageError:
        raise
    except OSError as err:
        if (down := _of_client(err, catalog, identifier)) is not None:
            raise down from err
        raise storage_error(err, table=str(identifier)) from err
    except Exception as err:
        translation = _translation(err, catalog, identifier)
        if translation is None:
            raise
        raise translation from err


def _translation(err: Exception, catalog: Catalog, identifier: TableIdentifier) -> FloeStorageError | None:
    name = str(identifier)
    match err:
        case pyiceberg_errors.NoSuchTableError():
            return table_not_found(catalog, identifier)
        case pyiceberg_errors.NoSuchNamespaceError():
            return namespace_not_found(catalog, identifier.namespace, table=name)
        case pyiceberg_errors.TableAlreadyExistsError():
            msg = f"Table '{name}' already exists in catalog '{catalog.name}'."
            return TableExistsError(msg, hint="Pass if_not_exists=True to use the existing table.", table=name)
        case pyiceberg_errors.CommitFailedException() | pyiceberg_errors.CommitStateUnknownException():
            return _commit_translation(err, name)
        case pyiceberg_errors.RESTError():
            return _rest_translation(err, catalog, name)
        case _:
            return _of_client(err, catalog, identifier) or unsupported_metadata(err, name)


def _of_client(err: Exception, catalog: Catalog, identifier: TableIdentifier) -> CatalogConnectionError | None:
    """Translate errors of a catalog's client library, such as its database driver or HTTP client."""
    library = type(err).__module__.partition(".")[0]
    if library not in _CLIENTS:
        return None
    msg = f"The catalog '{catalog.name}' failed: {redact_text(str(err).partition(chr(10))[0])}"
    hint = "Check that the catalog is running and reachable, then try again."
    kind = CatalogUnavailableError if type(err).__name__ in _OUTAGES else CatalogConnectionError
    return kind(msg, hint=hint, table=str(identifier))


def _commit_translation(err: Exception, name: str) -> FloeStorageError:
    if isinstance(err, pyiceberg_errors.CommitFailedException):
        msg = f"Another writer changed table '{name}' at the same time."
        return ConcurrencyConflictError(msg, hint="Try again.", table=name)
    msg = f"The catalog did not confirm whether the change of '{name}' landed; no files were deleted."
    return CommitStateUnknownError(msg, operation_id="", hint="Check the table, then try again.", table=name)


def unsupported_metadata(err: Exception, name: str) -> CapabilityError | None:
    """Return the error for valid metadata that PyIceberg does not support; only the message shows it is not damaged."""
    text = str(err)
    hint = f"Read it with Spark: manager.frame('{name}'), or Spark SQL."
    if found := _UNKNOWN_TYPE.search(text):
        msg = f"Table '{name}' has a column of type {found['type']}, which needs Spark."
        return CapabilityError(msg, hint=hint, table=name)
    if _INLINE_MANIFESTS.search(text):
        msg = f"Table '{name}' has snapshots of early writers without a manifest list, which need Spark."
        return CapabilityError(msg, hint=hint, table=name)
    return None


def _rest_translation(err: pyiceberg_errors.RESTError, catalog: Catalog, name: str) -> FloeStorageError | None:
    match err:
        case (
            pyiceberg_errors.UnauthorizedError()
            | pyiceberg_errors.OAuthError()
            | pyiceberg_errors.AuthorizationExpiredError()
        ):
            msg = f"The catalog '{catalog.name}' rejected the credentials."
            return CatalogAuthenticationError(msg, hint="Check catalog.credentials in floe.yaml.", table=name)
        case pyiceberg_errors.ForbiddenError():
            msg = f"The catalog '{catalog.name}' denied this operation on '{name}'."
            return CatalogAuthorizationError(
                msg, hint="Request the required privilege from its administrator.", table=name
            )
        case pyiceberg_errors.TooManyRequestsError():
            return RateLimitedError(f"The catalog '{catalog.name}' limits the request rate.", hint="Try again later.")
        case pyiceberg_errors.BadRequestError():
            return rejected_request(err, catalog, f"'{name}'", table=name)
        case pyiceberg_errors.ServiceUnavailableError() | pyiceberg_errors.ServerError():
            msg = f"The catalog '{catalog.name}' failed: {redact_text(str(err))}"
            return CatalogUnavailableError(msg, hint="Try again later.", table=name)
        case _:
            return rejected_request(err, catalog, f"'{name}'", table=name)


def rejected_request(
    err: pyiceberg_errors.RESTError, catalog: Catalog, what: str, *, table: str | None = None
) -> CatalogRequestError:
    """Return the error for a rejected request, with the server's message.

    Args:
        err: PyIceberg's error.
        catalog: The catalog.
        what: The subject of the request.
        table: The table, if the request was about one.
    """
    # Remove the Java exception class from the start of the message.
    said = redact_text(_JAVA_ERROR.sub("", str(err)).strip()).rstrip(".")
    msg = f"The catalog '{catalog.name}' rejected the request on {what}: {said}."
    return CatalogRequestError(msg, hint="Check the value named in the message.", table=table)


def table_not_found(catalog: Catalog, identifier: TableIdentifier) -> TableNotFoundError:
    """Return the error for a missing table, with the existing tables."""
    name = str(identifier)
    msg = f"Table '{name}' not found in catalog '{catalog.name}'."
    try:
        tables = [".".join(parts) for parts in catalog.list_tables(tuple(identifier.namespace.split(".")))]
    except pyiceberg_errors.NoSuchNamespaceError:
        existing = _existing_namespaces(catalog, identifier.namespace)
        hint: str | None = " ".join(filter(None, [f"Namespace '{identifier.namespace}' does not exist.", existing]))
    except Exception:  # noqa: BLE001 - the listing is only a hint; the missing table is the error
        hint = None
    else:
        hint = _existing("tables", name, tables)
    return TableNotFoundError(msg, hint=hint, table=name)


def namespace_not_found(catalog: Catalog, namespace: str, *, table: str | None = None) -> NamespaceNotFoundError:
    """Return the error for a missing namespace, with the existing namespaces."""
    msg = f"Namespace '{namespace}' not found in catalog '{catalog.name}'."
    return NamespaceNotFoundError(msg, hint=_existing_namespaces(catalog, namespace), table=table)


def _existing_namespaces(catalog: Catalog, namespace: str) -> str | None:
    try:
        namespaces = [".".join(parts) for parts in catalog.list_namespaces()]
    except Exception:  # noqa: BLE001 - the listing is only a hint; the missing namespace is the error
        return None
    return _existing("namespaces", namespace, namespaces)


def _existing(what: str, wanted: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return f"There are no {what}."
    listed = ", ".join(known[:_LISTED]) + (f" and {len(known) - _LISTED} more" if len(known) > _LISTED else "")
    close = difflib.get_close_matches(wanted, known, n=1)
    guess = f" Did you mean '{close[0]}'?" if close else ""
    return f"Existing {what}: {listed}.{guess}"


def storage_error(err: OSError, *, table: str | None = None) -> StorageError:
    """Translate a store's error: full disk, rejected credentials or another failure."""
    text = redact_text(str(err))
    lowered = text.lower()
    if err.errno in _FULL_DISK or any(sign in lowered for sign in _FULL_TEXTS):
        msg = f"The storage is full: {text}"
        return StorageFullError(msg, hint="Free space or raise the quota. The table was not changed.", table=table)
    if isinstance(err, PermissionError) or any(
        sign in lowered.replace(" ", "").replace("_", "") for sign in _DENIED_TEXTS
    ):
        msg = f"The storage denied access: {text}"
        hint = "Check storage.credentials in floe.yaml, or the store's policy if the catalog vends credentials."
        return StorageAuthenticationError(msg, hint=hint, table=table)
    return StorageError(f"The storage failed: {text}", table=table)
