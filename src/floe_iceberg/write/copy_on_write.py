"""Copy-on-write rewrites: find the files with matching rows and write the remaining rows to new files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table.refs import MAIN_BRANCH

from floe_iceberg.formats.partitioning import partition_codes, record_key
from floe_iceberg.names import name_of
from floe_iceberg.read.capabilities import require_known_partitions
from floe_iceberg.read.integrity import CheckedIO, check_manifest_list, checked_plan, explain
from floe_iceberg.read.predicates import parse_row_filter
from floe_iceberg.read.rows import RowScan, require_readable
from floe_iceberg.write.data_files import Layout, write_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.read.predicates import RowFilter, RowPredicate

ReadSet = frozenset[tuple[str, frozenset[str]]]


@dataclass(frozen=True)
class Branch:
    """A branch of a table at one version.

    Attributes:
        table: The table.
        head: The branch's newest snapshot; None for an empty branch.
    """

    table: Table
    head: Snapshot | None

    @classmethod
    def of(cls, table: Table, name: str | None) -> Branch:
        """Return a branch, main by default."""
        return cls(table, table.metadata.snapshot_by_name(name or MAIN_BRANCH))

    def tasks(self, row_filter: RowFilter | None = None) -> list[FileScanTask]:
        """Return the files that may contain rows matching a filter."""
        if self.head is None:
            return []
        wanted = self.filter(row_filter, self.table.metadata)
        try:
            return checked_plan(self.table, self.table.metadata, self.head, wanted)[1]
        except Exception as err:
            raise explain(err, self.table, self.head) from err

    def filter(self, row_filter: RowFilter | None, metadata: TableMetadata) -> RowPredicate:
        """Bind a filter to the schema of one version of the table."""
        return parse_row_filter(row_filter, metadata.schema(), table=name_of(self.table))

    def files(self) -> list[DataFile]:
        """Return every data file, including files with deletes."""
        if self.head is None:
            return []
        try:
            io = self._io()
            return [
                entry.data_file
                for manifest in self.head.manifests(io)
                if manifest.content == ManifestContent.DATA
                for entry in manifest.fetch_manifest_entry(io)
                if entry.data_file.content == DataFileContent.DATA
            ]
        except Exception as err:
            raise explain(err, self.table, self.head) from err

    def rows(self, task: FileScanTask, layout: Layout, projection: Schema | None = None) -> pa.Table:
        """Read the live rows of a file, in the layout's schema or a projection of it."""
        require_readable([task], table=name_of(self.table))
        scan = RowScan(layout.metadata, self.table.io, projection or layout.schema, AlwaysTrue())
        try:
            return scan.to_table([task])
        except Exception as err:
            raise explain(err, self.table, self.head, [task]) from err

    def _io(self) -> CheckedIO:
        manifests = self.head.manifests(self.table.io) if self.head else []
        if self.head is not None:
            check_manifest_list(self.table, self.head, len(manifests))
            require_known_partitions(self.table, (manifest.partition_spec_id for manifest in manifests))
        lengths = {manifest.manifest_path: manifest.manifest_length for manifest in manifests}
        return CheckedIO(self.table.io, lengths, name_of(self.table))


def read_set(tasks: Iterable[FileScanTask]) -> ReadSet:
    """Return the files that a plan has read; two plans with the same read set have the same result."""
    return frozenset(
        (task.file.file_path, frozenset(delete.file_path for delete in task.delete_files)) for task in tasks
    )


@dataclass(frozen=True)
class Rewrite:
    """Files to remove, and the files that replace them."""

    removed: tuple[DataFile, ...] = ()
    added: tuple[DataFile, ...] = ()


def without_matching(branch: Branch, tasks: Iterable[FileScanTask], row_filter: RowFilter, layout: Layout) -> Rewrite:
    """Remove the rows that match a filter; rows for which the filter is null stay."""
    matched = branch.filter(row_filter, layout.metadata)
    pruner = matched.pruner(layout.metadata)
    removed: list[DataFile] = []
    added: list[DataFile] = []
    for task in tasks:
        # The partition values alone prove that every row matches.
        if pruner.matches_all(task.file):
            removed.append(task.file)
            continue
        rows = branch.rows(task, layout)
        kept = rows.filter(pc.invert(matched.passing(rows)))
        if kept.num_rows == rows.num_rows:
            continue
        removed.append(task.file)
        added += write_rows(layout, kept)
    return Rewrite(tuple(removed), tuple(added))


def without_partitions(branch: Branch, records: Collection[tuple[object, ...]], layout: Layout) -> Rewrite:
    """Remove partitions of the current spec; files of older specs are rewritten without their rows."""
    spec_id = layout.metadata.default_spec_id
    files = branch.files()
    removed = [file for file in files if file.spec_id == spec_id and record_key(file.partition) in records]
    added: list[DataFile] = []
    if all(file.spec_id == spec_id for file in files):
        return Rewrite(tuple(removed))
    for task in branch.tasks():
        if task.file.spec_id == spec_id:
            continue
        rows = branch.rows(task, layout)
        codes, values = partition_codes(rows, layout.spec, layout.schema)
        keep = [record_key(value) not in records for value in values]
        kept = rows.filter(pa.array([keep[code] for code in codes.tolist()]))
        if kept.num_rows < rows.num_rows:
            removed.append(task.file)
            added += write_rows(layout, kept)
    return Rewrite(tuple(removed), tuple(added))
