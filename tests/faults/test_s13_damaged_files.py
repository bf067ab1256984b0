"""S13: a truncated Parquet file or manifest: an error that names the file, never a partial result."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CorruptFileError, StorageAuthenticationError, StorageError
from floe_iceberg import inspection, maintenance, reads
from floe_iceberg.corruption import unreadable
from floe_testing.embedded_tables import files_of, local_path, make_context

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def events(new_table):
    table = new_table(NAME, SCHEMA)
    for start in (0, 1000, 2000):
        ids = list(range(start, start + 1000))
        table.append(pa.table({"id": ids, "name": [f"name {i}" for i in ids]}, schema=SCHEMA))
    return table


def cut(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def flip(path):
    content = bytearray(path.read_bytes())
    for place in range(20, 220):
        content[place] ^= 0xFF
    path.write_bytes(bytes(content))


DAMAGE = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: cut(path, 0.5),
    "all-but-the-end": lambda path: cut(path, 0.99),
    "garbled": flip,
}


def data_file(table):
    return local_path(list(table.scan().plan_files())[1].file.file_path)


def manifest(table):
    return local_path(table.current_snapshot().manifests(table.io)[1].manifest_path)


def manifest_list(table):
    return local_path(table.current_snapshot().manifest_list)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("which", [data_file, manifest, manifest_list])
def test_s13_every_way_to_read_names_the_damaged_file(context, events, which, damage):
    path = which(events)
    damage(path)
    readers = [
        lambda: reads.scan(context, NAME),
        lambda: reads.scan(context, NAME, columns=["id", "name"], row_filter="id >= 0"),
        lambda: reads.scan_batches(context, NAME).read_all(),
        lambda: reads.incremental_scan(context, NAME),
    ]
    for read in readers:
        with pytest.raises(CorruptFileError) as caught:
            read()
        assert local_path(caught.value.path) == path
        assert path.name in str(caught.value)
        assert caught.value.hint


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8])
def test_s13_a_manifest_cut_between_two_entries_is_noticed(context, new_table, share):
    table = new_table(NAME, SCHEMA)
    with table.transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": "2000"})
    table.append(pa.table({"id": list(range(5000)), "name": ["x" * 20] * 5000}, schema=SCHEMA))
    path = local_path(table.current_snapshot().manifests(table.io)[0].manifest_path)
    content = path.read_bytes()
    # PyIceberg ends every entry with the file's sync marker, so that a cut there leaves a well-formed file.
    marker = content[-16:]
    ends = [place + 16 for place in range(len(content) - 16) if content[place : place + 16] == marker]
    path.write_bytes(content[: ends[int(len(ends) * share)]])
    for look in (reads.scan, inspection.files, inspection.health):
        with pytest.raises(CorruptFileError) as caught:
            look(context, NAME)
        assert local_path(caught.value.path) == path


def test_s13_a_damaged_metadata_file_is_named(context, events, tmp_path):
    for damage in (lambda path: cut(path, 0.5), lambda path: path.write_bytes(b""), lambda path: path.unlink()):
        path = local_path(events.metadata_location)
        damage(path)
        # Another process, that has not read the file before.
        fresh = make_context(tmp_path)
        with pytest.raises(CorruptFileError) as caught:
            reads.scan(fresh, NAME)
        assert local_path(caught.value.path) == path
        fresh.catalog.close()


@pytest.mark.parametrize("which", [manifest, manifest_list])
def test_s13_maintenance_stops_before_it_changes_anything(context, events, which):
    events.delete("id < 500")
    damaged = which(events.refresh())
    cut(damaged, 0.5)
    before = {path: path.stat().st_size for path in files_of(events) if path.suffix in {".parquet", ".avro"}}
    snapshots = len(context.load(NAME).snapshots())
    for maintain in (
        lambda: maintenance.expire_snapshots(context, NAME, older_than_days=0, retain_last=1),
        lambda: maintenance.sweep_orphans(context, NAME, dry_run=False),
        lambda: maintenance.compact_table(context, NAME),
    ):
        with pytest.raises(CorruptFileError):
            maintain()
    assert {path: path.stat().st_size for path in before} == before
    assert len(context.load(NAME).snapshots()) == snapshots


def test_s13_compaction_of_a_damaged_data_file_leaves_nothing_behind(context, events):
    path = data_file(events)
    cut(path, 0.5)
    before = set(files_of(events, ".parquet"))
    with pytest.raises(CorruptFileError) as caught:
        maintenance.compact_table(context, NAME)
    assert local_path(caught.value.path) == path
    assert set(files_of(events, ".parquet")) == before


def test_s13_refused_credentials_are_no_damage():
    refused = OSError(
        "When reading: AWS Error UNKNOWN (HTTP status 400): ExpiredToken: The provided token has expired."
    )
    error = unreadable("s3://lake/t/m0.avro", table="bronze.t", err=refused)
    assert isinstance(error, StorageAuthenticationError)
    assert isinstance(unreadable("s3://lake/t/m0.avro", table="bronze.t", err=OSError("cut short")), CorruptFileError)


@pytest.mark.parametrize(
    "text",
    [
        "When reading information for key 'm0.avro': AWS Error NETWORK_CONNECTION during GetObject: curlCode: 28",
        "HTTPConnectionPool(host='127.0.0.1', port=1): Read timed out. (read timeout=8.0)",
        "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))",
    ],
)
def test_s13_a_store_that_does_not_answer_is_no_damage(text):
    error = unreadable("s3://lake/t/m0.avro", table="bronze.t", err=OSError(text))
    assert type(error) is StorageError
    assert "Try again" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "Couldn't deserialize thrift: TProtocolException: Invalid data",
        "Unexpected end of stream: Page was smaller (12) than expected (40)",
        "could not verify page integrity, CRC checksum verification failed for page_ordinal 0",
    ],
)
def test_s13_a_page_that_cannot_be_decoded_is_damage(text):
    assert isinstance(unreadable("s3://lake/t/0.parquet", table="bronze.t", err=OSError(text)), CorruptFileError)
