"""S13: truncated Parquet files and manifests raise an error with the file's name; results are never partial."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CorruptFileError, StorageAuthenticationError, StorageError, TableNotFoundError
from floe_iceberg import maintenance
from floe_iceberg.read import scan
from floe_iceberg.read.integrity import unreadable
from floe_iceberg.table import inspection
from floe_iceberg.table.lifecycle import drop_table

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def events(new_table, name):
    table = new_table(name, SCHEMA)
    for start in (0, 1000, 2000):
        ids = list(range(start, start + 1000))
        table.append(pa.table({"id": ids, "name": [f"name {i}" for i in ids]}, schema=SCHEMA))
    return table


def cut(site, path, share):
    content = site.read(path)
    site.write(path, content[: int(len(content) * share)])


def flip(site, path):
    content = bytearray(site.read(path))
    for place in range(20, 220):
        content[place] ^= 0xFF
    site.write(path, bytes(content))


DAMAGE = {
    "gone": lambda site, path: site.remove(path),
    "empty": lambda site, path: site.write(path, b""),
    "half": lambda site, path: cut(site, path, 0.5),
    "all-but-the-end": lambda site, path: cut(site, path, 0.99),
    "garbled": flip,
}


def data_file(table):
    return list(table.scan().plan_files())[1].file.file_path


def manifest(table):
    return table.current_snapshot().manifests(table.io)[1].manifest_path


def manifest_list(table):
    return table.current_snapshot().manifest_list


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("which", [data_file, manifest, manifest_list])
def test_s13_every_way_to_read_names_the_damaged_file(site, context, events, which, damage):
    name, path = site.name("events"), which(events)
    damage(site, path)
    readers = [
        lambda: scan.scan(context, name),
        lambda: scan.scan(context, name, columns=["id", "name"], row_filter="id >= 0"),
        lambda: scan.scan_batches(context, name).read_all(),
        lambda: scan.incremental_scan(context, name),
    ]
    for read in readers:
        with pytest.raises(CorruptFileError) as caught:
            read()
        assert caught.value.path == path
        assert path in str(caught.value)
        assert caught.value.hint


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6, 0.8])
def test_s13_a_manifest_cut_between_two_entries_is_noticed(site, context, new_table, name, share):
    table = new_table(name, SCHEMA)
    with table.transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": "2000"})
    table.append(pa.table({"id": list(range(5000)), "name": ["x" * 20] * 5000}, schema=SCHEMA))
    path = table.current_snapshot().manifests(table.io)[0].manifest_path
    content = site.read(path)
    # PyIceberg ends every entry with the file's sync marker, so a file that is cut there is well-formed.
    marker = content[-16:]
    ends = [place + 16 for place in range(len(content) - 16) if content[place : place + 16] == marker]
    site.write(path, content[: ends[int(len(ends) * share)]])
    for look in (scan.scan, inspection.files, inspection.health):
        with pytest.raises(CorruptFileError) as caught:
            look(context, name)
        assert caught.value.path == path


@pytest.mark.parametrize(
    ("site", "damage"),
    [
        ("embedded", "half"),
        ("embedded", "empty"),
        ("embedded", "gone"),
        # The reference server retries reading a file for minutes, unless it is missing.
        pytest.param("rest", "gone", marks=pytest.mark.live),
    ],
    indirect=["site"],
)
def test_s13_a_damaged_metadata_file_is_named(site, events, name, damage):
    path = events.metadata_location
    DAMAGE[damage](site, path)
    # Another process, which has not read the file before.
    with pytest.raises(CorruptFileError) as caught:
        scan.scan(site.open_context(), name)
    assert caught.value.path == path
    # Unreadable tables can still be removed.
    context = site.open_context()
    drop_table(context, name)
    with pytest.raises(TableNotFoundError):
        context.load(name)


@pytest.mark.parametrize("which", [manifest, manifest_list])
def test_s13_maintenance_stops_before_it_changes_anything(site, context, events, name, which):
    events.delete("id < 500")
    damaged = which(events.refresh())
    cut(site, damaged, 0.5)
    before = {path: size for path, size in site.sizes(events.location()).items() if not path.endswith(".json")}
    snapshots = len(context.load(name).snapshots())
    for maintain in (
        lambda: maintenance.expire_snapshots(context, name, older_than_days=0, retain_last=1),
        lambda: maintenance.sweep_orphans(context, name, dry_run=False),
        lambda: maintenance.compact_table(context, name),
    ):
        with pytest.raises(CorruptFileError):
            maintain()
    assert {path: size for path, size in site.sizes(events.location()).items() if path in before} == before
    assert len(context.load(name).snapshots()) == snapshots


def test_s13_compaction_of_a_damaged_data_file_leaves_nothing_behind(site, context, events, name):
    path = data_file(events)
    cut(site, path, 0.5)
    before = site.files_of(events, ".parquet")
    with pytest.raises(CorruptFileError) as caught:
        maintenance.compact_table(context, name)
    assert caught.value.path == path
    assert site.files_of(events, ".parquet") == before


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
