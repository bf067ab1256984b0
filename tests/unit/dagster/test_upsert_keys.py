"""Upsert keys: the declaration is authoritative; the table follows it, or the run stops before it writes."""

import dagster as dg
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from floe_core.errors import ConfigurationError, InvalidDataError, NamespaceNotFoundError
from floe_core.schemas import TableConfig
from floe_dagster import IcebergIOManager
from floe_dagster.assets.review import WrittenAsset, require_valid
from floe_dagster.io.tables_source import TablesSource
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY
from floe_iceberg.table.keys.row_keys import recorded_keys

TABLE = "public.orders"


def orders(rows, **metadata):
    @dg.asset(name="orders", metadata={"write_mode": "upsert", **metadata})
    def asset() -> pa.Table:
        return pa.Table.from_pylist(rows)

    return asset


@pytest.fixture
def upsert(materialize, tables):
    """Run an upsert of rows under a declaration of keys."""

    def run(rows, keys=(), **metadata):
        source = TablesSource(lambda: tables, declared={TABLE: TableConfig(keys=tuple(keys))})
        return materialize(orders(rows, **metadata), io=IcebergIOManager(source=source))

    return run


def found(tables):
    return sorted((tuple(row.values()) for row in tables.scan(TABLE).to_pylist()), key=repr)


def keys_of(tables):
    return recorded_keys(tables.load_table(TABLE))


def test_keys_changed_in_the_declaration_are_those_of_the_next_upsert(upsert, tables):
    upsert([{"id": 1, "line": 1, "qty": 5}, {"id": 2, "line": 1, "qty": 6}], keys=["id"])
    # With id as the only key, this row would overwrite the first one.
    upsert([{"id": 1, "line": 2, "qty": 7}], keys=["id", "line"])
    assert found(tables) == [(1, 1, 5), (1, 2, 7), (2, 1, 6)]
    assert keys_of(tables) == ("id", "line")
    upsert([{"id": 1, "line": 2, "qty": 8}], keys=["line", "id"])
    assert found(tables) == [(1, 1, 5), (1, 2, 8), (2, 1, 6)]


def test_keys_changed_in_the_metadata_of_the_asset_are_those_of_the_next_upsert(upsert, tables):
    upsert([{"id": 1, "line": 1, "qty": 5}], upsert_keys=["id"])
    upsert([{"id": 1, "line": 2, "qty": 7}], upsert_keys=["id", "line"])
    assert found(tables) == [(1, 1, 5), (1, 2, 7)]
    assert keys_of(tables) == ("id", "line")


def test_keys_by_which_rows_are_not_unique_stop_the_run_before_it_writes(upsert, tables):
    upsert([{"id": 1, "shop": "a"}, {"id": 2, "shop": "a"}], keys=["id"])
    before = tables.get_current_snapshot(TABLE)
    with pytest.raises(ConfigurationError, match="shop") as caught:
        upsert([{"id": 3, "shop": "b"}], keys=["shop"])
    assert "are shop; the table records id" in caught.value.message
    assert "{'shop': 'a'}" in caught.value.message
    assert caught.value.hint
    assert tables.get_current_snapshot(TABLE) == before
    assert keys_of(tables) == ("id",)


def test_a_declared_key_that_the_table_lacks_stops_the_run_before_it_writes(upsert, tables):
    upsert([{"id": 1, "shop": "a"}], keys=["id"])
    with pytest.raises(ConfigurationError, match="no column number") as caught:
        upsert([{"id": 2, "shop": "b", "number": 1}], keys=["number"])
    assert "the table records id" in caught.value.message
    assert tables.scan(TABLE).schema.names == ["id", "shop"]


def test_an_upsert_without_keys_creates_nothing(upsert, tables):
    with pytest.raises(ConfigurationError, match="no keys are declared") as caught:
        upsert([{"id": 1}])
    assert "keys" in caught.value.hint
    with pytest.raises(NamespaceNotFoundError):
        tables.list_tables("public")
    with pytest.raises(ConfigurationError, match="has no column number"):
        upsert([{"id": 1}], keys=["number"])
    with pytest.raises(NamespaceNotFoundError):
        tables.list_tables("public")
    upsert([{"id": 1}], keys=["id"])
    assert keys_of(tables) == ("id",)


