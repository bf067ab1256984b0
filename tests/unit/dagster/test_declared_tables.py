"""Runs on tables that differ from floe.yaml: safe changes are applied, others stop the run before it writes."""

import dagster as dg
import pyarrow as pa
import pytest

from floe_core.declaration.drift import DriftRemedy
from floe_core.errors import ConfigurationError, InvalidDataError
from floe_core.schemas import TableConfig
from floe_dagster import IcebergIOManager
from floe_dagster.io.tables_source import TablesSource

TABLE = "public.orders"
COLUMNS = [{"name": "id", "type": "long"}, {"name": "region", "type": "string"}]


@pytest.fixture
def run(materialize, tables):
    """Write rows under a declaration."""

    def write(rows, columns=COLUMNS, metadata=None, **declared):
        config = TableConfig.model_validate({"columns": columns, **declared})

        @dg.asset(name="orders", metadata={"write_mode": "append", **(metadata or {})})
        def asset() -> pa.Table:
            return pa.Table.from_pylist(rows)

        source = TablesSource(lambda: tables, declared={TABLE: config})
        materialize(asset, io=IcebergIOManager(source=source))
        return [item for item in tables.detect_drift(TABLE, config).items if item.remedy is not DriftRemedy.FLAG]

    return write


def names(tables):
    return tables.load_table(TABLE).schema().column_names


def test_safe_differences_are_made_before_the_write(run, tables):
    run([{"id": 1, "region": "north"}])
    columns = [
        {"name": "note", "type": "string"},
        {"name": "id", "type": "long", "doc": "Key."},
        {"name": "region", "type": "string"},
    ]
    assert run([{"id": 2, "region": None}], columns, partition_by=["region"], sort_by=["id"], description="D.") == []
    assert names(tables) == ["note", "id", "region"]
    assert sorted(row["id"] for row in tables.scan(TABLE).to_pylist()) == [1, 2]


def test_a_pending_rename_stops_the_run(run, tables):
    run([{"id": 1, "region": "north"}])
    before = tables.load_table(TABLE).metadata_location
    columns = [COLUMNS[0], {"name": "area", "type": "string", "renamed_from": "region"}]
    for row in ({"id": 2, "area": "south"}, {"id": 2, "region": "south"}):
        with pytest.raises(ConfigurationError, match="declared as 'area'") as caught:
            run([row], columns)
        assert "floe apply" in caught.value.hint
    assert tables.load_table(TABLE).metadata_location == before
    tables.apply_declaration(TABLE, TableConfig.model_validate({"columns": columns}))
    assert run([{"id": 2, "area": "south"}], columns) == []
    assert names(tables) == ["id", "area"]


@pytest.mark.parametrize(
    "column",
    [
        {"name": "region", "type": "long"},
        {"name": "region", "type": "string", "required": True},
        {"name": "region", "type": "list<string>"},
    ],
    ids=["type", "required", "nested"],
)
def test_what_cannot_be_stops_the_run(run, tables, column):
    run([{"id": 1, "region": "north"}, {"id": 2, "region": None}])
    before = tables.load_table(TABLE).metadata_location
    with pytest.raises(ConfigurationError, match="nothing was written"):
        run([{"id": 3, "region": "south"}], [COLUMNS[0], column])
    assert tables.load_table(TABLE).metadata_location == before


def test_a_type_that_the_data_widened_does_not_stop_the_next_run(run, tables):
    columns = [{"name": "id", "type": "int"}, COLUMNS[1]]
    for _ in range(2):
        [left] = run([{"id": 5_000_000_000, "region": "north"}], columns)
        assert (left.path, left.actual, left.remedy) == ("id", "long", DriftRemedy.NONE)
    with pytest.raises(ConfigurationError, match="id: declared int, actual long"):
        tables.apply_declaration(TABLE, TableConfig.model_validate({"columns": columns}))


def test_columns_of_the_data_that_are_not_declared_are_kept(run, tables):
    run([{"id": 1, "region": "north", "more": 1}])
    assert run([{"id": 2, "region": "north", "more": 2}]) == []
    assert names(tables) == ["id", "region", "more"]


def test_keys_and_protection_of_files_are_not_a_runs_to_change(run, tables):
    run([{"id": 1, "region": "north"}], properties={"gc.enabled": "false"})
    left = run([{"id": 1, "region": "north"}], keys=["id"], properties={"gc.enabled": "true"})
    assert {item.path for item in left} == {"keys", "gc.enabled"}
    assert tables.load_table(TABLE).properties["gc.enabled"] == "false"


def test_properties_of_the_asset_come_before_those_of_the_declaration(run, tables):
    metadata = {"table_properties": {"owner": "asset"}}
    for _ in range(2):
        run([{"id": 1, "region": "north"}], metadata=metadata, properties={"owner": "yaml"})
        assert tables.load_table(TABLE).properties["owner"] == "asset"
    before = len(tables.load_table(TABLE).metadata.metadata_log)
    run([{"id": 1, "region": "north"}], metadata=metadata, properties={"owner": "yaml"})
    assert len(tables.load_table(TABLE).metadata.metadata_log) == before + 1


def test_a_partitioned_asset_keeps_the_partitioning_that_nobody_declared(materialize, tables):
    config = TableConfig.model_validate({"columns": [{"name": "id", "type": "long"}, {"name": "day", "type": "date"}]})

    @dg.asset(name="orders", partitions_def=dg.DailyPartitionsDefinition("2026-01-01"))
    def asset() -> pa.Table:
        return pa.table({"id": [1], "day": pa.array(["2026-01-01"]).cast(pa.date32())})

    source = TablesSource(lambda: tables, declared={TABLE: config})
    for _ in range(2):
        materialize(asset, io=IcebergIOManager(source=source), partition_key="2026-01-01")
        assert [str(field.transform) for field in tables.load_table(TABLE).spec().fields] == ["day"]
    assert tables.detect_drift(TABLE, config).items == ()
    tables.apply_declaration(TABLE, config)
    assert len(tables.load_table(TABLE).spec().fields) == 1


def test_nulls_never_loosen_a_column_that_is_declared_required(run, tables):
    columns = [{"name": "id", "type": "long", "required": True}, {"name": "region", "type": "string"}]
    run([{"id": 1, "region": "north"}], columns)
    with pytest.raises(InvalidDataError, match="'id' is required but contains 1 nulls"):
        run([{"id": 2, "region": None}, {"id": None, "region": None}], columns)
    assert tables.load_table(TABLE).schema().find_field("id").required
    assert run([{"id": 2, "region": None}], columns) == []
