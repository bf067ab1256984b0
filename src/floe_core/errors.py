"""Every error floe raises on purpose.

One base class; the branches say what a caller can do about it::

    FloeStorageError
    ├── ConfigurationError              floe.yaml, artifacts, arguments: fix the input
    │   ├── SchemaVersionError          written by a newer floe, or too old to load
    │   ├── SecretReferenceError        ${VAR} or secret_ref that resolves to nothing
    │   └── InvalidIdentifierError      a table, namespace, branch or tenant name that cannot be
    ├── PluginError
    │   ├── PluginNotFoundError
    │   ├── PluginLoadError             its import, construction or start failed
    │   ├── PluginIncompatibleError     built for another plugin API
    │   └── PluginTimeoutError
    ├── MissingDependencyError          an extra is not installed; the message names it
    ├── TransientError                  trying again later can succeed
    │   ├── CatalogUnavailableError     (also CatalogConnectionError)
    │   ├── RateLimitedError            (also CatalogConnectionError) carries retry_after
    │   ├── CircuitOpenError            (also CatalogConnectionError) carries retry_at
    │   ├── DeadlineExceededError       (also CatalogConnectionError)
    │   ├── ConcurrencyConflictError    (also WriteError) another writer won within the whole budget
    │   └── ClockSkewError              (also WriteError) a writer's clock is too far ahead for the engine
    ├── CatalogConnectionError
    │   ├── CatalogRequestError         the catalog rejects what it was asked for, and says why
    │   ├── CatalogTlsError
    │   ├── CredentialVendingError      the catalog cannot get storage credentials
    │   └── WarehouseNotFoundError
    ├── CatalogAuthenticationError      who are you
    ├── CatalogAuthorizationError       you may not
    ├── CapabilityError                 this catalog or engine cannot do that
    ├── LegalHoldError                  what is held may not be removed
    ├── EngineError
    │   ├── EngineSetupError            Java, jars or settings the engine needs are not there
    │   └── EngineUnavailableError      (also TransientError) the engine died, or cannot be reached
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
    ├── SchemaEvolutionError            carries mismatches, one a column
    ├── WriteError                      every failed write, beside what made it fail (StorageFullError, …)
    │   ├── InvalidDataError            the data cannot become Iceberg rows
    │   └── CommitStateUnknownError     nobody can tell whether the commit landed; nothing was deleted
    ├── ScanError
    │   ├── InvalidScanError            a column, filter or version that cannot be
    │   └── CorruptFileError            names the file
    └── MaintenanceError
        ├── MaintenanceInProgressError
        ├── SharedFilesError            gc.enabled=false: other tables may need the files
        └── UnsafeRetentionError

``exit_code`` is what the command line exits with: 1 when the user can fix the input, 2 when the system failed.
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
    """Base of all errors floe raises on purpose.

    Attributes:
        message: What happened, for a person.
        hint: The way out, when there is one.
        table: The table concerned, as ``namespace.name``.
    """

    exit_code: ClassVar[int] = SYSTEM_ERROR

    def __init__(self, message: str, *, hint: str | None = None, table: str | None = None) -> None:
        """Keep the message for people and the fields for callers."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.table = table

    def __str__(self) -> str:
        """Give the message with its way out."""
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Let errors cross process boundaries, whatever their constructors ask for."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[FloeStorageError], args: tuple[object, ...], fields: dict[str, object]) -> FloeStorageError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One mistake in a configuration file.

    Attributes:
        message: What is wrong, with the offending value.
        file: The file as the user named it.
        line: Line, counted from 1; 0 when the problem has no place.
        column: Column, counted from 1; 0 when the problem has no place.
        path: Where in the document, as ``catalog.retry.max_attempts``.
        fix: What to write instead.
    """

    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""
    fix: str = ""

    def __str__(self) -> str:
        """Render as ``file:line:column: message. fix``."""
        place = f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: " if self.file else ""
        stop = "" if self.message.endswith(("?", ".")) else "."
        return f"{place}{self.message}{f'{stop} {self.fix}' if self.fix else ''}"


class ConfigurationError(FloeStorageError):
    """The configuration cannot be used; ``problems`` lists every mistake found."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(
        self,
        message: str,
        *,
        problems: Sequence[ConfigProblem] = (),
        hint: str | None = None,
        table: str | None = None,
    ) -> None:
        """Collect all problems of one input."""
        super().__init__(message, hint=hint, table=table)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Give the message and every problem, one a line."""
        return "\n".join([super().__str__(), *(f"  {problem}" for problem in self.problems)])


class SchemaVersionError(ConfigurationError):
    """The file's schema version is one this floe cannot read."""


