"""Turns what Spark raises into floe's errors, where a caller can act on the difference."""

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
_UNFIT_DATA = re.compile(
    r"^(INCOMPATIBLE_DATA_FOR_TABLE|INSERT_COLUMN_ARITY_MISMATCH|NOT_NULL_ASSERT_VIOLATION|MERGE_CARDINALITY_VIOLATION"
    r"|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE|DATATYPE_MISMATCH|UNRESOLVED_COLUMN)"
)
# Spark hands Java's exceptions over as text; the class names in it are all there is to go by.
_ICEBERG_EXCEPTION = re.compile(r"org\.apache\.iceberg\.exceptions\.(\w+)")
# A commit whose connection broke: nobody told Spark whether it landed.
_LOST_POST = re.compile(r"RESTException: Error occurred while processing POST request")
_OF_CATALOG: dict[str, tuple[type[FloeStorageError], str]] = {
    "ForbiddenException": (CatalogAuthorizationError, "The catalog refuses Spark's request"),
    "ServiceUnavailableException": (CatalogUnavailableError, "The catalog is not available to Spark"),
    "ServiceFailureException": (CatalogUnavailableError, "The catalog failed Spark's request"),
    "RESTException": (CatalogUnavailableError, "The catalog failed Spark's request"),
}
_DENIED = re.compile(
    r"\(Service: S3, Status Code: 40[13]\b|AccessControlException|AccessDeniedException|\(Permission denied\)"
    r"|AuthenticationFailed|AuthorizationPermissionMismatch"
)
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")
# Libraries through which Spark's reports come, classic and Connect.
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
# Java allows clocks a minute apart, and calls what is beyond it a bug of its own.
_CLOCK_SKEW = re.compile(
    r"Invalid (?:update|snapshot) timestamp|Expected sorted (?:snapshot|previous metadata) log entries"
)
# Data exception, syntax error or access rule violation, feature not supported.
_STATES_OF_SQL = ("22", "42", "0A")


@contextmanager
def translated(table: str, *, operation_id: str = "", work: str = "") -> Iterator[None]:
    """Raise floe's errors for what Spark reports about a table.

    Args:
        table: The table.
        operation_id: The operation that may have landed nevertheless.
        work: What Spark was asked to do, such as ``write``; whatever it reports is then an ``EngineError`` at least.
            Without it, what has no better name rises as it is.
    """
    try:
        yield
    except FloeStorageError:
        raise
    except Exception as err:
        better = _better(err, table, operation_id) or (_failed(err, table, work) if work else None)
        if better is None:
            raise
        raise better from err


def _failed(err: Exception, table: str, work: str) -> EngineError | None:
    """Describe what Spark reports and floe has no name for, such as a failed function of the caller's own."""
    if not isinstance(err, PySparkException) and type(err).__module__.partition(".")[0] not in _BRIDGES:
        return None
    msg = f"Spark failed to {work} '{table}': {redact_text(reason_of(err)).rstrip('.')}."
    return EngineError(msg, hint="The cause of this error has Spark's whole report.", table=table)


def mistake_in_sql(err: Exception) -> str | None:
    """Return what is wrong with an expression that somebody wrote; None when Spark failed for another reason."""
    if not isinstance(err, PySparkException) or err.getCondition() in _MISSING_TABLE:
        return None
    state = err.getSqlState() or ""
    return without_sql_state(reason_of(err)) if state.startswith(_STATES_OF_SQL) else None


def reason_of(err: BaseException) -> str:
    """Return the first line that says what happened."""
    return reason_in(str(err))


def _better(err: Exception, table: str, operation_id: str) -> FloeStorageError | None:
    text = str(err)
    if found := _of_iceberg(err, text, table, operation_id):
        return found
    if _FULL.search(text):
        hint = "Free space or raise the quota, of the warehouse or of Spark's scratch folder; the table is as it was."
        return StorageFullError(f"The storage is full: {reason_of(err)}", hint=hint, table=table)
    if _DENIED.search(text):
        hint = "Check storage.credentials in floe.yaml, or the store's policy when the catalog vends credentials."
        msg = f"The storage refuses access to Spark: {redact_text(reason_of(err))}"
        return StorageAuthenticationError(msg, hint=hint, table=table)
    # The bridge to a classic driver has errors of its own, in a package that only PySpark depends on.
    if type(err).__name__ == "Py4JNetworkError" or isinstance(err, ConnectionError) or _LOST_ENGINE.search(text):
        msg = "Spark died or lost its driver during the operation."
        hint = (
            "If it ran out of memory, raise compute.driver_memory; a local server is restarted with: floe spark start"
        )
        return EngineUnavailableError(msg, hint=hint, table=table)
    return _of_spark(err, text, table)


def _of_iceberg(err: Exception, text: str, table: str, operation_id: str) -> FloeStorageError | None:
    names = set(_ICEBERG_EXCEPTION.findall(text))
    if "CommitStateUnknownException" in names or (operation_id and _LOST_POST.search(text)):
        msg = f"Spark cannot tell whether its commit to '{table}' landed."
        return CommitStateUnknownError(msg, operation_id=operation_id, table=table)
    if "NoSuchTableException" in names:
        return _missing_table(table)
    if "CommitFailedException" in names or ("ValidationException" in names and _CONFLICT.search(text)):
        return ConcurrencyConflictError(f"Spark's commit to '{table}' lost: {reason_of(err)}", table=table)
    if found := _of_catalog(err, names, table):
        return found
    if _CLOCK_SKEW.search(text):
        msg = f"Table '{table}' was changed by a writer whose clock is ahead of Spark's: {reason_of(err)}"
        return ClockSkewError(msg, hint="Set the clocks of all writers (NTP), and try again later.", table=table)
    return None


def _of_catalog(err: Exception, names: set[str], table: str) -> FloeStorageError | None:
    if "NotAuthorizedException" in names:
        # What the server says of a login is for the log alone.
        _log.warning("spark.authenticate.refused", table=table, said=reason_of(err))
        msg = "The catalog does not accept Spark's credentials."
        return CatalogAuthenticationError(msg, hint="Check catalog.credentials in floe.yaml.", table=table)
    for name, (kind, what) in _OF_CATALOG.items():
        if name in names:
            return kind(f"{what}: {reason_of(err)}", table=table)
    return None


def _of_spark(err: Exception, text: str, table: str) -> FloeStorageError | None:
    condition = (err.getCondition() if isinstance(err, PySparkException) else None) or ""
    if condition in _MISSING_TABLE:
        return _missing_table(table)
    if _TIME_TYPE.search(text):
        msg = f"'{table}' has a column of type time, which Spark cannot hold."
        return CapabilityError(msg, hint="Use the arrow engine for this table.", table=table)
    if _MISSING_REF.search(text):
        return RefNotFoundError(f"'{table}': {reason_of(err)}", table=table)
    if _MISSING_SNAPSHOT.search(text):
        return SnapshotNotFoundError(f"'{table}': {reason_of(err)}", table=table)
    if _UNFIT_DATA.match(condition):
        unfit = InvalidDataError(f"The data does not fit '{table}': {reason_of(err)}", table=table)
        unfit.nulls = condition.startswith("NOT_NULL_ASSERT_VIOLATION")
        return unfit
    return None


def _missing_table(table: str) -> TableNotFoundError:
    return TableNotFoundError(f"Table '{table}' not found.", table=table)
