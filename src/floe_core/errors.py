"""All errors that floe raises deliberately.

All errors share one base class; the branches show what a caller can do about an error::

    FloeStorageError
    ├── ConfigurationError              floe.yaml, artifacts, arguments: fix the input
    │   ├── SchemaVersionError          written by a newer floe, or too old to load
    │   ├── SecretReferenceError        ${VAR} or secret_ref that cannot be resolved
    │   └── InvalidIdentifierError      an invalid table, namespace, branch or tenant name
    ├── PluginError
    │   ├── PluginNotFoundError
    │   ├── PluginLoadError             importing, constructing or starting it failed
    │   ├── PluginIncompatibleError     built for another plugin API
    │   └── PluginTimeoutError
    ├── MissingDependencyError          an extra is not installed; the message names it
    ├── TransientError                  retrying later can succeed
    │   ├── CatalogUnavailableError     (also CatalogConnectionError)
    │   ├── RateLimitedError            (also CatalogConnectionError) carries retry_after
    │   ├── CircuitOpenError            (also CatalogConnectionError) carries retry_at
    │   ├── DeadlineExceededError       (also CatalogConnectionError)
    │   ├── ConcurrencyConflictError    (also WriteError) other writers won until the retry budget ran out
    │   └── ClockSkewError              (also WriteError) a writer's clock is too far ahead for the engine
    ├── CatalogConnectionError
    │   ├── CatalogRequestError         the catalog rejected the request and gave a reason
    │   ├── CatalogTlsError
    │   ├── CredentialVendingError      the catalog cannot get storage credentials
    │   └── WarehouseNotFoundError
    ├── CatalogAuthenticationError      the credentials are not valid
    ├── CatalogAuthorizationError       the caller lacks a privilege
    ├── CapabilityError                 this catalog or engine does not support the operation
    ├── LegalHoldError                  a legal hold prevents removal
    ├── EngineError
    │   ├── EngineSetupError            Java, jars or settings that the engine needs are missing
    │   └── EngineUnavailableError      (also TransientError) the engine died or cannot be reached
    ├── StorageError
    │   ├── StorageAuthenticationError
    │   └── StorageFullError
    ├── NamespaceNotFoundError
    ├── NamespaceNotEmptyError
    ├── TableNotFoundError
    ├── TableExistsError
    ├── SnapshotNotFoundError
    ├── RefNotFoundError
    ├── RefExistsError
    ├── SchemaEvolutionError            carries mismatches, one per column
    ├── WriteError                      every failed write, in addition to its cause (StorageFullError, …)
    │   ├── InvalidDataError            the data cannot be converted to Iceberg rows
    │   └── CommitStateUnknownError     it is unknown whether the commit succeeded; nothing was deleted
    ├── ScanError
    │   ├── InvalidScanError            an invalid column, filter or version
    │   └── CorruptFileError            names the file
    └── MaintenanceError
        ├── MaintenanceInProgressError
        ├── SharedFilesError            gc.enabled=false: other tables may need the files
        └── UnsafeRetentionError

``exit_code`` is the exit code of the command line: 1 if the user can fix the input, 2 if the system failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from floe_core.runtime.distribution import install_hint

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

USER_ERROR = 1
SYSTEM_ERROR = 2


class FloeStorageError(Exception):
    """Base class of all errors that floe raises deliberately.

    Attributes:
        message: What happened.
        hint: How to fix it, if known.
        table: The affected table, as ``namespace.name``.
    """

    exit_code: ClassVar[int] = SYSTEM_ERROR

    def __init__(self, message: str, *, hint: str | None = None, table: str | None = None) -> None:
        """Store the message for users and the fields for callers."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.table = table

    def __str__(self) -> str:
        """Return the message with its hint."""
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Make errors picklable, regardless of their constructors' arguments."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[FloeStorageError], args: tuple[object, ...], fields: dict[str, object]) -> FloeStorageError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One mistake in a configuration file.

    Attributes:
        message: What is wrong, with the invalid value.
        file: The file, as the user named it.
        line: Line, counted from 1; 0 if the problem has no location.
        column: Column, counted from 1; 0 if the problem has no location.
        path: Path in the document, such as ``catalog.retry.max_attempts``.
        fix: What to write instead.
    """

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    fix: str = ""

    def __str__(self) -> str:
        """Render as ``file:line:column: message. fix``; a message that suggests a correction needs no fix."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        if not self.fix or self.message.endswith("?"):
            return f"{place}{self.message}"
        return f"{place}{self.message.removesuffix('.')}. {self.fix}"