def test_a_table_without_keys_takes_those_that_are_declared(upsert, tables):
    """As an append, a plain Spark job or an older version leaves it."""
    tables.create_namespace("public")
    tables.create_table(TABLE, pa.schema([("id", pa.int64()), ("name", pa.string())]))
    tables.append(TABLE, pa.table({"id": [1, 2], "name": ["a", "b"]}))
    with pytest.raises(ConfigurationError, match="no keys are declared"):
        upsert([{"id": 2, "name": "B"}])
    upsert([{"id": 2, "name": "B"}], keys=["id"])
    assert found(tables) == [(1, "a"), (2, "B")]
    assert keys_of(tables) == ("id",)
    # The recorded keys apply if none are declared.
    upsert([{"id": 1, "name": "A"}])
    assert found(tables) == [(1, "A"), (2, "B")]


def test_metadata_and_floe_yaml_must_not_declare_different_keys(upsert, tables):
    upsert([{"id": 1, "line": 1}], keys=["id", "line"], upsert_keys=["line", "id"])
    with pytest.raises(ConfigurationError, match=r"upsert_keys id.*keys id, line"):
        upsert([{"id": 1, "line": 2}], keys=["id", "line"], upsert_keys=["id"])
    assert found(tables) == [(1, 1)]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [({"upsert_keys": ["line"]}, "upsert_keys line"), ({"null_keys": "match"}, "null_keys match")],
    ids=["keys", "nulls"],
)
def test_disagreement_on_keys_is_found_before_anything_runs(metadata, message):
    [spec] = orders([], **metadata).specs
    declared = {TABLE: TableConfig(keys=("id",), null_keys="refuse")}
    with pytest.raises(ConfigurationError, match=message):
        require_valid([WrittenAsset(spec, TABLE)], declared)
    require_valid([WrittenAsset(spec, TABLE)], {})


@pytest.mark.parametrize(
    ("keys", "identifiers"), [(["id", "line"], {"id", "line"}), (["id", "note"], set())], ids=["required", "optional"]
)
def test_identifier_fields_follow_the_keys_where_they_are_used(keys, identifiers, upsert, tables):
    fields = [
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "line", LongType(), required=True),
        NestedField(3, "note", StringType()),
    ]
    tables.create_namespace("public")
    tables.create_table(TABLE, Schema(*fields, identifier_field_ids=[1]))
    assert keys_of(tables) == ("id",)
    upsert([{"id": 1, "line": 1, "note": "a"}], keys=["id"])
    assert KEYS_PROPERTY not in tables.load_table(TABLE).properties
    upsert([{"id": 1, "line": 2, "note": "b"}], keys=keys)
    assert found(tables) == [(1, 1, "a"), (1, 2, "b")]
    assert keys_of(tables) == tuple(keys)
    assert tables.load_table(TABLE).schema().identifier_field_names() == identifiers


def test_rows_without_a_key_do_not_stand_in_the_way_of_a_record(upsert, tables):
    upsert([{"id": 1, "code": None}, {"id": 2, "code": None}, {"id": 3, "code": "x"}], keys=["id"])
    upsert([{"id": 4, "code": "x"}], keys=["code"])
    assert found(tables) == [(1, None), (2, None), (4, "x")]


def test_names_with_commas_and_brackets_are_keys_like_others(tables):
    tables.create_namespace("public")
    columns = ["a,b", "[c]", "d"]
    tables.create_table(TABLE, pa.schema([(name, pa.int64()) for name in columns]))
    tables.set_keys(TABLE, ["a,b", "[c]"])
    assert keys_of(tables) == ("a,b", "[c]")
    for value in (1, 2):
        tables.upsert(TABLE, pa.table({"a,b": [1], "[c]": [1], "d": [value]}))
    assert found(tables) == [(1, 1, 2)]


def test_keys_given_to_the_manager_itself_are_used_as_they_are(tables):
    tables.create_namespace("public")
    tables.create_table(TABLE, pa.schema([("id", pa.int64()), ("shop", pa.string())]))
    tables.set_keys(TABLE, ["id"])
    tables.upsert(TABLE, pa.table({"id": [1], "shop": ["a"]}))
    tables.upsert(TABLE, pa.table({"id": [2], "shop": ["a"]}), keys=["shop"])
    assert found(tables) == [(2, "a")]
    assert keys_of(tables) == ("id",)


