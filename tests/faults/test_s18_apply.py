"""S18: ``floe apply`` with concurrent changes and lost replies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import ConfigurationError
from floe_core.schemas import TableConfig
from floe_iceberg import IcebergTableManager, SchemaChange, SchemaChangeKind
from floe_testing.audit import assert_audited
from floe_testing.faults.database_faults import LANDED, RETRIED
from floe_testing.faults.gateway import COMMIT_PATH

BEFORE = TableConfig.model_validate(
    {
        "columns": [
            {"name": "id", "type": "int", "required": True},
            {"name": "region", "type": "string"},
            {"name": "day", "type": "date"},
        ],
        "keys": ["id"],
    }
)
AFTER = TableConfig.model_validate(
    {
        "description": "Orders.",
        "columns": [
            {"name": "id", "type": "long", "required": True, "doc": "Key."},
            {"name": "note", "type": "string"},
            {"name": "area", "type": "string", "renamed_from": "region"},
            {"name": "day", "type": "date"},
        ],
        "partition_by": ["month(day)", "area"],
        "sort_by": ["area", "id desc"],
        "keys": ["id"],
        "properties": {"owner": "sales"},
    }
)
ROWS = pa.table(
    {"id": [1, 2], "region": ["north", None], "day": [None, None]},
    schema=pa.schema([pa.field("id", pa.int32(), nullable=False), ("region", pa.string()), ("day", pa.date32())]),
)


def prepare(manager, name):
    manager.apply_declaration(name, BEFORE)
    manager.append(name, ROWS)
    return manager


def check(manager, name, *, schemas=2):
    assert manager.detect_drift(name, AFTER).items == ()
    metadata = manager.load_table(name).metadata
    assert len(metadata.schemas) == schemas
    assert len(metadata.partition_specs) == 2
    assert sorted(row["area"] or "" for row in manager.scan(name).to_pylist())[:2] == ["", "north"]
    assert_audited(manager, name)


def test_s18_an_append_meanwhile_is_kept(site, name):
    first, second = prepare(site.open_manager(), name), site.open_manager()
    with site.losing_races(first, lambda: second.append(name, ROWS.slice(0, 1))):
        first.apply_declaration(name, AFTER)
    assert first.scan(name).num_rows == 3
    check(first, name)


def test_s18_a_column_that_another_added_meanwhile_is_taken_as_it_is(site, name):
    first, second = prepare(site.open_manager(), name), site.open_manager()
    change = SchemaChange(kind=SchemaChangeKind.ADD, column="note", type="string")
    with site.losing_races(first, lambda: second.evolve_schema(name, [change])):
        first.apply_declaration(name, AFTER)
    check(first, name, schemas=3)


def test_s18_two_who_apply_the_same_make_one_change(site, name):
    first, second = prepare(site.open_manager(), name), site.open_manager()
    with site.losing_races(first, lambda: second.apply_declaration(name, AFTER)):
        first.apply_declaration(name, AFTER)
    check(first, name)


def test_s18_nulls_that_arrive_meanwhile_keep_a_column_optional(site, name):
    first, second = site.open_manager(), site.open_manager()
    wanted = {"columns": [{"name": "x", "type": "long", "required": True}]}
    first.apply_declaration(name, TableConfig.model_validate({"columns": [{"name": "x", "type": "long"}]}))
    first.append(name, pa.table({"x": [1]}))
    nulls = pa.table({"x": pa.array([None], pa.int64())})
    with (
        site.losing_races(first, lambda: second.append(name, nulls)),
        pytest.raises(ConfigurationError, match="may contain nulls"),
    ):
        first.apply_declaration(name, TableConfig.model_validate(wanted))
    assert not first.load_table(name).schema().find_field("x").required


@pytest.mark.parametrize("fault", [*LANDED, *RETRIED], ids=lambda fault: fault.name.lower())
def test_s01_a_doubtful_answer_of_the_database_is_settled(faulty, database, fault):
    prepare(faulty, "bronze.t")
    database.play([fault])
    assert faulty.apply_declaration("bronze.t", AFTER).changed
    check(faulty, "bronze.t")


@pytest.mark.parametrize("kind", [409, 503, "no answer"], ids=str)
def test_s01_s03_over_rest_a_landed_change_is_success_whatever_was_answered(gateway, connect, namespace, kind):
    manager = IcebergTableManager(connect())
    name = f"{namespace}.orders"
    prepare(manager, name)
    lose = {"method": "POST", "path": COMMIT_PATH, "times": 1, "after_forwarding": True}
    rule = gateway.cut(**lose) if kind == "no answer" else gateway.answer(kind, **lose)
    assert manager.apply_declaration(name, AFTER).changed
    assert rule.hits == 1
    check(manager, name)


def test_s04_over_rest_a_conflict_is_tried_again(gateway, connect, namespace):
    manager = IcebergTableManager(connect())
    name = f"{namespace}.orders"
    prepare(manager, name)
    rule = gateway.answer(409, method="POST", path=COMMIT_PATH, times=2)
    manager.apply_declaration(name, AFTER)
    assert rule.hits == 2
    check(manager, name)
