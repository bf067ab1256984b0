"""The contract between the table manager and an engine.

The manager decides what to write and finds out whether a commit succeeded; the engine reads and writes rows. Tables are
named ``namespace.table``. Every method makes a single attempt: the manager's commit protocol retries, reconciles and
publishes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from floe_core.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

OPERATION_ID_PROPERTY = "floe.operation-id"
# Number of rows that an upsert received; an engine's own counts include the rows that it copied.
SOURCE_ROWS_PROPERTY = "floe.source-rows"


class WriteKind(StrEnum):
    """What a write does to existing rows."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_FILTER = "overwrite_filter"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    UPSERT = "upsert"
    DELETE = "delete"


class NullKeys(StrEnum):
    """How an upsert treats null in a key."""

    REFUSE = "refuse"
    MATCH = "match"


class CompactionKind(StrEnum):
    """How data files are rewritten."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write.

    Attributes:
        table: ``namespace.table``.
        kind: What happens to existing rows.
        data: A frame of the engine, or an Arrow table or reader; None for a delete.
        row_filter: Rows to replace or delete, for OVERWRITE_FILTER and DELETE; as in a ``ReadRequest``.
        keys: Columns that identify a row, for UPSERT; dotted for nested fields.
        null_keys: How null in a key is treated, for UPSERT.
        branch: Target branch; None for main.
        snapshot_properties: Added to the snapshot summary; they include the operation id.
        options: Write options of the engine.
    """

    table: str
    kind: WriteKind
    data: object | None = None
    row_filter: object | None = None
    keys: tuple[str, ...] = ()
    null_keys: NullKeys = NullKeys.REFUSE
    branch: str | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """One read; at most one of snapshot_id, as_of and ref is set.

    Attributes:
        table: ``namespace.table``.
        columns: Columns to read; None for all. The dotted name of a struct's field reads it as a column of the field's
            name.
        row_filter: Rows to read: a filter bound to the table's schema (``RowPredicate`` of ``floe_iceberg``), which the
            engine translates, or a predicate in the engine's SQL.
        where: An additional condition from the user, in the engine's SQL.
        snapshot_id: Snapshot to read.
        as_of: Time to read at, with a time zone.
        ref: Branch or tag to read.
        start_snapshot_id: Read only rows appended after this snapshot, up to ``snapshot_id`` or the current one; not
            with ``as_of`` or ``ref``.
        limit: Maximum number of rows.

    Raises:
        CapabilityError: An incremental read has ``as_of`` or ``ref``.
    """

    table: str
    columns: tuple[str, ...] | None = None
    row_filter: object | None = None
    where: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | None = None
    ref: str | None = None
    start_snapshot_id: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        """Check the end of an incremental read."""
        if self.start_snapshot_id is not None and (self.as_of is not None or self.ref is not None):
            msg = f"An incremental read of '{self.table}' ends at a snapshot id, not at a time or ref."
            raise CapabilityError(msg, hint="Pass the id of a snapshot instead.", table=self.table)


class Measure(StrEnum):
    """What an aggregate measures.

    ``ROWS``: the number of rows. ``NULLS``: the number of nulls in the column. ``REPEATED``: the number of rows after
    the first with the same key; keys that contain null are ignored. ``OUTSIDE``: the number of values below ``low`` or
    above ``high``. ``OTHER``: the number of values that are not in ``values``. ``VIOLATIONS``: the number of rows for
    which ``condition`` is false. ``NEWEST``: the newest value in seconds since the epoch; without a time zone, as UTC.
    OUTSIDE, OTHER and VIOLATIONS do not count nulls.
    """

    ROWS = "rows"
    NULLS = "nulls"
    REPEATED = "repeated"
    OUTSIDE = "outside"
    OTHER = "other"
    VIOLATIONS = "violations"
    NEWEST = "newest"


