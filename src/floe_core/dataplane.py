"""The contract between the table manager and an engine.

The manager decides what is written and whether it landed; the engine moves rows. Every method names tables as
``namespace.table`` and works once: retry, reconciliation and publishing belong to the manager's commit protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

OPERATION_ID_PROPERTY = "floe.operation-id"
# Rows that an upsert brought; an engine's own figures count the rows it copied as well.
SOURCE_ROWS_PROPERTY = "floe.source-rows"


class WriteKind(StrEnum):
    """What a write does to the rows already there."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_FILTER = "overwrite_filter"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    UPSERT = "upsert"
    DELETE = "delete"


class NullKeys(StrEnum):
    """What an upsert does with null in a key."""

    REFUSE = "refuse"
    MATCH = "match"


class CompactionKind(StrEnum):
    """How data files are rewritten."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write, to be carried out once.

    Attributes:
        table: ``namespace.table``.
        kind: What happens to the rows already there.
        data: Engine frame, or Arrow table or reader; None for a delete.
        row_filter: Rows of OVERWRITE_FILTER and DELETE; as in a ``ReadRequest``.
        keys: Columns that identify a row, for UPSERT; dotted for fields of structs.
        null_keys: Whether null in a key is refused or equals null, for UPSERT.
        branch: Target branch; None means main.
        snapshot_properties: Go into the snapshot summary, the operation id among them.
        options: Engine write options.
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
        columns: Projection, None for all; a field of a struct, by its dotted name, is a column of its own name.
        row_filter: A row filter that fits the table (``floe_iceberg``'s ``RowPredicate``), which the engine writes in
            its own language; or a predicate in the engine's SQL.
        where: A condition of a user in the engine's SQL, beside the row filter.
        snapshot_id: Snapshot to read.
        as_of: Moment to read at, with zone.
        ref: Branch or tag to read.
        start_snapshot_id: Read only what was appended after this snapshot, up to ``snapshot_id`` or now; not with
            ``as_of`` or ``ref``.
        limit: Most rows.
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


class Measure(StrEnum):
    """What an aggregate measures over rows.

    ``ROWS``: how many there are. ``NULLS``: how many have null in the column. ``REPEATED``: how many are beyond the
    first of their key; a key with a null in it is not a key. ``OUTSIDE``: how many values are below ``low`` or above
    ``high``. ``OTHER``: how many values are not among ``values``. ``VIOLATIONS``: for how many rows ``condition`` is
    false. ``NEWEST``: the newest value, in seconds since the epoch; a value without a zone is UTC. Null is never
    outside, other, or a violation.
    """

    ROWS = "rows"
    NULLS = "nulls"
    REPEATED = "repeated"
    OUTSIDE = "outside"
    OTHER = "other"
    VIOLATIONS = "violations"
    NEWEST = "newest"


# The names that lead to a column, from the top-level one down.
ColumnPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One figure over the rows of a read.

    Attributes:
        name: Its name among the figures of one pass.
        measure: What is measured.
        columns: The columns that are measured; for VIOLATIONS, those that an example shows.
        row_filter: Rows that count, as in a ``ReadRequest``; None for all.
        where: Rows that count, as a condition of a user in the engine's SQL; None for all.
        condition: What VIOLATIONS tests, in the engine's SQL.
        low: Least value that is not OUTSIDE, None for no limit.
        high: Largest value that is not OUTSIDE, None for no limit.
        values: Values that are not OTHER.
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
    """What an aggregate found.

    Attributes:
        value: The count, or the newest value; None when there is no newest one.
        example: The least of the counted values as text; of several columns, and of VIOLATIONS, a JSON object whose
            names are the columns' full names. None without any.
    """

    value: float | None
    example: str | None = None


@dataclass(frozen=True, slots=True)
class MaintenanceFigures:
    """What an engine's maintenance procedure reports; absent figures are 0."""

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
    """A branch or tag to make, or to point elsewhere.

    Attributes:
        name: Its name.
        kind: ``branch`` or ``tag``.
        snapshot_id: Where it points; None starts a branch of a table that has no snapshot.
        replace: Whether one of that name is pointed elsewhere rather than refused.
        max_ref_age_ms: Age at which expiry drops it.
        max_snapshot_age_ms: Age at which a branch's snapshots expire.
        min_snapshots_to_keep: Snapshots of a branch that are always kept.
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
        path: Names from the top-level column down.
        type: Type of an added or widened column, in floe's spelling.
        new_name: Name after a rename.
        doc: Comment.
        after: Column to stand behind; None moves a reordered one to the front.
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
        """The engine's own session, to make frames with."""
        ...

    def accepts(self, data: object) -> bool:
        """Whether the data is one of the engine's own frames; the engine is not started for the answer."""
        ...

    def gives(self, kind: type) -> bool:
        """Whether a class is that of the engine's own frames, or what they have in common.

        The engine is not started for the answer, and a class such as ``object`` is none.
        """
        ...

    def columns(self, data: object) -> tuple[str, ...]:
        """Return the names of the columns of one of the engine's own frames."""
        ...

    def empty_frame(self) -> Any:  # noqa: ANN401 - the engine's own lazy frame
        """Return a frame without columns and rows."""
        ...

    def arrow_schema(self, data: object) -> Any:  # noqa: ANN401 - a pyarrow.Schema, which floe_core does not import
        """Return the Arrow schema of one of the engine's own frames."""
        ...

    def columns_with_nulls(self, data: object, columns: Sequence[str]) -> tuple[str, ...]:
        """Return which of some columns hold null in one of the engine's own frames; the frame is computed for it."""
        ...

    def write(self, request: WriteRequest) -> None:
        """Carry out one write, or raise whatever the engine raised.

        Raises:
            InvalidDataError: The rows do not fit; ``nulls`` says that a required column was given null.
        """
        ...

    def await_quiet(self, operation_id: str, *, timeout_seconds: float = 60.0) -> None:
        """Cancel what still runs for an operation and return when nothing does."""
        ...

    def frame(self, request: ReadRequest) -> Any:  # noqa: ANN401 - the engine's own lazy frame
        """Return a lazy frame over the table."""
        ...

    def query(self, frames: Mapping[str, Any], text: Callable[[Mapping[str, str]], str]) -> Any:  # noqa: ANN401 - the engine's own lazy frame
        """Run a query whose tables are frames.

        Args:
            frames: What the query reads, by table.
            text: Makes the query out of the name that each table has in it.
        """
        ...

    def guard_rows(self, data: object, row_filter: object, *, column: str, message: str) -> Any:  # noqa: ANN401 - a frame
        """Return a frame of the same rows that fails when it is computed and a row does not pass a filter.

        Args:
            data: One of the engine's own frames.
            row_filter: Rows that are allowed; as in a ``ReadRequest``.
            column: A column that the filter reads, dotted for a field of a struct.
            message: Part of the error, whatever the engine makes of it.
        """
        ...

    def aggregate(self, request: ReadRequest, aggregates: Sequence[Aggregate]) -> dict[str, Figure]:
        """Compute figures by name in one pass over the rows of a read.

        Raises:
            InvalidScanError: A user's condition does not fit the table or its values; the message is the reason alone.
        """
        ...

    def unmatched(
        self, aggregate: Aggregate, request: ReadRequest, other: ReadRequest, other_columns: Sequence[ColumnPath]
    ) -> Figure:
        """Count the rows whose values in the columns of an aggregate are not found in columns of another read.

        A row with a null in one of the columns is not counted. The measure of the aggregate is ignored.

        Raises:
            InvalidScanError: A user's condition does not fit the table or its values; the message is the reason alone.
        """
        ...

    def repeated_keys(
        self, request: ReadRequest, keys: Sequence[ColumnPath], *, null_keys: NullKeys, limit: int
    ) -> list[tuple[Any, ...]]:
        """Return examples of keys that several rows of a read have; where null is refused, a key with null is none."""
        ...

    def added_rows(self, before: ReadRequest, after: ReadRequest, columns: Sequence[str]) -> Any:  # noqa: ANN401 - a frame
        """Return the rows that one read has and an earlier one has not, each as often as it was added.

        Args:
            before: The earlier read; its filters look at the columns that are compared.
            after: The later read; as the earlier one.
            columns: Top-level columns to compare and to return; one that a read lacks is null there.
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
        """Whether two reads differ in some columns, each row counted as often as it is there.

        Args:
            before: The earlier read; its filters look at the columns that are compared.
            after: The later read; as the earlier one.
            columns: Top-level columns to compare; one that a read lacks is null there.
            keys: With ``keyed``: only rows whose key one of the frame's rows has are compared; null equals null.
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
        """Rewrite position delete files, and drop those that no live row needs."""
        ...

    def rewrite_manifests(self, table: str) -> MaintenanceFigures:
        """Rewrite manifests into fewer, better clustered ones."""
        ...

    def files_outside(self, table: str, *, prefixes: Sequence[str], limit: int = 1000) -> tuple[str, ...]:
        """Return files of any snapshot whose location begins with none of some prefixes, or may be read in two ways."""
        ...

    def expire_snapshots(
        self, table: str, *, older_than: datetime, retain_last: int, snapshot_ids: Sequence[int] = ()
    ) -> MaintenanceFigures:
        """Expire snapshots and delete the files only they reached."""
        ...

    def remove_orphan_files(
        self, table: str, *, older_than: datetime, location: str | None = None, dry_run: bool = True
    ) -> MaintenanceFigures:
        """Find, and unless dry_run delete, files no snapshot refers to."""
        ...

    def set_ref(self, table: str, ref: RefRequest) -> None:
        """Make a branch or tag, or point one elsewhere."""
        ...

    def remove_ref(self, table: str, name: str, *, kind: str) -> None:
        """Remove a branch or tag."""
        ...

    def fast_forward(self, table: str, branch: str, *, to: str) -> None:
        """Move a branch to the head of another that has grown out of it, and refuse any other."""
        ...

    def roll_back(self, table: str, snapshot_id: int) -> None:
        """Make an earlier snapshot of main current again."""
        ...

    def set_properties(self, table: str, *, updates: Mapping[str, str], removals: Sequence[str] = ()) -> None:
        """Set and remove properties of a table."""
        ...

    def change_columns(self, table: str, changes: Sequence[ColumnRequest]) -> None:
        """Change a table's columns, one after the other."""
        ...

    def close(self) -> None:
        """Release what this plane started."""
        ...