class SecretReferenceError(ConfigurationError):
    """A secret reference leads nowhere."""


class InvalidIdentifierError(ConfigurationError, ValueError):
    """A name cannot be used for a table, namespace, branch or tenant."""


class PluginError(FloeStorageError):
    """A plugin cannot be used; ``plugin`` is its ``group:name``."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(self, message: str, *, plugin: str, hint: str | None = None) -> None:
        """Name the plugin."""
        super().__init__(message, hint=hint)
        self.plugin = plugin


class PluginNotFoundError(PluginError):
    """No installed distribution offers this plugin."""


class PluginLoadError(PluginError):
    """The plugin's import, construction or start failed."""


class PluginIncompatibleError(PluginError):
    """The plugin was built for another plugin API version."""


class PluginTimeoutError(PluginError):
    """The plugin did not start or answer within its limit."""

    exit_code: ClassVar[int] = SYSTEM_ERROR


class MissingDependencyError(FloeStorageError):
    """An optional dependency is not installed."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(self, what: str, *, extra: str) -> None:
        """Name the extra that brings the dependency."""
        super().__init__(f"{what} needs the extra '{extra}'.", hint=install_hint(extra))
        self.extra = extra


class TransientError(FloeStorageError):
    """Trying again later can succeed."""


class CatalogConnectionError(FloeStorageError):
    """The catalog could not be reached or did not answer as a catalog."""


class CatalogUnavailableError(CatalogConnectionError, TransientError):
    """The catalog is down or overloaded."""


class RateLimitedError(CatalogConnectionError, TransientError):
    """The catalog asks to slow down."""

    def __init__(self, message: str, *, retry_after: float | None = None, hint: str | None = None) -> None:
        """Keep the seconds the server asked for."""
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class CircuitOpenError(CatalogConnectionError, TransientError):
    """Too many calls failed in a row; calls fail at once until ``retry_at``."""

    def __init__(self, message: str, *, retry_at: datetime, hint: str | None = None) -> None:
        """Keep the moment of the next try."""
        super().__init__(message, hint=hint)
        self.retry_at = retry_at


class DeadlineExceededError(CatalogConnectionError, TransientError):
    """A call did not answer within its deadline."""


class CatalogRequestError(CatalogConnectionError):
    """The catalog rejects what it was asked for; the message has its words."""

    exit_code: ClassVar[int] = USER_ERROR


class CredentialVendingError(CatalogConnectionError):
    """The catalog was asked for storage credentials and cannot get any, such as when its STS is down."""


class CatalogTlsError(CatalogConnectionError):
    """The server's certificate is not trusted."""

    exit_code: ClassVar[int] = USER_ERROR


class WarehouseNotFoundError(CatalogConnectionError):
    """The catalog does not know the warehouse."""

    exit_code: ClassVar[int] = USER_ERROR


class CatalogAuthenticationError(FloeStorageError):
    """The catalog does not accept the credentials."""

    exit_code: ClassVar[int] = USER_ERROR


class CatalogAuthorizationError(FloeStorageError):
    """The catalog knows the caller and refuses the operation."""

    exit_code: ClassVar[int] = USER_ERROR


class CapabilityError(FloeStorageError):
    """This catalog or engine cannot do what was asked."""

    exit_code: ClassVar[int] = USER_ERROR


class LegalHoldError(FloeStorageError):
    """A legal hold forbids to remove this."""

    exit_code: ClassVar[int] = USER_ERROR


class EngineError(FloeStorageError):
    """The engine of the data plane failed, not the table."""


class EngineSetupError(EngineError):
    """Something the engine needs is not there or does not fit."""

    exit_code: ClassVar[int] = USER_ERROR


class EngineUnavailableError(EngineError, TransientError):
    """The engine died, ran out of memory, or cannot be reached."""


class StorageError(FloeStorageError):
    """The object store or file system failed."""


class StorageAuthenticationError(StorageError):
    """The object store does not accept the credentials."""

    exit_code: ClassVar[int] = USER_ERROR


class StorageFullError(StorageError):
    """The disk is full or the bucket's quota is reached."""


