"""The models of the API contract."""

from datetime import date, datetime, timedelta

import pytest
from pydantic import ValidationError

import floe_iceberg
from floe_core.errors import ConfigurationError
from floe_iceberg import (
    CommitStrategy,
    ExpiredSnapshots,
    FloeStorageError,
    SchemaChange,
    SchemaChangeKind,
    SnapshotInfo,
    TableAlreadyExistsError,
    TableExistsError,
    TableIdentifier,
    WriteMode,
)
from floe_iceberg.read.versions import to_millis, to_utc

pytestmark = pytest.mark.req("API-12")


def test_an_identifier_is_read_from_text_and_written_back():
    identifier = TableIdentifier.from_string("bronze.raw.events")
    assert (identifier.namespace, identifier.name) == ("bronze.raw", "events")
    assert str(identifier) == "bronze.raw.events"
    assert identifier.parts == ("bronze", "raw", "events")


@pytest.mark.parametrize("text", ["events", "", ".", "a.", ".a", "a..b", " a.b", "a. b"])
def test_text_that_names_no_table_is_refused_as_a_value_error(text):
    with pytest.raises(ValueError, match="is not a valid table name"):
        TableIdentifier.from_string(text)


@pytest.mark.parametrize("given", [timedelta(days=7), "2026-05-04", 1.5, True, date(2026, 5, 4)])
def test_something_else_than_a_moment_is_refused(given):
    for reading in (to_millis, to_utc):
        with pytest.raises(ConfigurationError, match="not a valid time"):
            reading(given)


def test_values_are_frozen():
    with pytest.raises(ValidationError):
        TableIdentifier(namespace="a", name="b").name = "c"
    with pytest.raises(ValidationError):
        SnapshotInfo(snapshot_id=1, timestamp_ms=0, operation="append", summary={}).snapshot_id = 2


def test_a_snapshot_tells_its_moment_in_local_time():
    moment = datetime(2026, 3, 1, 12, 30, 15, 250_000)  # noqa: DTZ001 - the contract wants local time
    snapshot = SnapshotInfo(
        snapshot_id=1, timestamp_ms=round(moment.timestamp() * 1000), operation="append", summary={"added-records": "1"}
    )
    assert snapshot.timestamp == moment
    assert snapshot.manifest_list is None


def test_the_contracts_exceptions_share_one_base():
    names = ["TableNotFoundError", "TableExistsError", "SchemaEvolutionError", "WriteError", "ScanError"]
    assert all(issubclass(getattr(floe_iceberg, name), FloeStorageError) for name in names)
    assert TableAlreadyExistsError is TableExistsError


def test_modes_are_the_texts_of_the_contract():
    assert (WriteMode("append"), WriteMode("overwrite")) == (WriteMode.APPEND, WriteMode.OVERWRITE)
    assert CommitStrategy("fast_append") is CommitStrategy.FAST_APPEND


@pytest.mark.req("API-11")
def test_the_number_of_expired_snapshots_is_a_number_that_carries_figures():
    expired = ExpiredSnapshots(3, deleted_data_files=7, deleted_bytes=1024, snapshot_ids=(1, 2, 3))
    assert expired == 3
    assert expired + 1 == 4
    assert (expired.deleted_data_files, expired.deleted_bytes, expired.snapshot_ids) == (7, 1024, (1, 2, 3))


@pytest.mark.parametrize(
    ("change", "incompatible"),
    [
        (SchemaChange(kind=SchemaChangeKind.ADD, column="a", type="long"), False),
        (SchemaChange(kind=SchemaChangeKind.ADD, column="a", type="long", required=True), True),
        (SchemaChange(kind=SchemaChangeKind.RENAME, column="a", new_name="b"), False),
        (SchemaChange(kind=SchemaChangeKind.DROP, column="a"), True),
        (SchemaChange(kind=SchemaChangeKind.MAKE_REQUIRED, column="a"), True),
    ],
    ids=["add", "add-required", "rename", "drop", "make-required"],
)
def test_a_change_knows_whether_it_breaks_readers(change, incompatible):
    assert change.incompatible is incompatible
