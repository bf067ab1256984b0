"""``apply_declaration``: all differences, in one commit, without changing rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from floe_core.declaration.drift import DriftKind, DriftRemedy
from floe_core.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    ConfigurationError,
    CorruptFileError,
    SchemaEvolutionError,
)
from floe_core.schemas import TableConfig
from floe_iceberg import IcebergTableManager, SchemaChange, SchemaChangeKind
from floe_iceberg.models import WriteMode
from floe_iceberg.staging.staged import StagedMark, open_staged
from floe_iceberg.table.declared import changes as declared_changes
from floe_iceberg.table.keys.row_keys import recorded_keys
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import local_path, open_catalog

NAME = "bronze.orders"
DECLARED = {
    "description": "Orders as they come in.",
    "columns": [
        {"name": "id", "type": "int", "required": True, "doc": "Key."},
        {"name": "at", "type": "timestamptz"},
        {"name": "region", "type": "string"},
        {"name": "amount", "type": "decimal(10, 2)"},
        {"name": "address", "type": "struct<city: string, zip: int>"},
        {"name": "tags", "type": "list<string>"},
        {"name": "extra", "type": "map<string, int>"},
    ],
    "partition_by": ["day(at)"],
    "sort_by": ["at desc nulls last"],
    "keys": ["id"],
    "properties": {"owner": "sales"},
}
ROW = {
    "id": 1,
    "at": datetime(2026, 3, 1, tzinfo=UTC),
    "region": "north",
    "amount": Decimal("1.50"),
    "address": {"city": "Ulm", "zip": 89073},
    "tags": ["a", None],
    "extra": [("k", 1)],
}
OTHER = {**ROW, "id": 2, "at": datetime(2026, 3, 2, tzinfo=UTC), "region": None, "address": None, "tags": None}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("at", pa.timestamp("us", tz="UTC")),
        ("region", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("tags", pa.list_(pa.string())),
        ("extra", pa.map_(pa.string(), pa.int32())),
    ]
)


def config(**changes):
    return TableConfig.model_validate({**DECLARED, **changes})


def columns(*, without=(), added=(), first=(), **changes):
    """Return the declared columns, some of them changed, left out, or added."""
    kept = [{**column, **changes.get(column["name"], {})} for column in DECLARED["columns"]]
    return [*first, *(column for column in kept if column["name"] not in without), *added]


@pytest.fixture
def manager(tmp_path):
    catalog = open_catalog(tmp_path)
    yield IcebergTableManager(catalog)
    catalog.close()


@pytest.fixture
def table(manager):
    """A table as declared, with two rows."""
    return make(manager, "2")


@pytest.fixture(params=["1", "2"], ids=["v1", "v2"])
def versions(manager, request):
    """The same, of each format version."""
    return make(manager, request.param)


def make(manager, version):
    made = config(properties={**DECLARED["properties"], "format-version": version})
    manager.create_from_config(NAME, made)
    manager.append(NAME, pa.Table.from_pylist([ROW, OTHER], SCHEMA))
    return NAME


def commits(manager):
    return len(manager.load_table(NAME).metadata.metadata_log)


def rows(manager):
    return sorted(manager.scan(NAME).to_pylist(), key=lambda row: row.get("id") or row["number"])


def applied(manager, declared, **options):
    """Apply a declaration: one commit, sound metadata, and nothing left to do."""
    before = commits(manager)
    plan = manager.apply_declaration(NAME, declared, **options)
    assert plan.changed
    assert commits(manager) == before + 1
    assert_audited(manager, NAME)
    left = manager.detect_drift(NAME, declared).items
    assert [item for item in left if item.remedy is not DriftRemedy.FLAG] == []
    location = manager.load_table(NAME).metadata_location
    assert not manager.apply_declaration(NAME, declared, **options).changed
    assert manager.load_table(NAME).metadata_location == location
    return plan


def kinds(plan):
    return [item.kind for item in plan.made]


ADDED = {"name": "note", "type": "struct<text: string, at: list<date>>"}
CHANGES = {
    "a column more": ({"columns": columns(added=[ADDED])}, DriftKind.MISSING_COLUMN),
    "a column more in front": ({"columns": columns(first=[ADDED])}, DriftKind.MISSING_COLUMN),
    "a nested field more": (
        {"columns": columns(address={"type": "struct<city: string, country: string, zip: int>"})},
        DriftKind.MISSING_COLUMN,
    ),
    "a wider type": ({"columns": columns(id={"type": "long"})}, DriftKind.TYPE),
    "more digits": ({"columns": columns(amount={"type": "decimal(12, 2)"})}, DriftKind.TYPE),
    "a wider nested type": (
        {"columns": columns(address={"type": "struct<city: string, zip: long>"})},
        DriftKind.TYPE,
    ),
    "a wider value of a map": ({"columns": columns(extra={"type": "map<string, long>"})}, DriftKind.TYPE),
    "an optional column": ({"columns": columns(id={"required": False})}, DriftKind.NULLABILITY),
    "a required column without nulls": ({"columns": columns(at={"required": True})}, DriftKind.NULLABILITY),
    "a comment": ({"columns": columns(id={"doc": "The order."})}, DriftKind.DOC),
    "no comment": ({"columns": columns(id={"doc": ""})}, DriftKind.DOC),
    "another order": ({"columns": list(reversed(DECLARED["columns"]))}, DriftKind.COLUMN_ORDER),
    "a description": ({"description": "All orders."}, DriftKind.PROPERTY),
    "a property": ({"properties": {"owner": "finance", "write.parquet.row-group-limit": "9"}}, DriftKind.PROPERTY),
    "retention": ({"retention": {"snapshot_days": 30}}, DriftKind.PROPERTY),
    "other keys": ({"keys": ["id", "at"]}, DriftKind.KEYS),
    "null in keys": ({"null_keys": "match"}, DriftKind.KEYS),
    "another sort order": ({"sort_by": ["region", "id desc"]}, DriftKind.SORT_ORDER),
    "no sort order": ({"sort_by": []}, DriftKind.SORT_ORDER),
    "a partition field more": ({"partition_by": ["day(at)", "bucket(4, id)"]}, DriftKind.PARTITIONING),
    "other partition fields": ({"partition_by": ["month(at)", "region"]}, DriftKind.PARTITIONING),
    "no partitions": ({"partition_by": []}, DriftKind.PARTITIONING),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_becomes_what_is_declared_in_one_commit(manager, versions, change):
    declared, kind = CHANGES[change]
    before, location = rows(manager), manager.load_table(NAME).metadata_location
    look = manager.plan_declaration(NAME, config(**declared))
    assert (look.changed, look.impossible, set(kinds(look))) == (False, (), {kind})
    assert manager.load_table(NAME).metadata_location == location
    plan = applied(manager, config(**declared))
    assert plan.items == look.items
    for row, was in zip(rows(manager), before, strict=True):
        shared = {name: value for name, value in row.items() if name in was and name != "address"}
        assert shared == {name: was[name] for name in shared}
        assert (row["address"] or {}).get("city") == (was["address"] or {}).get("city")


def test_everything_at_once_is_one_commit(manager, versions):
    everything = {
        "columns": columns(
            without=["tags"],
            id={"type": "long", "doc": "The order."},
            region={"name": "area", "renamed_from": "region"},
            amount={"type": "decimal(12, 2)"},
            first=[ADDED],
        ),
        "partition_by": ["month(at)", "area"],
        "sort_by": ["area desc"],
        "keys": ["id", "at"],
        "description": "All orders.",
        "properties": {"owner": "finance"},
    }
    plan = applied(manager, config(**everything), drop_columns=True)
    assert set(kinds(plan)) == {
        *(DriftKind.MISSING_COLUMN, DriftKind.EXTRA_COLUMN, DriftKind.RENAME, DriftKind.TYPE, DriftKind.DOC),
        *(DriftKind.PARTITIONING, DriftKind.SORT_ORDER, DriftKind.KEYS, DriftKind.PROPERTY),
    }
    loaded = manager.load_table(NAME)
    assert [field.name for field in loaded.schema().fields] == [
        *("note", "id", "at", "area", "amount", "address", "extra"),
    ]
    manager.upsert(NAME, manager.scan(NAME).slice(0, 1))
    assert_audited(manager, NAME)
    assert [row["area"] for row in rows(manager)] == ["north", None]


def test_a_renamed_column_keeps_its_id_and_its_roles(manager, versions):
    names = {"id": "number", "at": "placed", "region": "area"}
    first = config(partition_by=["day(at)", "region"], sort_by=["region"], keys=["id", "at"])
    applied(manager, first)
    before = manager.load_table(NAME).schema()
    wanted = config(
        columns=columns(**{old: {"name": new, "renamed_from": old} for old, new in names.items()}),
        partition_by=["day(placed)", "area"],
        sort_by=["area"],
        keys=["number", "placed"],
    )
    plan = applied(manager, wanted)
    assert kinds(plan) == [DriftKind.RENAME] * 3
    loaded = manager.load_table(NAME)
    for old, new in names.items():
        assert loaded.schema().find_field(new).field_id == before.find_field(old).field_id
    assert recorded_keys(loaded) == ("number", "placed")
    assert loaded.schema().identifier_field_names() == set() or loaded.schema().identifier_field_names() == {"number"}
    assert [row["area"] for row in rows(manager)] == ["north", None]
    manager.upsert(NAME, pa.table({"number": pa.array([1], pa.int32()), "placed": [ROW["at"]], "area": ["south"]}))
    assert [row["area"] for row in rows(manager)] == ["south", None]
    # Keeping renamed_from in the declaration has no effect.
    assert not manager.apply_declaration(NAME, wanted).changed


def test_a_pending_rename_is_one_difference(manager, table):
    declared = config(columns=columns(region={"name": "area", "renamed_from": "region", "doc": "Where."}))
    items = manager.detect_drift(NAME, declared).items
    assert [(item.kind, item.path, item.declared, item.actual) for item in items] == [
        (DriftKind.RENAME, "region", "area", "region"),
        (DriftKind.DOC, "area", "'Where.'", None),
    ]


def test_a_table_with_both_names_keeps_both(manager, table):
    manager.evolve_schema(NAME, [SchemaChange(kind=SchemaChangeKind.ADD, column="area", type="string")])
    declared = config(columns=columns(region={"name": "area", "renamed_from": "region"}))
    items = {item.kind: item for item in manager.detect_drift(NAME, declared).items}
    assert set(items) == {DriftKind.EXTRA_COLUMN, DriftKind.COLUMN_ORDER}
    assert "also has 'area'" in items[DriftKind.EXTRA_COLUMN].fix
    applied(manager, declared)
    assert {"area", "region"} <= set(manager.load_table(NAME).schema().column_names)


def test_a_case_of_letters_can_be_renamed(manager, table):
    applied(manager, config(columns=columns(region={"name": "Region", "renamed_from": "region"})))
    assert [row["Region"] for row in rows(manager)] == ["north", None]


def test_properties_that_name_a_column_follow_its_name(manager, table):
    manager.set_properties(
        NAME,
        {
            "write.metadata.metrics.column.region": "counts",
            "write.parquet.bloom-filter-enabled.column.tags": "true",
            "schema.name-mapping.default": json.dumps(
                [
                    {"field-id": field.field_id, "names": [field.name]}
                    for field in manager.load_table(NAME).schema().fields
                ]
            ),
        },
    )
    wanted = columns(without=["tags"], region={"name": "area", "renamed_from": "region"}, added=[ADDED])
    applied(manager, config(columns=wanted), drop_columns=True)
    properties = manager.load_table(NAME).properties
    assert properties["write.metadata.metrics.column.area"] == "counts"
    assert "write.metadata.metrics.column.region" not in properties
    assert "write.parquet.bloom-filter-enabled.column.tags" not in properties
    mapping = {tuple(entry["names"]) for entry in json.loads(properties["schema.name-mapping.default"])}
    assert ("region", "area") in mapping
    assert ("note",) in mapping


def test_evolve_schema_keeps_keys_and_metrics_in_step_with_a_rename(manager, table):
    manager.set_properties(NAME, {"write.metadata.metrics.column.id": "full"})
    manager.evolve_schema(NAME, [SchemaChange(kind=SchemaChangeKind.RENAME, column="id", new_name="number")])
    loaded = manager.load_table(NAME)
    assert recorded_keys(loaded) == ("number",)
    assert loaded.properties["write.metadata.metrics.column.number"] == "full"
    assert "write.metadata.metrics.column.id" not in loaded.properties


def test_an_optional_key_stays_a_key(manager):
    manager.create_table(NAME, pa.schema([pa.field("id", pa.int64(), nullable=False), ("x", pa.int64())]))
    with manager.load_table(NAME).update_schema() as update:
        update.set_identifier_fields("id")
    applied(
        manager,
        TableConfig.model_validate({"columns": [{"name": "id", "type": "long"}, {"name": "x", "type": "long"}]}),
    )
    assert manager.load_table(NAME).schema().identifier_field_ids == []
    assert recorded_keys(manager.load_table(NAME)) == ("id",)


IMPOSSIBLE = {
    "a narrower type": ({"columns": columns(amount={"type": "decimal(8, 2)"})}, "copy the values"),
    "another type": ({"columns": columns(region={"type": "long"})}, "copy the values"),
    "string to binary": ({"columns": columns(region={"type": "binary"})}, "copy the values"),
    "another type of map keys": ({"columns": columns(extra={"type": "map<binary, int>"})}, "key type of a map"),
    "required over nulls": ({"columns": columns(region={"required": True})}, "may contain nulls"),
    "a new required column": (
        {"columns": columns(added=[{"name": "must", "type": "int", "required": True}])},
        "declare it optional",
    ),
    "a nested field as a column": (
        {"columns": columns(added=[{"name": "city", "type": "string", "renamed_from": "address.city"}])},
        "struct field cannot become a column",
    ),
    "another location": ({"location": "file:///elsewhere"}, "location of a table cannot change"),
    "keys that are not unique": ({"keys": ["amount"]}, "not unique by amount"),
    "keys in a new column": (
        {"columns": columns(added=[{"name": "code", "type": "int"}]), "keys": ["code"]},
        "no value in code",
    ),
    "names that differ in case": (
        {"columns": columns(without=["region"], added=[{"name": "REGION", "type": "string"}])},
        "case",
    ),
    "a property of Iceberg": ({"properties": {"current-snapshot-id": "1"}}, "Iceberg manages it"),
    "another format version": ({"properties": {"format-version": "3"}}, "Spark SQL"),
}


@pytest.mark.parametrize("change", IMPOSSIBLE)
def test_what_cannot_be_done_leaves_the_whole_table_as_it_is(manager, table, change):
    wanted, way_out = IMPOSSIBLE[change]
    before = manager.load_table(NAME).metadata_location
    declared = config(**{"description": "New.", **wanted})
    plan = manager.plan_declaration(NAME, declared)
    assert way_out in "; ".join(item.fix for item in plan.impossible)
    with pytest.raises(ConfigurationError, match="nothing was changed") as caught:
        manager.apply_declaration(NAME, declared)
    assert way_out in caught.value.message
    assert manager.load_table(NAME).metadata_location == before


def test_a_table_without_rows_may_get_required_columns_and_no_other_types(manager):
    manager.create_from_config(NAME, config())
    must = {"name": "must", "type": "int", "required": True}
    applied(manager, config(columns=columns(region={"required": True}, added=[must])))
    declared = config(columns=columns(amount={"type": "string"}, region={"required": True}, added=[must]))
    with pytest.raises(ConfigurationError, match="floe tables drop"):
        manager.apply_declaration(NAME, declared)


def test_columns_that_are_not_declared_go_only_by_flag(manager, table):
    declared = config(
        columns=columns(
            without=["tags"], address={"type": "struct<city: string>"}, added=[{"name": "n", "type": "int"}]
        )
    )
    plan = applied(manager, declared)
    assert {item.path for item in plan.left} == {"tags", "address.zip"}
    assert rows(manager)[0]["tags"] == ["a", None]
    plan = applied(manager, declared, drop_columns=True)
    assert {item.path for item in plan.destructive} == {"tags", "address.zip"}
    assert rows(manager)[0]["address"] == {"city": "Ulm"}
    assert "tags" not in rows(manager)[0]


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"columns": columns(without=["at"]), "partition_by": None, "sort_by": None}, "partition_by"),
        ({"columns": columns(without=["at"]), "partition_by": [], "sort_by": None}, "sort_by"),
        ({"columns": columns(without=["id"]), "keys": []}, "keys"),
    ],
    ids=["partition", "sort order", "key"],
)
def test_a_column_with_a_role_is_not_dropped(manager, declared, why):
    manager.create_from_config(NAME, config())
    manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
    with pytest.raises(ConfigurationError, match=f"change {why} first"):
        manager.apply_declaration(NAME, config(**declared), drop_columns=True)


def test_a_column_that_partitions_files_is_not_dropped(manager, versions):
    """Iceberg's Java would lose the partition values of those files."""
    declared = config(columns=columns(without=["region"]))
    if manager.load_table(NAME).format_version == 1:
        applied(manager, config(partition_by=["region"]))
        with pytest.raises(ConfigurationError, match="upgrade the table to format version 2") as caught:
            manager.apply_declaration(NAME, declared, drop_columns=True)
        assert caught.value.message.count("declared") == 1
        return
    applied(manager, config(partition_by=["region"]))
    manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
    applied(manager, config())
    with pytest.raises(ConfigurationError, match="used by files of a former partitioning"):
        manager.apply_declaration(NAME, declared, drop_columns=True)
    drop = SchemaChange(kind=SchemaChangeKind.DROP, column="region")
    with pytest.raises(SchemaEvolutionError, match="used by the table's former partitioning"):
        manager.evolve_schema(NAME, [drop], allow_incompatible_changes=True)


