"""Table inspection: files, partitions, manifests, history and health."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.utils.concurrent import ExecutorFactory

from floe_core.dataplane import CompactionKind
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.models import FileInfo, HistoryEntry, ManifestInfo, PartitionInfo, SnapshotInfo, TableHealth
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import CheckedIO, explain, load_table, manifests_of
from floe_iceberg.read.versions import ref_history, resolve, to_millis
from floe_iceberg.table.files.groups import plan_groups
from floe_iceberg.table.history.keeping import keeping_of
from floe_iceberg.table.refs import visible_refs

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.read.versions import TimestampLike, Version

_CONTENT = {
    DataFileContent.DATA: "data",
    DataFileContent.POSITION_DELETES: "position deletes",
    DataFileContent.EQUALITY_DELETES: "equality deletes",
}
_TARGET_PROPERTY = "write.target-file-size-bytes"
_DEFAULT_TARGET = 512 * 1024 * 1024
# From these counts on, the health report gives advice.
_MANY_SMALL_FILES = 10
_MANY_MANIFESTS = 50


def files(
    context: ManagerContext,
    target: TableTarget,
    *,
    snapshot_id: int | None = None,
    as_of: TimestampLike | None = None,
    ref: str | None = None,
) -> list[FileInfo]:
    """List the data and delete files of a version, by default the current one."""
    with context.operation("iceberg.files", target, snapshot_id=snapshot_id, ref=ref) as operation:
        table = load_table(context, target)
        version = resolve(table, snapshot_id=snapshot_id, as_of=as_of, ref=ref)
        entries = _entries(table, version, manifests_of(table, version.snapshot))
        operation.set(num_files=len(entries))
        return [_file_info(table, entry) for entry in entries]


def partitions(
    context: ManagerContext,
    target: TableTarget,
    *,
    snapshot_id: int | None = None,
    as_of: TimestampLike | None = None,
    ref: str | None = None,
) -> list[PartitionInfo]:
    """Summarize the partitions of a version by name; an unpartitioned table has one partition without a name."""
    with context.operation("iceberg.partitions", target, snapshot_id=snapshot_id, ref=ref):
        table = load_table(context, target)
        version = resolve(table, snapshot_id=snapshot_id, as_of=as_of, ref=ref)
        groups: dict[tuple[str, int], list[DataFile]] = defaultdict(list)
        for entry in _entries(table, version, manifests_of(table, version.snapshot)):
            groups[_partition_text(table, entry.data_file), entry.data_file.spec_id].append(entry.data_file)
        return [_partition_info(name, spec_id, members) for (name, spec_id), members in sorted(groups.items())]


def manifests(
    context: ManagerContext,
    target: TableTarget,
    *,
    snapshot_id: int | None = None,
    as_of: TimestampLike | None = None,
    ref: str | None = None,
) -> list[ManifestInfo]:
    """List the manifests of a version."""
    with context.operation("iceberg.manifests", target, snapshot_id=snapshot_id, ref=ref):
        table = load_table(context, target)
        version = resolve(table, snapshot_id=snapshot_id, as_of=as_of, ref=ref)
        found = manifests_of(table, version.snapshot, to_read=False)
        return [
            ManifestInfo(
                path=manifest.manifest_path,
                content="data" if manifest.content == ManifestContent.DATA else "deletes",
                bytes=manifest.manifest_length,
                spec_id=manifest.partition_spec_id,
                snapshot_id=manifest.added_snapshot_id,
                added_files=manifest.added_files_count or 0,
                existing_files=manifest.existing_files_count or 0,
                deleted_files=manifest.deleted_files_count or 0,
                rows=(manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0),
            )
            for manifest in found
        ]


def history(context: ManagerContext, target: TableTarget) -> list[HistoryEntry]:
    """List which snapshot was current when, newest first; a rolled-back snapshot is no longer an ancestor."""
    with context.operation("iceberg.history", target):
        table = load_table(context, target)
        main_ids = {snapshot.snapshot_id for snapshot in ref_history(table.metadata)}
        entries = []
        for logged in reversed(table.metadata.snapshot_log):
            snapshot = table.metadata.snapshot_by_id(logged.snapshot_id)
            entries.append(
                HistoryEntry(
                    made_current_at=datetime.fromtimestamp(logged.timestamp_ms / 1000, tz=UTC).astimezone(),
                    snapshot_id=logged.snapshot_id,
                    parent_snapshot_id=snapshot.parent_snapshot_id if snapshot else None,
                    operation=snapshot.summary.operation.value if snapshot and snapshot.summary else None,
                    is_current_ancestor=logged.snapshot_id in main_ids,
                )
            )
        return entries


def find_snapshot(
    context: ManagerContext,
    target: TableTarget,
    *,
    snapshot_id: int | None = None,
    as_of: TimestampLike | None = None,
    ref: str | None = None,
) -> SnapshotInfo | None:
    """Return the snapshot for an id, a timestamp, a branch or a tag; None if the table has no snapshots.

    Raises:
        SnapshotNotFoundError: The snapshot does not exist, or none is that old.
        RefNotFoundError: The branch or tag does not exist.
    """
    with context.operation("iceberg.find_snapshot", target, snapshot_id=snapshot_id, ref=ref):
        found = resolve(load_table(context, target), snapshot_id=snapshot_id, as_of=as_of, ref=ref).snapshot
        return SnapshotInfo.of(found) if found else None


def health(context: ManagerContext, target: TableTarget) -> TableHealth:
    """Summarize a table's state, with maintenance advice."""
    with context.operation("iceberg.health", target) as operation:
        table = load_table(context, target)
        version = resolve(table)
        found = manifests_of(table, version.snapshot)
        listed = [entry.data_file for entry in _entries(table, version, found)]
        data = [file for file in listed if file.content == DataFileContent.DATA]
        refs = visible_refs(table).values()
        stats = TableHealth(
            table=name_of(table),
            rows=_rows(version, data),
            data_files=len(data),
            data_bytes=sum(file.file_size_in_bytes for file in data),
            small_files=_worth_compacting(table, data),
            delete_files=len(listed) - len(data),
            snapshots=len(table.metadata.snapshots),
            branches=sum(ref.snapshot_ref_type is SnapshotRefType.BRANCH for ref in refs),
            tags=sum(ref.snapshot_ref_type is SnapshotRefType.TAG for ref in refs),
            manifests=len(found),
            metadata_bytes=_metadata_bytes(table, found),
            partitions=len({(file.spec_id, file.partition) for file in data}),
        )
        operation.set(**stats.model_dump(exclude={"table", "advice"}))
        return stats.model_copy(update={"advice": _advice(context, table, stats)})