class ConfigurationError(FloeStorageError):
    """The configuration is not valid; ``problems`` lists every mistake found."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(
        self,
        message: str,
        *,
        problems: Sequence[ConfigProblem] = (),
        hint: str | None = None,
        table: str | None = None,
    ) -> None:
        """Store all problems of one input."""
        super().__init__(message, hint=hint, table=table)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Return the message and every problem, one per line."""
        return "\n".join([super().__str__(), *(f"  {problem}" for problem in self.problems)])


class SchemaVersionError(ConfigurationError):
    """This version of floe cannot read the file's schema version."""


class SecretReferenceError(ConfigurationError):
    """A secret reference cannot be resolved."""


class InvalidIdentifierError(ConfigurationError, ValueError):
    """A name is not valid for a table, namespace, branch or tenant."""


class PluginError(FloeStorageError):
    """A plugin is not usable; ``plugin`` is its ``group:name``."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(self, message: str, *, plugin: str, hint: str | None = None) -> None:
        """Store the plugin's key."""
        super().__init__(message, hint=hint)
        self.plugin = plugin


class PluginNotFoundError(PluginError):
    """No installed distribution provides this plugin."""


class PluginLoadError(PluginError):
    """Importing, constructing or starting the plugin failed."""


class PluginIncompatibleError(PluginError):
    """The plugin was built for another plugin API version."""


class PluginTimeoutError(PluginError):
    """The plugin did not start or respond within its time limit."""

    exit_code: ClassVar[int] = SYSTEM_ERROR


class MissingDependencyError(FloeStorageError):
    """An optional dependency is not installed."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(self, what: str, *, extra: str) -> None:
        """Store the extra that installs the dependency."""
        super().__init__(f"{what} needs the extra '{extra}'.", hint=install_hint(extra))
        self.extra = extra


class TransientError(FloeStorageError):
    """Retrying later can succeed."""


class CatalogConnectionError(FloeStorageError):
    """The catalog could not be reached or did not respond like a catalog."""


class CatalogUnavailableError(CatalogConnectionError, TransientError):
    """The catalog is down or overloaded."""


class RateLimitedError(CatalogConnectionError, TransientError):
    """The catalog is throttling requests."""

    def __init__(self, message: str, *, retry_after: float | None = None, hint: str | None = None) -> None:
        """Store the delay that the server requested, in seconds."""
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class CircuitOpenError(CatalogConnectionError, TransientError):
    """Too many calls failed in a row; calls fail immediately until ``retry_at``."""

    def __init__(self, message: str, *, retry_at: datetime, hint: str | None = None) -> None:
        """Store the time of the next attempt."""
        super().__init__(message, hint=hint)
        self.retry_at = retry_at


class DeadlineExceededError(CatalogConnectionError, TransientError):
    """A call did not finish within its deadline."""


class CatalogRequestError(CatalogConnectionError):
    """The catalog rejected the request; the message contains its reason."""

    exit_code: ClassVar[int] = USER_ERROR


class CredentialVendingError(CatalogConnectionError):
    """The catalog cannot get storage credentials, for example because its STS is down."""


class CatalogTlsError(CatalogConnectionError):
    """The server's certificate is not trusted."""

    exit_code: ClassVar[int] = USER_ERROR


class WarehouseNotFoundError(CatalogConnectionError):
    """The catalog does not have this warehouse."""

    exit_code: ClassVar[int] = USER_ERROR


class CatalogAuthenticationError(FloeStorageError):
    """The catalog does not accept the credentials."""

    exit_code: ClassVar[int] = USER_ERROR


class CatalogAuthorizationError(FloeStorageError):
    """The caller is authenticated but lacks a privilege for the operation."""

    exit_code: ClassVar[int] = USER_ERROR


class CapabilityError(FloeStorageError):
    """This catalog or engine does not support the operation."""

    exit_code: ClassVar[int] = USER_ERROR


class LegalHoldError(FloeStorageError):
    """A legal hold prevents the removal."""

    exit_code: ClassVar[int] = USER_ERROR


class EngineError(FloeStorageError):
    """The engine of the data plane failed; the table is not the cause."""


class EngineSetupError(EngineError):
    """Something that the engine needs is missing or incompatible."""

    exit_code: ClassVar[int] = USER_ERROR


class EngineUnavailableError(EngineError, TransientError):
    """The engine died, ran out of memory, or cannot be reached."""


class StorageError(FloeStorageError):
    """The object store or file system failed."""


class StorageAuthenticationError(StorageError):
    """The object store does not accept the credentials."""

    exit_code: ClassVar[int] = USER_ERROR


class StorageFullError(StorageError):
    """The disk is full or the bucket's quota is exhausted."""


class NamespaceNotFoundError(FloeStorageError):
    """The namespace does not exist."""

    exit_code: ClassVar[int] = USER_ERROR


