"""Translates database errors of a SQL catalog into floe's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import (
    CatalogAuthenticationError,
    CatalogConnectionError,
    CatalogUnavailableError,
    DeadlineExceededError,
    FloeStorageError,
    StorageFullError,
)
from floe_core.observing.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import ExceptionContext

    from floe_catalogs.sql.database import Database

_LOGIN_FAILURES = ("password authentication failed", "no password supplied", 'role "', "pg_hba.conf")
_OUTAGE_SQL_STATES = ("08", "53", "57")
_QUERY_CANCELED = "57014"


def translate_failure(database: Database) -> Callable[[ExceptionContext], FloeStorageError | None]:
    """Return a listener for SQLAlchemy's ``handle_error`` event that translates outages into floe's errors."""

    def translate(context: ExceptionContext) -> FloeStorageError | None:
        if context.is_pre_ping:
            # The pool is testing a connection, and replaces it if the test fails.
            return None
        if context.statement is None and context.connection is not None:
            # A failed COMMIT may leave the transaction open, so the connection must not be reused.
            context.is_disconnect = True
            context.invalidate_pool_on_disconnect = False
        error = _sqlite_error(context, database) if database.is_sqlite else _postgres_error(context, database)
        if error is not None:
            raise error from context.original_exception
        return None

    return translate


def _sqlite_error(context: ExceptionContext, database: Database) -> FloeStorageError | None:
    text = str(context.original_exception)
    file = database.url.database
    if "is locked" in text or "busy" in text:
        msg = f"Timed out waiting for another process to unlock the catalog file {file}."
        return CatalogUnavailableError(msg, hint="Find the process that holds the lock, then try again.")
    if "disk is full" in text:
        msg = f"No space left on the disk of the catalog file {file}."
        return StorageFullError(msg, hint="Free some space and try again; nothing was committed.")
    if "unable to open" in text or "readonly" in text or "disk I/O error" in text:
        msg = f"Cannot use the catalog file {file}: {text}."
        return CatalogConnectionError(msg, hint="Check catalog.uri and the permissions of the file and its folder.")
    if "not a database" in text or "malformed" in text:
        msg = f"The catalog file {file} is not a SQLite database, or it is corrupted."
        return CatalogConnectionError(msg, hint="Check catalog.uri, or restore the file from a backup.")
    return None


def _postgres_error(context: ExceptionContext, database: Database) -> FloeStorageError | None:
    original = context.original_exception
    text = redact_text(str(original)).strip()
    state = getattr(original, "sqlstate", None) or ""
    connecting = context.connection is None
    if connecting and any(word in text for word in _LOGIN_FAILURES):
        msg = f"The catalog database {database.display_url} rejected the login."
        return CatalogAuthenticationError(
            msg, hint="Check catalog.credentials.username and catalog.credentials.password."
        )
    if connecting and "does not exist" in text:
        msg = f"The catalog database {database.display_url} does not exist."
        return CatalogConnectionError(msg, hint="Create it (createdb), or correct catalog.uri.")
    if state == _QUERY_CANCELED:
        msg = (
            f"The catalog database {database.display_url} did not respond within {database.timeouts.total_seconds:g} s."
        )
        return DeadlineExceededError(
            msg, hint="Raise catalog.timeouts.total_seconds, or check the load on the database."
        )
    if connecting or context.is_disconnect or state[:2] in _OUTAGE_SQL_STATES:
        msg = f"The catalog database {database.display_url} is not available."
        return CatalogUnavailableError(
            msg, hint="Check that it is running and that catalog.uri is correct, then try again."
        )
    return None
