"""Translates Spark's errors into floe's errors."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogUnavailableError,
    ClockSkewError,
    CommitStateUnknownError,
    ConcurrencyConflictError,
    EngineError,
    EngineUnavailableError,
    FloeStorageError,
    InvalidDataError,
    RefNotFoundError,
    SnapshotNotFoundError,
    StorageAuthenticationError,
    StorageFullError,
    TableNotFoundError,
)
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import get_logger
from floe_spark.reasons import reason_in, without_sql_state

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = get_logger("floe.spark")

_MISSING_TABLE = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"})
_INVALID_DATA = re.compile(
    r"^(INCOMPATIBLE_DATA_FOR_TABLE|INSERT_COLUMN_ARITY_MISMATCH|NOT_NULL_ASSERT_VIOLATION|MERGE_CARDINALITY_VIOLATION"
    r"|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|DATATYPE_MISMATCH|UNRESOLVED_COLUMN)"
)
# Spark reports Java exceptions as text, so only their class names can be matched.
_ICEBERG_EXCEPTION = re.compile(r"org\.apache\.iceberg\.exceptions\.(\w+)")
# The connection was lost during a commit, so Spark does not know whether the commit succeeded.
_LOST_REQUEST = re.compile(r"RESTException: Error occurred while processing POST request")
_CATALOG_ERRORS: dict[str, tuple[type[FloeStorageError], str]] = {
    "ForbiddenException": (CatalogAuthorizationError, "The catalog denied Spark's request"),
    "ServiceUnavailableException": (CatalogUnavailableError, "The catalog is not available to Spark"),
    "ServiceFailureException": (CatalogUnavailableError, "Spark's request to the catalog failed"),
    "RESTException": (CatalogUnavailableError, "Spark's request to the catalog failed"),
}
_DENIED = re.compile(
    r"\(Service: S3, Status Code: 40[13]\b|AccessControlException|AccessDeniedException|\(Permission denied\)"
    r"|AuthenticationFailed|AuthorizationPermissionMismatch"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
# Libraries that raise Spark's errors, on classic and on Connect.
_BRIDGES = frozenset({"grpc", "py4j", "pyspark"})
_LOST_ENGINE = re.compile(
    r"OutOfMemoryError|Java heap space|StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED|SparkContext was shut down"
    r"|stopped SparkContext|INVALID_HANDLE\.SESSION|Connection refused"
)
_MISSING_REF = re.compile(
    r"Cannot (?:find|use) (?:snapshot (?:with|for) )?(?:ref|branch|tag)|matching snapshot ID or ref", re.IGNORECASE
)
_MISSING_SNAPSHOT = re.compile(r"Cannot find (?:a )?snapshot", re.IGNORECASE)
_TIME_TYPE = re.compile(r"Spark does not support time fields|Cannot convert.*\btime\b", re.IGNORECASE)
_CONFLICT = re.compile(r"conflicting|[Mm]issing (?:data|required) files")
# Iceberg's Java library tolerates one minute of clock skew; beyond that it reports an internal error.
_CLOCK_SKEW = re.compile(
    r"Invalid (?:update|snapshot) timestamp|Expected sorted (?:snapshot|previous metadata) log entries"
)
# Data exception, syntax error or access rule violation, feature not supported.
_SQL_STATE_CLASSES = ("22", "42", "0A")


@contextmanager
def translated(table: str, *, operation_id: str = "", action: str = "") -> Iterator[None]:
    """Translate Spark's errors about a table into floe's errors.

    Args:
        table: The table.
        operation_id: The operation whose commit may have succeeded despite the error.
        action: The action, such as ``write to``; any other Spark error is then translated to ``EngineError``. Without
            it, errors that floe does not recognize are raised unchanged.
    """
    try:
        yield
    except FloeStorageError:
        raise
    except Exception as err:
        translation = _translation(err, table, operation_id) or (_engine_error(err, table, action) if action else None)
        if translation is None:
            raise
        raise translation from err


def _engine_error(err: Exception, table: str, action: str) -> EngineError | None:
    """Describe a Spark error that floe does not recognize, such as one in a user-defined function."""
    if not isinstance(err, PySparkException) and type(err).__module__.partition(".")[0] not in _BRIDGES:
        return None
    msg = f"Spark failed to {action} '{table}': {redact_text(reason_of(err)).rstrip('.')}."
    return EngineError(msg, hint="See this error's __cause__ for Spark's full report.", table=table)


def sql_error_reason(err: Exception) -> str | None:
    """Return the problem with a user's SQL expression; None if Spark failed for another reason."""
    if not isinstance(err, PySparkException) or err.getCondition() in _MISSING_TABLE:
        return None
    state = err.getSqlState() or ""
    return without_sql_state(reason_of(err)) if state.startswith(_SQL_STATE_CLASSES) else None