def test_a_column_that_partitioned_no_file_is_dropped(manager):
    manager.create_from_config(NAME, config(partition_by=["region"]))
    applied(manager, config())
    manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
    applied(manager, config(columns=columns(without=["region"])), drop_columns=True)
    manager.append(NAME, pa.Table.from_pylist([OTHER], SCHEMA).drop_columns(["region"]))
    assert [row["id"] for row in rows(manager)] == [1, 2]
    assert_audited(manager, NAME)


def test_what_only_an_engine_can_change_is_refused_as_a_whole(manager, monkeypatch):
    """As a table of format version 3 on the embedded catalog is."""
    manager.create_from_config(NAME, config())
    monkeypatch.setattr(declared_changes, "commits_by_engine", lambda *_: True)
    before = manager.load_table(NAME).metadata_location
    with pytest.raises(CapabilityError, match="only Spark SQL"):
        manager.apply_declaration(NAME, config(columns=columns(added=[ADDED]), description="New."))
    assert manager.load_table(NAME).metadata_location == before


def test_nothing_is_dropped_under_a_legal_hold(manager, table):
    manager.set_properties(NAME, {"floe.legal-hold": "case 7"})
    declared = config(columns=columns(without=["tags"]))
    with pytest.raises(ConfigurationError, match="case 7"):
        manager.apply_declaration(NAME, declared, drop_columns=True)
    assert not manager.apply_declaration(NAME, declared).changed


