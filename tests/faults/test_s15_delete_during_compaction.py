"""S15: a delete during a compaction; deleted rows stay deleted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

from floe_core.errors import ConcurrencyConflictError
from floe_iceberg import maintenance
from floe_iceberg.read import scan

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def events(new_table, name):
    """Eight files of ten rows."""
    table = new_table(name, SCHEMA)
    for start in range(0, 80, 10):
        table.append(pa.table({"id": list(range(start, start + 10))}, schema=SCHEMA))
    return table


def ids(context, name):
    return sorted(scan.scan(context, name).column("id").to_pylist())


def live_paths(context, name):
    return {task.file.file_path for task in context.load(name).scan().plan_files()}


class _PositionDeletes(_FastAppendFiles):
    """Adds a delete manifest, which PyIceberg itself cannot write yet."""

    def _process_manifests(self, manifests):
        writer = self.new_manifest_writer(self._transaction.table_metadata.spec())
        writer.content = lambda: ManifestContent.DELETES
        with writer:
            from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=self.delete_file
                )
            )
        assert isinstance(writer, ManifestWriterV2)
        return [*manifests, writer.to_manifest_file()]


def delete_by_position(table, data_file, positions):
    """Delete rows as Spark's merge-on-read does: a delete file that names a data file and places in it."""
    path = f"{table.location()}/data/deletes-{positions[0]}.parquet"
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
        ]
    )
    rows = pa.table({"file_path": [data_file.file_path] * len(positions), "pos": positions}, schema=schema)
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    with table.transaction() as transaction:
        producer = _PositionDeletes(operation=Operation.APPEND, transaction=transaction, io=table.io)
        producer.delete_file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(positions),
            file_size_in_bytes=len(table.io.new_input(path)),
        )
        producer.commit()


def test_s15_a_copy_on_write_delete_wins_and_the_rest_is_compacted(site, context, events, name, before_the_swap):
    other = site.open_context()
    before_the_swap(lambda: other.load(name).delete(EqualTo("id", 35)))
    maintenance.compact_table(context, name)
    assert ids(context, name) == [number for number in range(80) if number != 35]
    assert len(live_paths(context, name)) == 1


def test_s15_a_delete_of_whole_files_wins(site, context, events, name, before_the_swap):
    other = site.open_context()
    before_the_swap(lambda: other.load(name).delete("id >= 40"))
    maintenance.compact_table(context, name)
    assert ids(context, name) == [*range(40)]


def test_s15_a_merge_on_read_delete_wins(site, context, events, name, before_the_swap):
    other = site.open_context()
    victim = next(iter(other.load(name).scan(row_filter="id == 35").plan_files())).file
    before_the_swap(lambda: delete_by_position(other.load(name), victim, [5]))
    maintenance.compact_table(context, name)
    assert ids(context, name) == [number for number in range(80) if number != 35]


def test_s15_compaction_applies_the_delete_files_there_are(context, events, name):
    victim = next(iter(events.scan(row_filter="id == 35").plan_files())).file
    delete_by_position(events, victim, [5, 6])
    expected = [number for number in range(80) if number not in {35, 36}]
    assert ids(context, name) == expected
    maintenance.compact_table(context, name)
    (task,) = list(events.refresh().scan().plan_files())
    assert task.delete_files == set()
    assert ids(context, name) == expected


def test_s15_groups_nobody_touched_are_swapped_while_the_others_wait(site, context, events, name, before_the_swap):
    with events.transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": "2200"})
    other = site.open_context()
    delete = [lambda number=number: other.load(name).delete(EqualTo("id", number)) for number in (5, 6, 7)]
    before_the_swap(*delete)
    result = maintenance.compact_table(context, name)
    assert result.snapshot_id is not None
    assert ids(context, name) == [number for number in range(80) if number not in {5, 6, 7}]


def test_s15_a_table_that_never_rests_is_left_alone_with_nothing_behind(site, context, events, name, before_the_swap):
    other = site.open_context()
    before_the_swap(*[lambda n=n: other.load(name).delete(EqualTo("id", n)) for n in (1, 12, 23, 34, 45)])
    # Every pass loses the only group.
    with pytest.raises(ConcurrencyConflictError, match="faster than they could be compacted"):
        maintenance.compact_table(context, name)
    assert ids(context, name) == [number for number in range(80) if number not in {1, 12, 23, 34, 45}]
    maintenance.expire_snapshots(context, name, older_than_days=0, retain_last=1)
    assert set(site.files_of(events, ".parquet")) == live_paths(context, name)
