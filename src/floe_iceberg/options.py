"""Keyword options of the table manager's operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import timedelta

    from opentelemetry.trace import Tracer
    from structlog.typing import FilteringBoundLogger

    from floe_core.dataplane import DataPlane
    from floe_core.declaration.drift import DriftItem
    from floe_core.governance import RetentionDays
    from floe_core.plugins import ComputePlugin
    from floe_iceberg.models import CommitStrategy, Engine, IcebergTableManagerConfig, NullKeys
    from floe_iceberg.read.predicates import RowFilter
    from floe_iceberg.read.versions import TimestampLike


class ManagerOptions(TypedDict, total=False):
    """Options of a table manager."""

    config: IcebergTableManagerConfig | None
    compute: DataPlane | ComputePlugin | None
    tracer: Tracer | None
    logger: FilteringBoundLogger | None


class WriteOptions(TypedDict, total=False):
    """Options of every write.

    Attributes:
        snapshot_properties: Properties to add to the snapshot summary.
        evolve_schema: Whether to evolve the table's schema to fit the data; True by default.
        keep_required: Columns that stay required even if the data contains nulls; keys always stay required.
        operation_id: Makes the write idempotent: a second call with the same id changes nothing.
        branch: Target branch, main by default.
        engine: The engine that writes the rows.
        null_keys: Whether an upsert refuses null in a key or matches it with null; the table's setting by default.
    """

    snapshot_properties: Mapping[str, str] | None
    evolve_schema: bool
    keep_required: Sequence[str] | None
    operation_id: str | None
    branch: str | None
    engine: Engine | None
    null_keys: NullKeys | None


class ModeOptions(WriteOptions, total=False):
    """Options of a write with a fixed mode.

    Attributes:
        commit_strategy: How the new snapshot treats manifests.
    """

    commit_strategy: CommitStrategy | None


class OverwriteOptions(ModeOptions, total=False):
    """Options of an overwrite.

    Attributes:
        overwrite_filter: Rows to replace; all by default.
    """

    overwrite_filter: RowFilter | None


class DeleteOptions(TypedDict, total=False):
    """Options of a delete; see ``WriteOptions``."""

    snapshot_properties: Mapping[str, str] | None
    operation_id: str | None
    branch: str | None
    engine: Engine | None


class ScanOptions(TypedDict, total=False):
    """Options of a read.

    Attributes:
        columns: Columns in the order of the result, dotted for nested fields; all by default.
        row_filter: Predicate as text or expression; all rows by default.
        snapshot_id: Read this snapshot.
        as_of: Read the version at this time; a datetime without a time zone is local time, an int milliseconds.
        ref: Read this branch or tag.
        limit: Maximum number of rows; reading stops once it is reached.
    """

    columns: Sequence[str] | None
    row_filter: RowFilter | None
    snapshot_id: int | None
    as_of: TimestampLike | None
    ref: str | None
    limit: int | None


class VersionOptions(TypedDict, total=False):
    """Options that select a version, the current one by default; at most one may be given.

    Attributes:
        snapshot_id: A snapshot.
        as_of: The version at this time.
        ref: A branch or tag.
    """

    snapshot_id: int | None
    as_of: TimestampLike | None
    ref: str | None


class FrameOptions(TypedDict, total=False):
    """Options of an engine's frame; see ``ScanOptions``."""

    columns: Sequence[str] | None
    row_filter: RowFilter | None
    snapshot_id: int | None
    as_of: TimestampLike | None
    ref: str | None
    limit: int | None


class IncrementOptions(TypedDict, total=False):
    """Options of an incremental read.

    Attributes:
        from_snapshot: Read rows added after this snapshot.
        to_snapshot: Read up to and including this snapshot; the current one by default.
        columns: Columns to read, all by default.
        row_filter: Rows to read, all by default.
    """

    from_snapshot: int | None
    to_snapshot: int | None
    columns: Sequence[str] | None
    row_filter: RowFilter | None


class TagOptions(TypedDict, total=False):
    """Options of a tag; see ``refs.create_tag``."""

    snapshot_id: int | None
    max_ref_age: timedelta | int | None


class BranchOptions(TagOptions, total=False):
    """Options of a branch; see ``refs.create_branch``."""

    max_snapshot_age: timedelta | int | None
    min_snapshots_to_keep: int | None


class PublishOptions(TypedDict, total=False):
    """Options of publishing a branch; see ``refs.publish_branch``."""

    to: str
    remove: bool


class ApplyOptions(TypedDict, total=False):
    """Options of applying a declaration; see ``applying.apply_declaration``."""

    drop_columns: bool
    agreed: Sequence[DriftItem] | None


class ExpiryOptions(TypedDict, total=False):
    """Options of expiry; see ``maintenance.expire_snapshots``."""

    older_than_days: float | None
    snapshot_ids: Collection[int]
    engine: Engine | None
    dry_run: bool
    retention: RetentionDays | None
    allow_below_retention: bool


class DropOptions(TypedDict, total=False):
    """Options of a drop; see ``lifecycle.drop_table``."""

    allow_below_retention: bool


class CompactionOptions(TypedDict, total=False):
    """Options of compaction; see ``maintenance.compact_table``."""

    target_file_size: int | None
    row_filter: RowFilter | None
    sort_order: Sequence[str] | None
    engine: Engine | None


class SweepOptions(TypedDict, total=False):
    """Options of orphan removal; see ``maintenance.sweep_orphans``."""

    older_than: TimestampLike | None
    older_than_hours: float | None
    dry_run: bool
    engine: Engine | None
    allow_below_retention: bool