def _entries(table: Table, version: Version, found: list[ManifestFile]) -> list[ManifestEntry]:
    io = CheckedIO(table.io, {m.manifest_path: m.manifest_length for m in found}, name_of(table))
    try:
        read = ExecutorFactory.get_or_create().map(lambda manifest: manifest.fetch_manifest_entry(io), found)
        return [entry for entries in read for entry in entries]
    except Exception as err:
        raise explain(err, table, version.snapshot) from err


def _file_info(table: Table, entry: ManifestEntry) -> FileInfo:
    file = entry.data_file
    return FileInfo(
        path=file.file_path,
        content=_CONTENT[file.content],
        partition=_partition_text(table, file),
        records=file.record_count,
        bytes=file.file_size_in_bytes,
        format=str(file.file_format.value).lower(),
        spec_id=file.spec_id,
        snapshot_id=entry.snapshot_id,
        sequence_number=entry.sequence_number,
    )


def _partition_text(table: Table, file: DataFile) -> str:
    spec = table.metadata.specs()[file.spec_id]
    return spec.partition_to_path(file.partition, table.schema()) if spec.fields else ""


def _partition_info(name: str, spec_id: int, members: list[DataFile]) -> PartitionInfo:
    data = [file for file in members if file.content == DataFileContent.DATA]
    return PartitionInfo(
        partition=name,
        spec_id=spec_id,
        records=sum(file.record_count for file in data),
        data_files=len(data),
        delete_files=len(members) - len(data),
        bytes=sum(file.file_size_in_bytes for file in members),
    )


def _rows(version: Version, data: list[DataFile]) -> int:
    # The summary has the number of deleted rows; if it is missing, delete files are not read to count them.
    summary = summary_of(version.snapshot)
    counted = sum(file.record_count for file in data)
    deleted = int(summary.get("total-position-deletes", "0") or 0)
    return max(0, counted - deleted)


def _worth_compacting(table: Table, data: list[DataFile]) -> int:
    from pyiceberg.table import FileScanTask

    target = int(table.metadata.properties.get(_TARGET_PROPERTY, _DEFAULT_TARGET))
    groups = plan_groups(
        [FileScanTask(file) for file in data],
        kind=CompactionKind.BINPACK,
        target_size=target,
        current_spec_id=table.metadata.default_spec_id,
    )
    return sum(len(group.tasks) for group in groups)


def _metadata_bytes(table: Table, found: list[ManifestFile]) -> int:
    try:
        written = len(table.io.new_input(table.metadata_location))
    except OSError:
        # A reader may have no access to the metadata of a REST catalog.
        written = 0
    return written + sum(manifest.manifest_length for manifest in found)


def _advice(context: ManagerContext, table: Table, stats: TableHealth) -> tuple[str, ...]:
    name, lines = stats.table, []
    if stats.small_files >= _MANY_SMALL_FILES:
        lines.append(
            f"{stats.small_files} of {stats.data_files} data files are worth compacting; "
            f"run: floe tables compact {name}"
        )
    if stats.delete_files:
        lines.append(f"{stats.delete_files} delete files slow down reads; apply them with: floe tables compact {name}")
    keeping = keeping_of(context, table)
    limit = to_millis(datetime.now(UTC) - keeping.age)
    old = sum(snapshot.timestamp_ms < limit for snapshot in table.metadata.snapshots)
    if old > int(table.metadata.properties.get("history.expire.min-snapshots-to-keep", "1")):
        lines.append(
            f"{old} snapshots are older than {keeping.days:g} days; expire them with: floe tables expire {name}"
        )
    if stats.manifests >= _MANY_MANIFESTS:
        lines.append(
            f"Planning a read opens {stats.manifests} manifests; "
            f"merge them with: floe tables compact {name} --manifests"
        )
    return tuple(lines)
