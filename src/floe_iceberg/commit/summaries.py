"""Snapshot summaries: added and removed files and rows, and the table's totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import SnapshotSummaryCollector, Summary

from floe_iceberg.formats.partitioning import partition_path, spec_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Operation, Snapshot

_PARTITION_SUMMARIES = "write.summary.partition-limit"
_CHANGED_PARTITIONS = "changed-partition-count"
# Each total with the metric that increases it and the metric that decreases it.
_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)


def summary_of(snapshot: Snapshot | None) -> dict[str, str]:
    """Return the summary properties of a snapshot; empty without a snapshot or summary."""
    return snapshot.summary.additional_properties if snapshot and snapshot.summary else {}


def summarize(  # noqa: PLR0913 - the parts of a summary
    metadata: TableMetadata,
    operation: Operation,
    parent: Snapshot | None,
    *,
    added: Sequence[DataFile],
    removed: Sequence[DataFile],
    properties: Mapping[str, str],
) -> Summary:
    """Return the summary of a new snapshot.

    If the parent's totals are missing or not numbers, the new totals are omitted, as in Iceberg's Java implementation.
    """
    collector = _Summaries(partition_summary_limit=int(metadata.properties.get(_PARTITION_SUMMARIES, 0)))
    specs = metadata.specs()
    schemas = {spec_id: spec_schema(metadata, spec_id) for spec_id in {file.spec_id for file in (*added, *removed)}}
    for file in added:
        collector.add_file(file, schemas[file.spec_id], specs[file.spec_id])
    for file in removed:
        collector.remove_file(file, schemas[file.spec_id], specs[file.spec_id])
    changes = collector.build()
    # PyIceberg counts 0 for unpartitioned tables, and counts partitions with equal text only once.
    changes[_CHANGED_PARTITIONS] = str(len({_partition(file) for file in (*added, *removed)}))
    return Summary(operation=operation, **{**properties, **changes, **_totals(changes, parent)})


class _Summaries(SnapshotSummaryCollector):
    """Counts changes per partition, including dates that Python cannot represent."""

    def update_partition_metrics(
        self,
        partition_spec: PartitionSpec,
        file: DataFile,
        is_add_file: bool,  # noqa: FBT001 - PyIceberg's signature
        schema: Schema,
    ) -> None:
        metrics = self.partition_metrics[partition_path(partition_spec, schema, file.partition)]
        if is_add_file:
            metrics.add_file(file)
        else:
            metrics.remove_file(file)


def _partition(file: DataFile) -> tuple[object, ...]:
    return (file.spec_id, *(repr(file.partition[position]) for position in range(len(file.partition))))


def _totals(changes: Mapping[str, str], parent: Snapshot | None) -> dict[str, str]:
    if parent is None:
        before: Mapping[str, str] = dict.fromkeys((total for total, _, _ in _TOTALS), "0")
    else:
        before = summary_of(parent)
    totals = {}
    for name, plus, minus in _TOTALS:
        if not (known := before.get(name, "")).isdecimal():
            continue
        total = int(known) + int(changes.get(plus, 0)) - int(changes.get(minus, 0))
        if total >= 0:
            totals[name] = str(total)
    return totals
