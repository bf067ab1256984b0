"""Errors of failed writes, which ``except WriteError`` and the type of the cause both catch."""

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

# Errors that mean an attempted write failed. A missing table, an incompatible schema and invalid arguments are not
# among them: nothing was attempted.
_FAILURES = (
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    EngineError,
    ScanError,
    StorageError,
)

# The libraries that perform writes; their errors mean that the write failed, even if floe does not translate them.
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
    """Turn errors raised in the block into ``WriteError``, in addition to their own type.

    An untranslated library error becomes the cause of a ``WriteError``. Errors of the caller's own code, such as the
    source of a stream, propagate unchanged.
    """
    try:
        yield
    except FloeStorageError as err:
        if isinstance(err, _FAILURES) and not isinstance(err, WriteError | InvalidScanError):
            # Changes the error in place to keep its traceback and cause.
            err.__class__ = failed_write(type(err))  # type: ignore[assignment]  # a subclass of its own class
        raise
    except Exception as err:
        if not is_of_library(err):
            # The caller's own code failed, such as the source of a stream, not the write.
            raise
        reason = redact_text(str(err).strip().partition("\n")[0])
        msg = f"The write failed: {type(err).__name__}{f': {reason}' if reason else ''}"
        raise WriteError(msg, hint="See the cause of this error for details.") from err


def is_of_library(err: Exception) -> bool:
    """Whether an error comes from a library that performs writes, not from the caller's own code."""
    return type(err).__module__.partition(".")[0] in _LIBRARIES


def failed_write(kind: type[FloeStorageError]) -> type[FloeStorageError]:
    """Return the subclass of an error type that is also a ``WriteError``, with the same name and exit code."""
    if kind not in _made:
        # Threads that create it concurrently must agree on one class.
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
    # A class created at run time cannot be imported; the other process creates it again.
    return _restored, (type(err).__bases__[0], err.args, err.__dict__)


def _restored(kind: type[FloeStorageError], args: tuple[object, ...], fields: dict[str, object]) -> FloeStorageError:
    made = failed_write(kind)
    err = made.__new__(made, *args)
    err.__dict__.update(fields)
    return err
