"""A failed write, whatever made it fail: ``except WriteError`` catches it, and so does the more precise type."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from floe_core.errors import (
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    EngineError,
    FloeStorageError,
    InvalidScanError,
    ScanError,
    StorageError,
    WriteError,
)
from floe_core.observing.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a write meets on its way. A missing table, a schema that does not fit and a mistake in the arguments are answers
# of their own: nothing was tried.
_FAILURES = (
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    EngineError,
    ScanError,
    StorageError,
)

# What a write is done with; their errors mean that it failed, whether floe has a name for them or not.
_LIBRARIES = frozenset(
    {
        "adlfs",
        "aiohttp",
        "azure",
        "botocore",
        "fsspec",
        "gcsfs",
        "google",
        "grpc",
        "pandas",
        "polars",
        "py4j",
        "pyarrow",
        "pydantic",
        "pydantic_core",
        "pyiceberg",
        "pyspark",
        "requests",
        "s3fs",
        "sqlalchemy",
        "sqlite3",
        "thrift",
        "urllib3",
    }
)

_made: dict[type[FloeStorageError], type[FloeStorageError]] = {}


@contextmanager
def failing_as_writes() -> Iterator[None]:
    """Let what fails in the block be a ``WriteError`` beside what it is already.

    An error of a library that floe has no name for becomes the cause of one. What the caller's own code raises, such as
    the source of a stream, rises as it is.
    """
    try:
        yield
    except FloeStorageError as err:
        if isinstance(err, _FAILURES) and not isinstance(err, WriteError | InvalidScanError):
            # The error itself, not a new one: its traceback and cause are those of the failure.
            err.__class__ = failed_write(type(err))  # type: ignore[assignment]  # a class below its own
        raise
    except Exception as err:
        if not is_of_library(err):
            # A function of the caller's own, such as the source of a stream: not the write failed, but what it is of.
            raise
        reason = redact_text(str(err).strip().partition("\n")[0])
        msg = f"The write failed: {type(err).__name__}{f': {reason}' if reason else ''}"
        raise WriteError(msg, hint="The cause of this error has the whole report.") from err


def is_of_library(err: Exception) -> bool:
    """Whether an error is one of a library that writes are done with, and not of the caller's own code."""
    return type(err).__module__.partition(".")[0] in _LIBRARIES


def failed_write(kind: type[FloeStorageError]) -> type[FloeStorageError]:
    """Return the type of a write that failed with an error of this type; name and exit code are those of the type."""
    if kind not in _made:
        # Threads that make it at once must agree on one.
        _made.setdefault(kind, _both(kind))
    return _made[kind]


def _both(kind: type[FloeStorageError]) -> type[FloeStorageError]:
    namespace: dict[str, Any] = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__reduce__": _reduced,
    }
    return type(kind.__name__, (kind, WriteError), namespace)


def _reduced(err: FloeStorageError) -> tuple[object, ...]:
    # A type that is made on the way has no address; another process makes it again.
    return _restored, (type(err).__bases__[0], err.args, err.__dict__)


def _restored(kind: type[FloeStorageError], args: tuple[object, ...], fields: dict[str, object]) -> FloeStorageError:
    made = failed_write(kind)
    err = made.__new__(made, *args)
    err.__dict__.update(fields)
    return err