def test_other_writers_between_look_and_record_are_seen(tables, monkeypatch):
    """A row that arrives after the look would make the keys untrue."""
    tables.create_namespace("public")
    tables.create_table(TABLE, pa.schema([("id", pa.int64())]))
    tables.append(TABLE, pa.table({"id": [1]}))
    import floe_iceberg.table.keys.row_keys as module

    original = module.scan
    late = [lambda: tables.append(TABLE, pa.table({"id": [1]}))]

    def scan(*arguments, **options):
        rows = original(*arguments, **options)
        while late:
            late.pop()()
        return rows

    monkeypatch.setattr(module, "scan", scan)
    with pytest.raises(ConfigurationError, match="not unique by id"):
        tables.set_keys(TABLE, ["id"])
    assert keys_of(tables) == ()


def test_drift_shows_keys_that_differ(tables):
    tables.create_namespace("public")
    tables.create_table(TABLE, pa.schema([("id", pa.int64()), ("line", pa.int64())]))
    [item] = tables.detect_drift(TABLE, TableConfig(keys=("id",))).items
    assert (item.kind, item.declared, item.actual) == ("keys", "id", None)
    tables.set_keys(TABLE, ["id", "line"])
    assert not tables.detect_drift(TABLE, TableConfig(keys=("line", "id"))).drifted
    [item] = tables.detect_drift(TABLE, TableConfig(keys=("id",))).items
    assert (item.declared, item.actual) == ("id", "id, line")


def test_null_in_a_key_is_refused_with_column_and_rows_before_anything_is_written(upsert, tables):
    upsert([{"id": 1, "code": "a"}], keys=["id", "code"])
    before = tables.get_current_snapshot(TABLE)
    with pytest.raises(InvalidDataError, match=r"nulls in key columns: code \(2 rows\)") as caught:
        upsert([{"id": 2, "code": None}, {"id": 3, "code": None}, {"id": 4, "code": "b"}], keys=["id", "code"])
    assert "null_keys: match" in caught.value.hint
    assert tables.get_current_snapshot(TABLE) == before


@pytest.mark.parametrize("place", ["floe.yaml", "metadata"])
def test_null_matches_null_by_declaration(place, upsert, tables, materialize):
    def run(rows):
        if place == "metadata":
            return upsert(rows, keys=["id", "code"], null_keys="match")
        declared = {TABLE: TableConfig(keys=("id", "code"), null_keys="match")}
        return materialize(orders(rows), io=IcebergIOManager(source=TablesSource(lambda: tables, declared=declared)))

    for value in (1, 2):
        run([{"id": 1, "code": None, "value": value}, {"id": 1, "code": "a", "value": value}])
    assert found(tables) == [(1, "a", 2), (1, None, 2)]
    # The table records it for upserts that do not set it.
    tables.upsert(TABLE, pa.table({"id": [1], "code": pa.array([None], pa.string()), "value": [3]}))
    assert found(tables) == [(1, "a", 2), (1, None, 3)]
    with pytest.raises(InvalidDataError, match="1 duplicate key"):
        run([{"id": 7, "code": None, "value": 1}, {"id": 7, "code": None, "value": 2}])


def test_null_does_not_begin_to_match_while_rows_share_it(upsert, tables):
    upsert([{"id": 1, "code": None}, {"id": 2, "code": None}, {"id": 3, "code": "x"}], keys=["id"])
    with pytest.raises(ConfigurationError, match=r"not unique by code; examples of duplicates: \{'code': None\}"):
        upsert([{"id": 4, "code": "x"}], keys=["code"], null_keys="match")


def test_null_keys_that_cannot_be_are_refused(upsert, tables):
    with pytest.raises(ConfigurationError, match="null_keys 'equal'") as caught:
        upsert([{"id": 1}], keys=["id"], null_keys="equal")
    assert caught.value.hint == "Use one of: refuse, match."
    tables.create_namespace("public")
    tables.create_table(TABLE, pa.schema([("id", pa.int64())]))
    with pytest.raises(ConfigurationError, match="not supported in mode append"):
        tables.append(TABLE, pa.table({"id": [1]}), null_keys="match")


def test_a_column_of_nothing_but_null_is_a_key_that_matches(tables):
    tables.create_namespace("public")
    tables.create_table(TABLE, pa.schema([("id", pa.int64()), ("code", pa.string()), ("value", pa.int64())]))
    for keys in (["code"], ["id", "code"]):
        for value in (1, 2):
            rows = pa.table({"id": [1], "code": pa.nulls(1), "value": [value]})
            tables.upsert(TABLE, rows, keys=keys, null_keys="match")
        assert found(tables) == [(1, None, 2)]