class NamespaceNotEmptyError(FloeStorageError):
    """The namespace still contains tables or namespaces."""

    exit_code: ClassVar[int] = USER_ERROR


class TableNotFoundError(FloeStorageError):
    """The table does not exist in the catalog."""

    exit_code: ClassVar[int] = USER_ERROR


class TableExistsError(FloeStorageError):
    """A table with that name already exists."""

    exit_code: ClassVar[int] = USER_ERROR


class SnapshotNotFoundError(FloeStorageError):
    """The table has no such snapshot, or no snapshot that old."""

    exit_code: ClassVar[int] = USER_ERROR


class RefNotFoundError(FloeStorageError):
    """The table has no such branch or tag."""

    exit_code: ClassVar[int] = USER_ERROR


class RefExistsError(FloeStorageError):
    """A branch or tag with that name already exists."""

    exit_code: ClassVar[int] = USER_ERROR


@dataclass(frozen=True, slots=True)
class ColumnMismatch:
    """One column that prevents a schema change or a write.

    Attributes:
        column: Full name, dotted for nested fields.
        table_type: Type in the table; None if the table does not have the column.
        data_type: Type in the data; None if the data does not have the column.
        reason: Why the two are incompatible.
    """

    column: str
    table_type: str | None
    data_type: str | None
    reason: str

    def __str__(self) -> str:
        """Render as ``column: table has X, data has Y (reason)``."""
        table = self.table_type or "no such column"
        data = self.data_type or "no such column"
        return f"{self.column}: table has {table}, data has {data} ({self.reason})"


class SchemaEvolutionError(FloeStorageError):
    """The schema cannot be changed that way; ``mismatches`` has one entry per column."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(
        self,
        message: str,
        *,
        mismatches: Sequence[ColumnMismatch] = (),
        hint: str | None = None,
        table: str | None = None,
    ) -> None:
        """Store the incompatible columns."""
        super().__init__(message, hint=hint, table=table)
        self.mismatches = tuple(mismatches)

    def __str__(self) -> str:
        """Return the message and every column, one per line."""
        return "\n".join([super().__str__(), *(f"  {mismatch}" for mismatch in self.mismatches)])


class WriteError(FloeStorageError):
    """A write failed; the table is unchanged. A more specific type gives the cause, such as a full disk."""


class InvalidDataError(WriteError):
    """The data cannot be converted to Iceberg rows.

    Attributes:
        nulls: Whether the engine rejected nulls in a required column; making the column optional fixes that.
    """

    nulls: bool = False
    exit_code: ClassVar[int] = USER_ERROR


class ConcurrencyConflictError(WriteError, TransientError):
    """Other writers won every race until the commit budget ran out; nothing was written."""


class ClockSkewError(WriteError, TransientError):
    """A writer whose clock is ahead changed the table, and the engine cannot write before that time."""


class CommitStateUnknownError(WriteError):
    """The outcome of the commit is unknown; look for ``operation_id`` in the table's history to determine it."""

    def __init__(self, message: str, *, operation_id: str, hint: str | None = None, table: str | None = None) -> None:
        """Store the id to look for in the table's history."""
        super().__init__(message, hint=hint, table=table)
        self.operation_id = operation_id


class ScanError(FloeStorageError):
    """A read failed."""


class InvalidScanError(ScanError):
    """The requested columns, row filter or version are not valid."""

    exit_code: ClassVar[int] = USER_ERROR


class CorruptFileError(ScanError):
    """A file of the table is corrupted or missing; ``path`` names it."""

    def __init__(self, message: str, *, path: str, hint: str | None = None, table: str | None = None) -> None:
        """Store the file's path."""
        super().__init__(message, hint=hint, table=table)
        self.path = path


class MaintenanceError(FloeStorageError):
    """A maintenance operation failed; the table's content is unchanged."""


class MaintenanceInProgressError(MaintenanceError):
    """Another maintenance run is working on the table."""

    exit_code: ClassVar[int] = USER_ERROR


class SharedFilesError(MaintenanceError):
    """The table shares its files with other tables, so they must not be deleted."""

    exit_code: ClassVar[int] = USER_ERROR


class UnsafeRetentionError(MaintenanceError):
    """The requested age is below the declared retention, or so short that a running write could lose files."""

    exit_code: ClassVar[int] = USER_ERROR


def is_retryable(err: BaseException) -> bool:
    """Whether the same call can succeed shortly afterwards.

    An open circuit breaker fails until its next attempt is due, and a lost commit race needs a new base, so neither is
    retryable.
    """
    if isinstance(err, CircuitOpenError | ConcurrencyConflictError):
        return False
    return isinstance(err, TransientError | ConnectionError | TimeoutError)