def reason_of(err: BaseException) -> str:
    """Return the first line of an error's text that states the reason."""
    return reason_in(str(err))


def _translation(err: Exception, table: str, operation_id: str) -> FloeStorageError | None:
    text = str(err)
    if found := _iceberg_error(err, text, table, operation_id):
        return found
    if _FULL.search(text):
        hint = "Free space in the warehouse or Spark's scratch directory, or raise the quota. The table is unchanged."
        return StorageFullError(f"The storage is full: {reason_of(err)}", hint=hint, table=table)
    if _DENIED.search(text):
        hint = "Check storage.credentials in floe.yaml, or the store's policy if the catalog vends credentials."
        msg = f"The storage denied access to Spark: {redact_text(reason_of(err))}"
        return StorageAuthenticationError(msg, hint=hint, table=table)
    # Py4J has its own errors, in a package that is only a transitive dependency.
    if type(err).__name__ == "Py4JNetworkError" or isinstance(err, ConnectionError) or _LOST_ENGINE.search(text):
        msg = "Spark exited or lost its driver during the operation."
        hint = "If it ran out of memory, raise compute.driver_memory. To restart a local server, run: floe spark start"
        return EngineUnavailableError(msg, hint=hint, table=table)
    return _spark_error(err, text, table)


def _iceberg_error(err: Exception, text: str, table: str, operation_id: str) -> FloeStorageError | None:
    names = set(_ICEBERG_EXCEPTION.findall(text))
    if "CommitStateUnknownException" in names or (operation_id and _LOST_REQUEST.search(text)):
        msg = f"Spark does not know whether its commit to '{table}' succeeded."
        return CommitStateUnknownError(msg, operation_id=operation_id, table=table)
    if "NoSuchTableException" in names:
        return _missing_table(table)
    if "CommitFailedException" in names or ("ValidationException" in names and _CONFLICT.search(text)):
        return ConcurrencyConflictError(f"Spark's commit to '{table}' conflicted: {reason_of(err)}", table=table)
    if found := _catalog_error(err, names, table):
        return found
    if _CLOCK_SKEW.search(text):
        msg = f"Table '{table}' was changed by a writer whose clock is ahead of Spark's: {reason_of(err)}"
        return ClockSkewError(msg, hint="Synchronize the clocks of all writers (NTP), then try again.", table=table)
    return None


def _catalog_error(err: Exception, names: set[str], table: str) -> FloeStorageError | None:
    if "NotAuthorizedException" in names:
        # The server's response to a failed login is only logged.
        _log.warning("spark.authenticate.refused", table=table, said=reason_of(err))
        msg = "The catalog rejected Spark's credentials."
        return CatalogAuthenticationError(msg, hint="Check catalog.credentials in floe.yaml.", table=table)
    for name, (kind, what) in _CATALOG_ERRORS.items():
        if name in names:
            return kind(f"{what}: {reason_of(err)}", table=table)
    return None


def _spark_error(err: Exception, text: str, table: str) -> FloeStorageError | None:
    condition = (err.getCondition() if isinstance(err, PySparkException) else None) or ""
    if condition in _MISSING_TABLE:
        return _missing_table(table)
    if _TIME_TYPE.search(text):
        msg = f"Table '{table}' has a column of type time, which Spark does not support."
        return CapabilityError(msg, hint="Use the arrow engine for this table.", table=table)
    if _MISSING_REF.search(text):
        return RefNotFoundError(f"'{table}': {reason_of(err)}", table=table)
    if _MISSING_SNAPSHOT.search(text):
        return SnapshotNotFoundError(f"'{table}': {reason_of(err)}", table=table)
    if _INVALID_DATA.match(condition):
        invalid = InvalidDataError(f"The data does not fit '{table}': {reason_of(err)}", table=table)
        invalid.nulls = condition.startswith("NOT_NULL_ASSERT_VIOLATION")
        return invalid
    return None


def _missing_table(table: str) -> TableNotFoundError:
    return TableNotFoundError(f"Table '{table}' not found.", table=table)
