"""Parameter and result types of the table manager."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from floe_core.dataplane import CompactionKind, NullKeys
from floe_core.errors import InvalidIdentifierError
from floe_core.schemas import TableConfig
from floe_iceberg.names import is_usable

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

__all__ = [
    "BranchInfo",
    "CommitStrategy",
    "CompactionResult",
    "CompactionStrategy",
    "Engine",
    "ExpiredSnapshots",
    "FileInfo",
    "HistoryEntry",
    "IcebergTableManagerConfig",
    "ManifestInfo",
    "ManifestRewriteResult",
    "NullKeys",
    "OrphanSweepResult",
    "PartitionInfo",
    "PurgeResult",
    "RefInfo",
    "SchemaChange",
    "SchemaChangeKind",
    "SnapshotInfo",
    "TableConfig",
    "TableHealth",
    "TableIdentifier",
    "WriteMode",
]

# Default properties of new tables.
PRODUCTION_PROPERTIES = {
    "write.target-file-size-bytes": str(128 * 1024 * 1024),
    "write.parquet.row-group-size-bytes": str(128 * 1024 * 1024),
    "write.parquet.compression-codec": "zstd",
    "history.expire.max-snapshot-age-ms": str(7 * 24 * 60 * 60 * 1000),
    "history.expire.min-snapshots-to-keep": "10",
    "commit.manifest-merge.enabled": "true",
}


class WriteMode(StrEnum):
    """How a write treats existing rows."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    UPSERT = "upsert"


class CommitStrategy(StrEnum):
    """How an append treats manifests."""

    FAST_APPEND = "fast_append"
    MERGE = "merge"


class Engine(StrEnum):
    """Engines that read and write rows."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


CompactionStrategy = CompactionKind


class Value(BaseModel):
    """Base class of immutable values."""

    model_config = ConfigDict(frozen=True)


class TableIdentifier(Value):
    """A table's full name.

    Attributes:
        namespace: Namespace, dotted if nested.
        name: Table name.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        """Format as ``namespace.name``."""
        return f"{self.namespace}.{self.name}"

    @property
    def parts(self) -> tuple[str, ...]:
        """The name as a tuple for PyIceberg."""
        return (*self.namespace.split("."), self.name)

    @classmethod
    def from_string(cls, identifier: str) -> TableIdentifier:
        """Parse ``namespace.table``.

        Raises:
            InvalidIdentifierError: The namespace is missing, or a part is empty or invalid; also a ``ValueError``.
        """
        parts = identifier.split(".")
        if len(parts) < 2 or not all(map(is_usable, parts)):  # noqa: PLR2004 - two parts
            msg = f"{identifier!r} is not a valid table name."
            hint = "Use namespace.table, such as bronze.customers, with printable characters except / \\ # ?."
            raise InvalidIdentifierError(msg, hint=hint)
        return cls(namespace=".".join(parts[:-1]), name=parts[-1])


class SnapshotInfo(Value):
    """One version of a table."""

    snapshot_id: int
    timestamp_ms: int
    operation: str
    summary: dict[str, str]
    manifest_list: str | None = None
    parent_snapshot_id: int | None = None
    sequence_number: int | None = None

    @property
    def timestamp(self) -> datetime:
        """When it was created, in local time."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000)  # noqa: DTZ006 - the contract requires local time

    @classmethod
    def nothing(cls) -> SnapshotInfo:
        """Return the result of a write without changes to a table without snapshots."""
        return cls(snapshot_id=-1, timestamp_ms=0, operation="none", summary={})

    @classmethod
    def of(cls, snapshot: Snapshot) -> SnapshotInfo:
        """Describe a PyIceberg snapshot."""
        summary = snapshot.summary
        return cls(
            snapshot_id=snapshot.snapshot_id,
            timestamp_ms=snapshot.timestamp_ms,
            operation=summary.operation.value if summary else "unknown",
            summary=dict(summary.additional_properties) if summary else {},
            manifest_list=snapshot.manifest_list,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
        )


class RefInfo(Value):
    """A branch or a tag."""

    name: str
    kind: str
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


BranchInfo = RefInfo


class SchemaChangeKind(StrEnum):
    """Kinds of schema changes."""

    ADD = "add"
    WIDEN = "widen"
    MAKE_OPTIONAL = "make_optional"
    RENAME = "rename"
    REORDER = "reorder"
    DOC = "doc"
    DROP = "drop"
    MAKE_REQUIRED = "make_required"
    CHANGE_TYPE = "change_type"


class SchemaChange(Value):
    """One change to a table's schema.

    Attributes:
        kind: Kind of the change.
        column: Full name of the column, dotted for nested fields.
        new_name: Name after a rename.
        type: Type of an added, widened or changed column: an Iceberg type, or its text.
        required: Whether an added column is required.
        doc: Comment.
        after: Column after which to move it, for a reorder; None moves it to the front.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    kind: SchemaChangeKind
    column: str
    new_name: str | None = None
    type: Any = None
    required: bool = False
    doc: str | None = None
    after: str | None = None

    @property
    def incompatible(self) -> bool:
        """Whether readers or writers of the old schema can break."""
        return self.kind in {
            SchemaChangeKind.DROP,
            SchemaChangeKind.MAKE_REQUIRED,
            SchemaChangeKind.CHANGE_TYPE,
        } or (self.kind is SchemaChangeKind.ADD and self.required)


