"""S18 and S19: schema changes at the same time, and data that does not fit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_iceberg import InvalidDataError, SchemaChange, SchemaChangeKind, SchemaEvolutionError
from floe_testing.database_faults import DatabaseFaults

pytestmark = pytest.mark.req("FR-020", "TM-09")


def add(column, kind="string"):
    return [SchemaChange(kind=SchemaChangeKind.ADD, column=column, type=kind)]


def meddle(manager, change):
    """Let another writer commit just before the manager's next commit."""
    DatabaseFaults(manager.catalog.inner.engine).play([change])


@pytest.fixture
def writers(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    return first, second


def test_s18_two_evolutions_at_once_both_land(writers):
    first, second = writers
    meddle(first, lambda: second.evolve_schema("bronze.t", add("theirs")))
    first.evolve_schema("bronze.t", add("ours"))
    assert first.load_table("bronze.t").schema().column_names == ["id", "theirs", "ours"]


def test_s18_the_loser_of_one_name_is_told_why(writers):
    first, second = writers
    meddle(first, lambda: second.evolve_schema("bronze.t", add("note", "int")))
    with pytest.raises(SchemaEvolutionError, match="already") as caught:
        first.evolve_schema("bronze.t", add("note", "string"))
    assert caught.value.mismatches[0].table_type == "int"


def test_s18_two_appends_that_both_add_a_column_both_land(writers):
    first, second = writers
    meddle(first, lambda: second.append("bronze.t", pa.table({"id": [1], "theirs": ["t"]})))
    first.append("bronze.t", pa.table({"id": [2], "ours": ["o"]}))
    found = first.scan("bronze.t").sort_by("id").to_pylist()
    assert found == [{"id": 1, "theirs": "t", "ours": None}, {"id": 2, "theirs": None, "ours": "o"}]


def test_s18_two_appends_that_add_the_same_column_share_it(writers):
    first, second = writers
    meddle(first, lambda: second.append("bronze.t", pa.table({"id": [1], "note": ["t"]})))
    first.append("bronze.t", pa.table({"id": [2], "note": ["o"]}))
    assert first.scan("bronze.t").sort_by("id").to_pylist() == [{"id": 1, "note": "t"}, {"id": 2, "note": "o"}]


def test_s18_an_append_whose_new_column_meanwhile_has_another_type_fails_with_the_reason(writers):
    first, second = writers
    meddle(first, lambda: second.append("bronze.t", pa.table({"id": [1], "note": [1]})))
    with pytest.raises(SchemaEvolutionError, match="note"):
        first.append("bronze.t", pa.table({"id": [2], "note": ["o"]}))
    assert first.scan("bronze.t").num_rows == 1


@pytest.fixture
def strict(open_manager):
    manager = open_manager()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int32())])
    manager.create_table("bronze.s", schema)
    return manager


def test_s19_a_missing_required_column_is_refused(strict):
    with pytest.raises(SchemaEvolutionError) as caught:
        strict.append("bronze.s", pa.table({"x": pa.array([1], pa.int32())}))
    assert [str(mismatch) for mismatch in caught.value.mismatches] == [
        "id: table has long, data has no such column (required column is missing)"
    ]


def test_s19_null_in_a_required_column_is_refused(strict):
    with pytest.raises(InvalidDataError, match="'id' is required and holds 1 nulls"):
        strict.append("bronze.s", pa.table({"id": [1, None]}))
    assert strict.get_current_snapshot("bronze.s") is None


def test_s19_a_narrowed_type_is_refused(strict):
    narrow = [SchemaChange(kind=SchemaChangeKind.WIDEN, column="id", type="int")]
    with pytest.raises(SchemaEvolutionError, match="not a wider type"):
        strict.evolve_schema("bronze.s", narrow)


def test_s19_a_new_required_column_is_refused(strict):
    must = [SchemaChange(kind=SchemaChangeKind.ADD, column="must", type="int", required=True)]
    with pytest.raises(SchemaEvolutionError, match="must"):
        strict.evolve_schema("bronze.s", must)


def test_s19_a_required_column_of_the_data_becomes_an_optional_one_of_the_table(strict):
    data = pa.table([[1], ["n"]], schema=pa.schema([("id", pa.int64()), pa.field("note", pa.string(), nullable=False)]))
    strict.append("bronze.s", data)
    assert not strict.load_table("bronze.s").schema().find_field("note").required
