"""Options that several operations of the table manager share, by keyword."""

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
    from floe_iceberg.read.versions import Moment


class ManagerOptions(TypedDict, total=False):
    """Options of a table manager."""

    config: IcebergTableManagerConfig | None
    compute: DataPlane | ComputePlugin | None
    tracer: Tracer | None
    logger: FilteringBoundLogger | None


class WriteOptions(TypedDict, total=False):
    """Options of every write.

    Attributes:
        snapshot_properties: Go into the snapshot summary.
        evolve_schema: Whether the table may follow the data's schema; on by default.
        keep_required: Columns that stay required whatever the data brings; keys always do.
        operation_id: Makes the write repeatable: a second call with the same id changes nothing.
        branch: Target branch, main by default.
        engine: Who moves the rows.
        null_keys: Whether an upsert refuses null in a key or matches it with null; as the table records by default.
    """

    snapshot_properties: Mapping[str, str] | None
    evolve_schema: bool
    keep_required: Sequence[str] | None
    operation_id: str | None
    branch: str | None
    engine: Engine | None
    null_keys: NullKeys | None


class ModeOptions(WriteOptions, total=False):
    """Options of a write whose mode is settled.

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
        columns: Columns in the order they come back, dotted for nested fields; all by default.
        row_filter: Predicate as text or expression; all rows by default.
        snapshot_id: Read this snapshot.
        as_of: Read what was current at this moment; a datetime without zone is local time, a number milliseconds.
        ref: Read this branch or tag.
        limit: Most rows; reading stops as soon as there are enough.
    """

    columns: Sequence[str] | None
    row_filter: RowFilter | None
    snapshot_id: int | None
    as_of: Moment | None
    ref: str | None
    limit: int | None


class VersionOptions(TypedDict, total=False):
    """Which version to look at, the current one by default; at most one is given.

    Attributes:
        snapshot_id: A snapshot.
        as_of: What was current at a moment.
        ref: A branch or tag.
    """

    snapshot_id: int | None
    as_of: Moment | None
    ref: str | None


class FrameOptions(TypedDict, total=False):
    """Options of an engine's frame; see ``ScanOptions``."""

    columns: Sequence[str] | None
    row_filter: RowFilter | None
    snapshot_id: int | None
    as_of: Moment | None
    ref: str | None
    limit: int | None


class IncrementOptions(TypedDict, total=False):
    """Options of an incremental read.

    Attributes:
        from_snapshot: Read what came after this snapshot.
        to_snapshot: Read up to and with this one, the current one by default.
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
    """Options of bringing a table to its declaration; see ``applying.apply_declaration``."""

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

    older_than: Moment | None
    older_than_hours: float | None
    dry_run: bool
    engine: Engine | None
    allow_below_retention: bool