class IcebergTableManagerConfig(Value):
    """Settings of a table manager."""

    engine: Engine = Field(default=Engine.AUTO, description="Engine that reads and writes rows.")
    commit_strategy: CommitStrategy = Field(default=CommitStrategy.FAST_APPEND, description="Default for appends.")
    commit_timeout_seconds: float = Field(
        default=300.0, gt=0, description="Time budget for retrying conflicting commits."
    )
    spark_threshold_bytes: int = Field(
        default=2 * 1024**3,
        ge=0,
        description="With engine auto, the engine of the project merges upserts of Arrow data above this size.",
    )
    stream_chunk_bytes: int = Field(default=64 * 1024**2, ge=1024**2, description="Arrow bytes of a stream to buffer.")
    default_retention_days: int = Field(default=7, ge=0, description="Default snapshot retention in days.")
    min_orphan_age_hours: float = Field(default=24.0, ge=1.0, description="Orphan removal never deletes younger files.")
    default_properties: dict[str, str] = Field(
        default_factory=lambda: dict(PRODUCTION_PROPERTIES), description="Default properties of new tables."
    )


class ExpiredSnapshots(int):
    """The number of expired snapshots, with details of deleted files.

    Attributes:
        deleted_data_files: Number of deleted data and delete files.
        deleted_manifests: Number of deleted manifests.
        deleted_manifest_lists: Number of deleted manifest lists.
        deleted_statistics_files: Number of deleted table and partition statistics files.
        deleted_bytes: Size of the deleted data files and manifests.
        snapshot_ids: Ids of the expired snapshots.
        foreign_files: Files outside the table's own locations that only these snapshots reference; they were kept.
    """

    deleted_data_files: int
    deleted_manifests: int
    deleted_manifest_lists: int
    deleted_statistics_files: int
    deleted_bytes: int
    snapshot_ids: tuple[int, ...]
    foreign_files: tuple[str, ...]

    def __new__(  # noqa: PLR0913 - counts by keyword
        cls,
        count: int,
        *,
        deleted_data_files: int = 0,
        deleted_manifests: int = 0,
        deleted_manifest_lists: int = 0,
        deleted_statistics_files: int = 0,
        deleted_bytes: int = 0,
        snapshot_ids: tuple[int, ...] = (),
        foreign_files: tuple[str, ...] = (),
    ) -> Self:
        """Create the number with its details."""
        number = super().__new__(cls, count)
        number.deleted_data_files = deleted_data_files
        number.deleted_manifests = deleted_manifests
        number.deleted_manifest_lists = deleted_manifest_lists
        number.deleted_statistics_files = deleted_statistics_files
        number.deleted_bytes = deleted_bytes
        number.snapshot_ids = snapshot_ids
        number.foreign_files = foreign_files
        return number


class CompactionResult(Value):
    """Result of a compaction."""

    strategy: CompactionKind
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rewritten_files: int
    added_files: int
    snapshot_id: int | None


class ManifestRewriteResult(Value):
    """Result of a manifest rewrite."""

    manifests_before: int
    manifests_after: int
    snapshot_id: int | None


class OrphanSweepResult(Value):
    """Unreferenced files, and whether they were deleted.

    Attributes:
        files: Locations of the files.
        total_bytes: Total size of the files.
        dry_run: Whether the files were only listed.
        older_than: Age limit; newer files were ignored.
        foreign_files: Files reached through a link in the table's folder; they were kept.
    """

    files: tuple[str, ...]
    total_bytes: int
    dry_run: bool
    older_than: datetime
    foreign_files: tuple[str, ...] = ()


class PurgeResult(Value):
    """Result of purging a table.

    Attributes:
        deleted_files: Number of files that the client deleted; a server that purges does not report its number.
        foreign_files: Files outside the table's own locations, or of tables in its folder; they were kept.
    """

    deleted_files: int = 0
    foreign_files: tuple[str, ...] = ()


class FileInfo(Value):
    """One file of a snapshot.

    Attributes:
        path: Location.
        content: ``data``, ``position deletes`` or ``equality deletes``.
        partition: Partition path; empty for an unpartitioned table.
        records: Number of rows or deletes.
        bytes: Size in storage.
        format: File format.
        spec_id: Partition spec that it was written with.
        snapshot_id: Snapshot that added it.
        sequence_number: Data sequence number.
    """

    path: str
    content: str
    partition: str
    records: int
    bytes: int
    format: str
    spec_id: int
    snapshot_id: int | None
    sequence_number: int | None


class PartitionInfo(Value):
    """Summary of one partition."""

    partition: str
    spec_id: int
    records: int
    data_files: int
    delete_files: int
    bytes: int


class ManifestInfo(Value):
    """One manifest of a snapshot."""

    path: str
    content: str
    bytes: int
    spec_id: int
    snapshot_id: int | None
    added_files: int
    existing_files: int
    deleted_files: int
    rows: int


class HistoryEntry(Value):
    """An entry of the snapshot log: a snapshot and when it became current."""

    made_current_at: datetime
    snapshot_id: int
    parent_snapshot_id: int | None
    operation: str | None
    is_current_ancestor: bool


class TableHealth(Value):
    """Summary of a table's state."""

    table: str
    rows: int
    data_files: int
    data_bytes: int
    small_files: int
    delete_files: int
    snapshots: int
    branches: int
    tags: int
    manifests: int
    metadata_bytes: int
    partitions: int
    advice: tuple[str, ...] = ()