def test_a_column_that_a_held_write_may_need_is_neither_renamed_nor_dropped(manager):
    manager.create_from_config(NAME, config())
    manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
    branch = "audit.orders.run"
    open_staged(manager, manager.load_table(NAME), branch)
    mark = StagedMark(branch, WriteMode.APPEND, None, (), (), None)
    manager.append(NAME, pa.Table.from_pylist([OTHER], SCHEMA), branch=branch, snapshot_properties=mark.properties())
    renamed = config(columns=columns(region={"name": "area", "renamed_from": "region"}))
    with pytest.raises(ConfigurationError, match=r"audit\.orders\.run has a staged write"):
        manager.apply_declaration(NAME, renamed)
    with pytest.raises(ConfigurationError, match=r"audit\.orders\.run has a staged write"):
        manager.apply_declaration(NAME, config(columns=columns(without=["tags"])), drop_columns=True)


def test_rows_without_null_count_on_every_branch(manager):
    manager.create_from_config(NAME, config())
    manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
    manager.create_branch(NAME, "try")
    manager.append(NAME, pa.Table.from_pylist([OTHER], SCHEMA), branch="try")
    with pytest.raises(ConfigurationError, match="may contain nulls"):
        manager.apply_declaration(NAME, config(columns=columns(region={"required": True})))


