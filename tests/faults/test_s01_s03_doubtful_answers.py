"""S01 to S03: commits whose answer is lost, wrong, or an error."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from floe_iceberg import CommitStateUnknownError
from floe_testing.faulty_catalogs import LANDED, Fault

pytestmark = pytest.mark.req("TM-14", "TM-07")

OPERATIONS = {
    "append": lambda manager, **o: manager.append("bronze.t", pa.table({"id": [3]}), **o),
    "overwrite": lambda manager, **o: manager.overwrite("bronze.t", pa.table({"id": [3]}), **o),
    "overwrite_filter": lambda manager, **o: manager.overwrite(
        "bronze.t", pa.table({"id": [3]}), overwrite_filter="id = 2", **o
    ),
    "upsert": lambda manager, **o: manager.upsert("bronze.t", pa.table({"id": [2], "x": [9]}), keys=["id"], **o),
    "delete": lambda manager, **o: manager.delete("bronze.t", "id = 2", **o),
}
EXPECTED = {"append": [1, 2, 3], "overwrite": [3], "overwrite_filter": [1, 3], "upsert": [1, 2], "delete": [1]}


@pytest.fixture
def table(faulty):
    faulty.create_table("bronze.t", pa.schema([("id", pa.int64()), ("x", pa.int64())]))
    faulty.append("bronze.t", pa.table({"id": [1, 2], "x": [1, 2]}))
    return "bronze.t"


def ids(manager):
    return sorted(manager.scan("bronze.t")["id"].to_pylist())


def data_files(manager):
    folder = Path(manager.load_table("bronze.t").location().removeprefix("file://")) / "data"
    return {str(path) for path in folder.rglob("*.parquet")}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fault", LANDED, ids=lambda fault: fault.name.lower())
def test_s01_s02_a_landed_commit_is_a_success_whatever_the_answer(faulty, table, operation, fault):
    faulty.catalog.inner.play([fault])
    before = faulty.get_current_snapshot(table)
    snapshot = OPERATIONS[operation](faulty)
    assert ids(faulty) == EXPECTED[operation]
    assert snapshot.snapshot_id == faulty.get_current_snapshot(table).snapshot_id
    assert snapshot.parent_snapshot_id == before.snapshot_id
    assert faulty.catalog.inner.commits == 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_s02_a_409_for_a_landed_commit_on_the_last_attempt_keeps_every_file(faulty, table, operation):
    faulty.catalog.inner.play([Fault.CONFLICT, Fault.CONFLICT, Fault.LANDED_CONFLICT])
    OPERATIONS[operation](faulty)
    assert ids(faulty) == EXPECTED[operation]
    assert faulty.catalog.inner.commits == 3
    live = {task.file.file_path.removeprefix("file://") for task in faulty.load_table(table).scan().plan_files()}
    assert live <= data_files(faulty)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "fault", [Fault.UNKNOWN, Fault.UNAVAILABLE, Fault.UNREACHABLE], ids=lambda fault: fault.name.lower()
)
def test_s03_an_unknown_outcome_is_an_error_that_keeps_the_files_and_can_be_repeated(faulty, table, operation, fault):
    files = data_files(faulty)
    faulty.catalog.inner.play([fault])
    with pytest.raises(CommitStateUnknownError) as caught:
        OPERATIONS[operation](faulty, operation_id="op-1")
    assert caught.value.operation_id == "op-1"
    assert "op-1" in str(caught.value)
    assert ids(faulty) == [1, 2]
    if operation != "delete":
        assert data_files(faulty) > files
    for _ in range(2):
        OPERATIONS[operation](faulty, operation_id="op-1")
    assert ids(faulty) == EXPECTED[operation]
    assert len(faulty.list_snapshots(table)) == 2


def test_s01_a_lost_reply_to_a_schema_change_is_settled_by_a_look(faulty, table):
    from floe_iceberg import SchemaChange, SchemaChangeKind

    faulty.catalog.inner.play([Fault.LANDED_LOST])
    change = SchemaChange(kind=SchemaChangeKind.ADD, column="note", type="string")
    assert "note" in faulty.evolve_schema(table, [change]).column_names
    assert len(faulty.load_table(table).schemas()) == 2


@pytest.mark.filterwarnings("ignore:Parquet writer option:UserWarning")  # PyIceberg's own writer knows fewer properties
def test_s02_pyicebergs_own_append_through_the_managers_catalog_is_safe_too(faulty, table):
    loaded = faulty.load_table(table)
    faulty.catalog.inner.play([Fault.LANDED_CONFLICT])
    loaded.append(pa.table({"id": [3], "x": [3]}))
    assert ids(faulty) == [1, 2, 3]
    assert faulty.catalog.inner.commits == 1