# Names from the top-level column down to a nested field.
ColumnPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate over the rows of a read.

    Attributes:
        name: Its name, unique among the aggregates of one pass.
        measure: What to measure.
        columns: The columns to measure; for VIOLATIONS, the columns that an example shows.
        row_filter: Rows to include, as in a ``ReadRequest``; None for all.
        where: An additional condition from the user, in the engine's SQL; None for all rows.
        condition: Condition of VIOLATIONS, in the engine's SQL.
        low: Minimum of OUTSIDE, inclusive; None for no limit.
        high: Maximum of OUTSIDE, inclusive; None for no limit.
        values: Accepted values of OTHER.
    """

    name: str
    measure: Measure
    columns: tuple[ColumnPath, ...] = ()
    row_filter: object | None = None
    where: str | None = None
    condition: str | None = None
    low: float | str | None = None
    high: float | str | None = None
    values: tuple[float | str | bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """The result of an aggregate.

    Attributes:
        value: The count, or the newest value; None if there is no newest value.
        example: The smallest counted value as text; for several columns and for VIOLATIONS, a JSON object by full
            column name. None if there is no example.
    """

    value: float | None
    example: str | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceFigures:
    """Statistics reported by an engine's maintenance procedure; missing values are 0."""

    rewritten_files: int = 0
    added_files: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0
    deleted_data_files: int = 0
    deleted_delete_files: int = 0
    deleted_manifests: int = 0
    deleted_manifest_lists: int = 0
    deleted_statistics_files: int = 0
    orphan_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RefRequest:
    """A branch or tag to create or move.

    Attributes:
        name: Its name.
        kind: ``branch`` or ``tag``.
        snapshot_id: Its snapshot; None creates a branch of a table without snapshots.
        replace: Whether to move an existing branch or tag of that name instead of refusing.
        max_ref_age_ms: Age at which expiry removes it.
        max_snapshot_age_ms: Age at which the snapshots of a branch expire.
        min_snapshots_to_keep: Number of snapshots of a branch that are always kept.
    """

    name: str
    kind: str
    snapshot_id: int | None
    replace: bool = False
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """One change to a table's columns.

    Attributes:
        kind: ``add``, ``widen``, ``make_optional``, ``rename``, ``reorder``, ``doc`` or ``drop``.
        path: Names from the top-level column down to a nested field.
        type: Type of an added or widened column, in the syntax of floe.yaml.
        new_name: Name after a rename.
        doc: Comment.
        after: Column before the reordered one; None moves it to the front.
    """

    kind: str
    path: tuple[str, ...]
    type: str | None = None
    new_name: str | None = None
    doc: str | None = None
    after: str | None = None


