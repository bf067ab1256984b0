"""Any declaration applied to any table: the second time changes nothing, and no rows are lost."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from floe_core.declaration.drift import DriftRemedy
from floe_core.schemas import TableConfig
from floe_iceberg import IcebergTableManager
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import open_catalog

NAMES = ("a", "b", "c d", "e.f")
# Sequences of types to which a column can be changed.
WAYS = (
    ("int", "long"),
    ("float", "double"),
    ("decimal(6, 2)", "decimal(9, 2)"),
    ("struct<x: int, y: string>", "struct<y: string, x: long, z: date>"),
    ("list<int>", "list<long>"),
    ("map<string, int>", "map<string, long>"),
    ("map<string, struct<x: int>>", "map<string, struct<w: list<string>, x: long>>"),
    ("string",),
    ("date",),
)
TYPES = tuple(kind for way in WAYS for kind in way)
_tables = itertools.count()


@st.composite
def declarations(draw, former=()):
    """A declaration; one that follows another may rename its columns, and mostly keeps to what types can become."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    known = {column["name"]: column for column in former}
    free = [name for name in known if name not in names]
    columns = []
    for name in names:
        column = {"name": name, "doc": draw(st.sampled_from([None, "", "One.", "Two."]))}
        if name not in known and free and draw(st.booleans()):
            column["renamed_from"] = free.pop()
        before = known.get(column.get("renamed_from", name))
        column["type"] = draw(st.sampled_from(following(before["type"]) if before else TYPES))
        column["required"] = (
            draw(st.booleans()) if before is None else draw(st.sampled_from([before["required"], False]))
        )
        columns.append(column)
    plain = [column["name"] for column in columns if "<" not in column["type"] and column["name"] in {"a", "b"}]
    terms = [None, [], *([name] for name in plain), *([f"bucket(4, {name})"] for name in bucketed(columns))]
    return {
        "columns": columns,
        "partition_by": draw(st.sampled_from(terms)),
        "sort_by": draw(st.sampled_from([None, [], *([f"{name} desc"] for name in plain)])),
        "description": draw(st.sampled_from([None, "One.", "Two."])),
        "properties": draw(st.dictionaries(st.sampled_from(["owner", "team"]), st.sampled_from(["1", "2"]))),
    }


def following(kind):
    """What a type can become, and a type that it cannot."""
    way = next(way for way in WAYS if kind in way)
    return [*way[way.index(kind) :] * 4, "boolean"]


def bucketed(columns):
    return [column["name"] for column in columns if column["type"] in {"int", "long"} and column["name"] in {"a", "b"}]


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    catalog = open_catalog(tmp_path_factory.mktemp("apply"))
    yield IcebergTableManager(catalog)
    catalog.close()


def rows_for(manager, name):
    """Two rows that fit a table: nulls where they may be, and the empty value of a type elsewhere."""
    schema = manager.load_table(name).schema().as_arrow()
    blank = {
        column.name: pa.array([_value(column.type)] * 2, column.type)
        if not column.nullable
        else pa.array([_value(column.type), None], column.type)
        for column in schema
    }
    return pa.table(blank, schema=pa.schema([pa.field(f.name, f.type, f.nullable) for f in schema]))


def _value(kind):
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(kind.value_type)]
    if pa.types.is_map(kind):
        return [("k", _value(kind.item_type))]
    return "x" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else 0


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_declaration_that_can_be_is_reached_in_one_step_and_keeps_every_row(manager, data):
    name = f"bronze.t{next(_tables)}"
    first = data.draw(declarations())
    version = data.draw(st.sampled_from(["1", "2"]))
    made = TableConfig.model_validate({**first, "properties": {**first["properties"], "format-version": version}})
    manager.apply_declaration(name, made)
    written = data.draw(st.booleans())
    if written:
        manager.append(name, rows_for(manager, name))
    drop = data.draw(st.booleans())
    declared = TableConfig.model_validate(data.draw(declarations(former=first["columns"])))
    plan = manager.plan_declaration(name, declared, drop_columns=drop)
    before = manager.load_table(name).metadata_location
    if plan.impossible:
        with pytest.raises(Exception, match="nothing was changed"):
            manager.apply_declaration(name, declared, drop_columns=drop)
        assert manager.load_table(name).metadata_location == before
        return
    done = manager.apply_declaration(name, declared, drop_columns=drop)
    assert done.changed == bool(plan.made)
    assert (manager.load_table(name).metadata_location != before) == done.changed
    left = [item for item in manager.detect_drift(name, declared).items if drop or item.remedy is not DriftRemedy.FLAG]
    assert left == []
    assert not manager.apply_declaration(name, declared, drop_columns=drop).changed
    assert manager.scan(name).num_rows == (2 if written else 0)
    manager.append(name, rows_for(manager, name))
    assert manager.scan(name).num_rows == (4 if written else 2)
    assert_audited(manager, name)