class NamespaceNotFoundError(FloeStorageError):
    """The namespace does not exist."""

    exit_code: ClassVar[int] = USER_ERROR


class NamespaceNotEmptyError(FloeStorageError):
    """The namespace still holds tables or namespaces."""

    exit_code: ClassVar[int] = USER_ERROR


class TableNotFoundError(FloeStorageError):
    """The table does not exist in the catalog."""

    exit_code: ClassVar[int] = USER_ERROR


class TableExistsError(FloeStorageError):
    """A table of that name is already there."""

    exit_code: ClassVar[int] = USER_ERROR


class SnapshotNotFoundError(FloeStorageError):
    """The table has no such snapshot, or none that old."""

    exit_code: ClassVar[int] = USER_ERROR


class RefNotFoundError(FloeStorageError):
    """The table has no such branch or tag."""

    exit_code: ClassVar[int] = USER_ERROR


class RefExistsError(FloeStorageError):
    """A branch or tag of that name is already there."""

    exit_code: ClassVar[int] = USER_ERROR


@dataclass(frozen=True, slots=True)
class ColumnMismatch:
    """One column that stands in the way of a schema change or a write.

    Attributes:
        column: Full name, dotted for nested fields.
        table_type: Type in the table, None when the table lacks the column.
        data_type: Type offered, None when the data lacks the column.
        reason: Why the two do not fit.
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
    """The schema cannot change that way; ``mismatches`` has one entry a column."""

    exit_code: ClassVar[int] = USER_ERROR

    def __init__(
        self,
        message: str,
        *,
        mismatches: Sequence[ColumnMismatch] = (),
        hint: str | None = None,
        table: str | None = None,
    ) -> None:
        """Keep the columns that do not fit."""
        super().__init__(message, hint=hint, table=table)
        self.mismatches = tuple(mismatches)

    def __str__(self) -> str:
        """Give the message and every column, one a line."""
        return "\n".join([super().__str__(), *(f"  {mismatch}" for mismatch in self.mismatches)])


class WriteError(FloeStorageError):
    """A write failed; the table is as it was. A more precise type says why: the disk is full, the catalog is down."""


class InvalidDataError(WriteError):
    """The data cannot become Iceberg rows.

    Attributes:
        nulls: Whether an engine refused nulls in a required column, which may become optional for them.
    """

    nulls: bool = False
    exit_code: ClassVar[int] = USER_ERROR


class ConcurrencyConflictError(WriteError, TransientError):
    """Other writers won every race within the commit budget; nothing was written."""


class ClockSkewError(WriteError, TransientError):
    """The table was changed by a writer whose clock is ahead, and the engine refuses to write before that moment."""


class CommitStateUnknownError(WriteError):
    """The commit may or may not have landed; ``operation_id`` lets a later look decide."""

    def __init__(self, message: str, *, operation_id: str, hint: str | None = None, table: str | None = None) -> None:
        """Keep the id that the table's history can be searched for."""
        super().__init__(message, hint=hint, table=table)
        self.operation_id = operation_id


class ScanError(FloeStorageError):
    """A read failed."""


class InvalidScanError(ScanError):
    """The columns, the row filter or the version asked for cannot be."""

    exit_code: ClassVar[int] = USER_ERROR


class CorruptFileError(ScanError):
    """A file of the table is damaged or missing; ``path`` names it."""

    def __init__(self, message: str, *, path: str, hint: str | None = None, table: str | None = None) -> None:
        """Name the file."""
        super().__init__(message, hint=hint, table=table)
        self.path = path


class MaintenanceError(FloeStorageError):
    """A maintenance operation failed; the table reads as before."""


class MaintenanceInProgressError(MaintenanceError):
    """Another maintenance run holds the table."""

    exit_code: ClassVar[int] = USER_ERROR


class SharedFilesError(MaintenanceError):
    """The table shares its files with others, so they may not be deleted."""

    exit_code: ClassVar[int] = USER_ERROR


class UnsafeRetentionError(MaintenanceError):
    """The retention is so short that a running write could lose files."""

    exit_code: ClassVar[int] = USER_ERROR


def is_retryable(err: BaseException) -> bool:
    """Whether the same call can succeed a moment later.

    An open breaker has said when it will try again, and a lost commit race needs a new base rather than the same call.
    """
    if isinstance(err, CircuitOpenError | ConcurrencyConflictError):
        return False
    return isinstance(err, TransientError | ConnectionError | TimeoutError)
