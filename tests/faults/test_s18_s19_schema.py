"""S18 and S19: concurrent schema changes, and data that does not match the schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_iceberg import InvalidDataError, SchemaChange, SchemaChangeKind, SchemaEvolutionError

pytestmark = pytest.mark.req("FR-020", "TM-09")


def add(column, kind="string"):
    return [SchemaChange(kind=SchemaChangeKind.ADD, column=column, type=kind)]


@pytest.fixture
def writers(site, name):
    first, second = site.open_manager(), site.open_manager()
    first.create_table(name, pa.schema([("id", pa.int64())]))
    return first, second


def test_s18_two_evolutions_at_once_both_land(site, writers, name):
    first, second = writers
    with site.losing_races(first, lambda: second.evolve_schema(name, add("theirs"))):
        first.evolve_schema(name, add("ours"))
    assert first.load_table(name).schema().column_names == ["id", "theirs", "ours"]


def test_s18_the_loser_of_one_name_is_told_why(site, writers, name):
    first, second = writers
    with (
        site.losing_races(first, lambda: second.evolve_schema(name, add("note", "int"))),
        pytest.raises(SchemaEvolutionError, match="already") as caught,
    ):
        first.evolve_schema(name, add("note", "string"))
    assert caught.value.mismatches[0].table_type == "int"


def test_s18_two_appends_that_both_add_a_column_both_land(site, writers, name):
    first, second = writers
    with site.losing_races(first, lambda: second.append(name, pa.table({"id": [1], "theirs": ["t"]}))):
        first.append(name, pa.table({"id": [2], "ours": ["o"]}))
    found = first.scan(name).sort_by("id").to_pylist()
    assert found == [{"id": 1, "theirs": "t", "ours": None}, {"id": 2, "theirs": None, "ours": "o"}]


def test_s18_two_appends_that_add_the_same_column_share_it(site, writers, name):
    first, second = writers
    with site.losing_races(first, lambda: second.append(name, pa.table({"id": [1], "note": ["t"]}))):
        first.append(name, pa.table({"id": [2], "note": ["o"]}))
    assert first.scan(name).sort_by("id").to_pylist() == [{"id": 1, "note": "t"}, {"id": 2, "note": "o"}]


def test_s18_an_append_whose_new_column_meanwhile_has_another_type_fails_with_the_reason(site, writers, name):
    first, second = writers
    rival = pa.table({"id": [1], "note": [1]})
    with (
        site.losing_races(first, lambda: second.append(name, rival)),
        pytest.raises(SchemaEvolutionError, match="note"),
    ):
        first.append(name, pa.table({"id": [2], "note": ["o"]}))
    assert first.scan(name).num_rows == 1


@pytest.fixture
def strict(manager, name):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int32())])
    manager.create_table(name, schema)
    return manager


def test_s19_a_missing_required_column_is_refused(strict, name):
    with pytest.raises(SchemaEvolutionError) as caught:
        strict.append(name, pa.table({"x": pa.array([1], pa.int32())}))
    assert [str(mismatch) for mismatch in caught.value.mismatches] == [
        "id: table has long, data has no such column (required column is missing)"
    ]


def test_s19_null_in_a_required_column_is_refused_without_evolution(strict, name):
    with pytest.raises(InvalidDataError, match="'id' is required but contains 1 nulls"):
        strict.append(name, pa.table({"id": [1, None]}), evolve_schema=False)
    assert strict.get_current_snapshot(name) is None


def test_s19_null_in_a_key_is_refused_whatever_may_evolve(strict, name):
    strict.set_keys(name, ["id"])
    with pytest.raises(InvalidDataError, match="'id' is required but contains 1 nulls"):
        strict.append(name, pa.table({"id": [1, None]}))
    assert strict.get_current_snapshot(name) is None


@pytest.mark.req("RD-03")
@pytest.mark.parametrize("nulls", [pa.array([1, None]), pa.nulls(2)], ids=["some", "nothing else"])
def test_s18_a_required_column_that_gets_nulls_becomes_optional_with_the_write(strict, name, nulls):
    strict.append(name, pa.table({"id": [7], "x": pa.array([7], pa.int32())}))
    assert strict.load_table(name).schema().find_field("id").required
    strict.append(name, pa.table({"id": nulls, "x": pa.array([1, 2], pa.int32())}))
    assert not strict.load_table(name).schema().find_field("id").required
    assert sorted(strict.scan(name)["id"].to_pylist(), key=str) == sorted([7, *nulls.to_pylist()], key=str)
    assert len(strict.list_snapshots(name)) == 2


def test_s18_an_upsert_that_brings_nulls_makes_its_column_optional(manager, name):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int64(), nullable=False)])
    manager.create_table(name, schema)
    manager.append(name, pa.table({"id": [1, 2], "x": [1, 2]}))
    manager.upsert(name, pa.table({"id": [2, 3], "x": pa.array([None, 3], pa.int64())}), keys=["id"])
    assert {row["id"]: row["x"] for row in manager.scan(name).to_pylist()} == {1: 1, 2: None, 3: 3}
    fields = manager.load_table(name).schema()
    assert (fields.find_field("id").required, fields.find_field("x").required) == (True, False)


def test_s19_a_narrowed_type_is_refused(strict, name):
    narrow = [SchemaChange(kind=SchemaChangeKind.WIDEN, column="id", type="int")]
    with pytest.raises(SchemaEvolutionError, match="not a wider type"):
        strict.evolve_schema(name, narrow)


def test_s19_a_new_required_column_is_refused(strict, name):
    must = [SchemaChange(kind=SchemaChangeKind.ADD, column="must", type="int", required=True)]
    with pytest.raises(SchemaEvolutionError, match="must"):
        strict.evolve_schema(name, must)


def test_s19_a_required_column_of_the_data_becomes_an_optional_one_of_the_table(strict, name):
    data = pa.table([[1], ["n"]], schema=pa.schema([("id", pa.int64()), pa.field("note", pa.string(), nullable=False)]))
    strict.append(name, data)
    assert not strict.load_table(name).schema().find_field("note").required