def test_what_is_not_declared_stays(manager, table):
    manager.set_properties(NAME, {"mine": "1"})
    bare = TableConfig.model_validate({"columns": DECLARED["columns"][:2]})
    assert not manager.apply_declaration(NAME, bare).changed
    loaded = manager.load_table(NAME)
    assert (len(loaded.spec().fields), len(loaded.sort_order().fields), recorded_keys(loaded)) == (1, 1, ("id",))
    assert loaded.properties["mine"] == "1"


def test_partitioning_that_comes_back_is_the_one_that_was(manager):
    manager.create_from_config(NAME, config())
    manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
    first = manager.load_table(NAME).metadata
    applied(manager, config(partition_by=["month(at)"], sort_by=[]))
    applied(manager, config())
    assert manager.load_table(NAME).metadata.default_spec_id == first.default_spec_id
    assert manager.load_table(NAME).metadata.default_sort_order_id == first.default_sort_order_id
    applied(manager, config(partition_by=["bucket(4, id)", "day(at)"]))
    fields = {field.name: field.field_id for field in manager.load_table(NAME).spec().fields}
    assert fields["at_day"] == first.spec().fields[0].field_id
    assert len(set(fields.values())) == 2
    manager.append(NAME, pa.Table.from_pylist([OTHER], SCHEMA))
    assert_audited(manager, NAME)