@runtime_checkable
class DataPlane(Protocol):
    """An engine bound to one catalog."""

    @property
    def name(self) -> str:
        """The engine's name in logs, such as ``spark``."""
        ...

    @property
    def session(self) -> Any:  # noqa: ANN401 - the engine's own session
        """The engine's own session, for creating frames."""
        ...

    def accepts(self, data: object) -> bool:
        """Whether the data is one of the engine's own frames; does not start the engine."""
        ...

    def gives(self, kind: type) -> bool:
        """Whether a class is the class of the engine's own frames, or their common base class.

        Does not start the engine. General classes such as ``object`` do not count.
        """
        ...

    def columns(self, data: object) -> tuple[str, ...]:
        """Return the column names of one of the engine's own frames."""
        ...

    def empty_frame(self) -> Any:  # noqa: ANN401 - the engine's own lazy frame
        """Return a frame without columns or rows."""
        ...

    def arrow_schema(self, data: object) -> Any:  # noqa: ANN401 - a pyarrow.Schema, which floe_core does not import
        """Return the Arrow schema of one of the engine's own frames."""
        ...

    def columns_with_nulls(self, data: object, columns: Sequence[str]) -> tuple[str, ...]:
        """Compute one of the engine's own frames, and return those of the given columns that contain nulls."""
        ...

    def write(self, request: WriteRequest) -> None:
        """Carry out one write; errors of the engine are raised unchanged.

        Raises:
            InvalidDataError: The rows do not fit; ``nulls`` is set if a required column contains nulls.
        """
        ...

    def await_quiet(self, operation_id: str, *, timeout_seconds: float = 60.0) -> None:
        """Cancel the work that is still running for an operation, and return when none is left."""
        ...

    def frame(self, request: ReadRequest) -> Any:  # noqa: ANN401 - the engine's own lazy frame
        """Return a lazy frame over the table."""
        ...

    def query(self, frames: Mapping[str, Any], text: Callable[[Mapping[str, str]], str]) -> Any:  # noqa: ANN401 - the engine's own lazy frame
        """Run a query over frames.

        Args:
            frames: The frames by table.
            text: Returns the query, given the name to use for each table.
        """
        ...

    def guard_rows(self, data: object, row_filter: object, *, column: str, message: str) -> Any:  # noqa: ANN401 - a frame
        """Return a frame of the same rows whose computation fails if a row does not match a filter.

        Args:
            data: One of the engine's own frames.
            row_filter: Rows that are allowed; as in a ``ReadRequest``.
            column: A column that the filter uses; dotted for a nested field.
            message: Text that the error contains.
        """
        ...

    def aggregate(self, request: ReadRequest, aggregates: Sequence[Aggregate]) -> dict[str, Figure]:
        """Compute aggregates in one pass over the rows of a read; return the results by name.

        Raises:
            InvalidScanError: The user's condition does not fit the table or its values; the message is only the reason.
        """
        ...

    def unmatched(
        self, aggregate: Aggregate, request: ReadRequest, other: ReadRequest, other_columns: Sequence[ColumnPath]
    ) -> Figure:
        """Count the rows whose values in the columns of an aggregate do not occur in columns of another read.

        A row with a null in one of the columns is not counted. The measure of the aggregate is ignored.

        Raises:
            InvalidScanError: The user's condition does not fit the table or its values; the message is only the reason.
        """
        ...

    def repeated_keys(
        self, request: ReadRequest, keys: Sequence[ColumnPath], *, null_keys: NullKeys, limit: int
    ) -> list[tuple[Any, ...]]:
        """Return examples of duplicate keys in a read; if nulls are refused, keys that contain null are ignored."""
        ...

    def added_rows(self, before: ReadRequest, after: ReadRequest, columns: Sequence[str]) -> Any:  # noqa: ANN401 - a frame
        """Return the rows of one read that an earlier one lacks, each as often as it was added.

        Args:
            before: The earlier read; its filters use only compared columns.
            after: The later read; its filters use only compared columns.
            columns: Top-level columns to compare and return; a column that a read lacks is null there.
        """
        ...

    def rows_changed(
        self,
        before: ReadRequest,
        after: ReadRequest,
        columns: Sequence[str],
        *,
        keys: Sequence[ColumnPath] = (),
        keyed: object | None = None,
    ) -> bool:
        """Whether two reads differ in the given columns, including how often each row occurs.

        Args:
            before: The earlier read; its filters use only compared columns.
            after: The later read; its filters use only compared columns.
            columns: Top-level columns to compare; a column that a read lacks is null there.
            keys: With ``keyed``: compare only rows whose key occurs in that frame; null equals null.
            keyed: One of the engine's own frames.
        """
        ...

    def read_arrow(self, request: ReadRequest) -> Any:  # noqa: ANN401 - a pyarrow.Table, which floe_core does not import
        """Read rows as an Arrow table.

        Raises:
            InvalidScanError: A user's condition does not fit the table or its values; the message is the reason alone.
        """
        ...

    def rewrite_data_files(
        self,
        table: str,
        *,
        kind: CompactionKind,
        order: Sequence[str] = (),
        row_filter: object | None = None,
        options: Mapping[str, str] | None = None,
    ) -> MaintenanceFigures:
        """Rewrite data files into fewer, larger or sorted ones."""
        ...

    def rewrite_position_deletes(self, table: str) -> MaintenanceFigures:
        """Rewrite position delete files, and drop dangling deletes."""
        ...

    def rewrite_manifests(self, table: str) -> MaintenanceFigures:
        """Rewrite manifests into fewer ones, clustered by partition."""
        ...

    def files_outside(self, table: str, *, prefixes: Sequence[str], limit: int = 1000) -> tuple[str, ...]:
        """Return files of any snapshot that are outside the prefixes, or whose location is ambiguous."""
        ...

    def expire_snapshots(
        self, table: str, *, older_than: datetime, retain_last: int, snapshot_ids: Sequence[int] = ()
    ) -> MaintenanceFigures:
        """Expire snapshots and delete the files that only they use."""
        ...

    def remove_orphan_files(
        self, table: str, *, older_than: datetime, location: str | None = None, dry_run: bool = True
    ) -> MaintenanceFigures:
        """Find files that no snapshot references; delete them unless ``dry_run`` is set."""
        ...

    def set_ref(self, table: str, ref: RefRequest) -> None:
        """Create a branch or tag, or move an existing one."""
        ...

    def remove_ref(self, table: str, name: str, *, kind: str) -> None:
        """Remove a branch or tag."""
        ...

    def fast_forward(self, table: str, branch: str, *, to: str) -> None:
        """Fast-forward a branch to the head of another; refuse if that is not a descendant."""
        ...

    def roll_back(self, table: str, snapshot_id: int) -> None:
        """Make an earlier snapshot of main current again."""
        ...

    def set_properties(self, table: str, *, updates: Mapping[str, str], removals: Sequence[str] = ()) -> None:
        """Set and remove properties of a table."""
        ...

    def change_columns(self, table: str, changes: Sequence[ColumnRequest]) -> None:
        """Apply changes to a table's columns in order."""
        ...

    def close(self) -> None:
        """Release the resources of this data plane."""
        ...