def test_a_void_partition_field_is_no_difference(manager):
    manager.create_from_config(NAME, config(properties={"format-version": "1"}, partition_by=["day(at)", "region"]))
    manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
    for terms in (["region"], ["region", "day(at)"], ["day(at)"], []):
        applied(manager, config(properties={}, partition_by=terms))
        manager.append(NAME, pa.Table.from_pylist([ROW], SCHEMA))
        assert_audited(manager, NAME)
    names = [field.name for field in manager.load_table(NAME).spec().fields]
    assert len(set(names)) == len(names) > 2


def test_names_with_dots_and_spaces(manager):
    first = {"columns": [{"name": "a.b", "type": "int"}, {"name": "unit price", "type": "int"}], "keys": ["a.b"]}
    manager.apply_declaration(NAME, TableConfig.model_validate(first))
    manager.append(NAME, pa.table({"a.b": pa.array([1], pa.int32()), "unit price": pa.array([2], pa.int32())}))
    wanted = [
        {"name": "a", "type": "struct<b: int>"},
        {"name": "a.c", "type": "long", "renamed_from": "a.b"},
        {"name": "the price", "type": "int", "renamed_from": "unit price", "doc": "In cents."},
    ]
    applied(manager, TableConfig.model_validate({"columns": wanted, "keys": ["a.c"]}))
    assert manager.scan(NAME).to_pylist() == [{"a": None, "a.c": 1, "the price": 2}]
    assert recorded_keys(manager.load_table(NAME)) == ("a.c",)


def test_a_missing_table_is_created_with_its_namespace(manager):
    plan = manager.apply_declaration("silver.deep.orders", config())
    assert (plan.exists, plan.changed) == (False, True)
    assert manager.detect_drift("silver.deep.orders", config()).items == ()
    assert not manager.apply_declaration("silver.deep.orders", config()).changed


def test_a_missing_table_without_columns_is_left_to_its_first_write(manager):
    plan = manager.apply_declaration(NAME, config(columns=[]))
    assert not plan.changed
    assert [item.kind for item in plan.left] == [DriftKind.TABLE]
    assert not manager.table_exists(NAME)


def test_a_broken_table_is_named_and_left(manager, table, tmp_path):
    local_path(manager.load_table(NAME).metadata_location).unlink()
    catalog = open_catalog(tmp_path)
    with pytest.raises(CorruptFileError):
        IcebergTableManager(catalog).apply_declaration(NAME, config(description="New."))
    catalog.close()


def test_a_weaker_protection_of_files_is_asked_about(manager, table):
    manager.set_properties(NAME, {"gc.enabled": "false", "floe.legal-hold": "case 7"})
    plan = manager.plan_declaration(NAME, config(properties={"gc.enabled": "true", "floe.legal-hold": "false"}))
    assert {item.path for item in plan.destructive} == {"gc.enabled", "floe.legal-hold"}
    assert {item.remedy for item in plan.destructive} == {DriftRemedy.CONFIRM}


def test_a_column_that_appeared_meanwhile_is_not_dropped_unasked(manager, table):
    declared = config(columns=columns(without=["tags"]))
    plan = manager.plan_declaration(NAME, declared, drop_columns=True)
    manager.evolve_schema(NAME, [SchemaChange(kind=SchemaChangeKind.ADD, column="precious", type="string")])
    with pytest.raises(ConcurrencyConflictError, match="was changed after the plan was confirmed"):
        manager.apply_declaration(NAME, declared, drop_columns=True, agreed=plan.destructive)
    assert {"tags", "precious"} <= set(manager.load_table(NAME).schema().column_names)


def test_a_new_column_with_the_name_of_a_partition_field_is_refused(manager, table):
    declared = config(columns=columns(added=[{"name": "at_day", "type": "int"}]))
    with pytest.raises(ConfigurationError, match="at_day"):
        manager.apply_declaration(NAME, declared)
