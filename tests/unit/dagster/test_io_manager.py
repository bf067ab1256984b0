"""Outputs and inputs as frames that need no engine."""

from __future__ import annotations

from typing import Any, Optional

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pydantic import SecretStr

from floe_core.errors import (
    CatalogConnectionError,
    ConfigurationError,
    InvalidDataError,
    InvalidScanError,
    SchemaEvolutionError,
    SecretReferenceError,
    TableNotFoundError,
    WriteError,
)
from floe_dagster import IcebergIOManager, IcebergIOManagerConfig, columns, create_io_manager
from floe_iceberg import WriteMode
from floe_polaris import PolarisCatalogConfig

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})

FRAMES = {
    "arrow": (pa.Table, lambda rows: rows),
    "reader": (pa.RecordBatchReader, lambda rows: rows.to_reader(max_chunksize=2)),
    "pandas": (pd.DataFrame, lambda rows: rows.to_pandas()),
    "polars": (pl.DataFrame, pl.from_arrow),
    "polars-lazy": (pl.LazyFrame, lambda rows: pl.from_arrow(rows).lazy()),
}


def as_rows(frame):
    if isinstance(frame, pa.RecordBatchReader):
        frame = frame.read_all()
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pl.DataFrame):
        frame = frame.to_arrow()
    if isinstance(frame, pd.DataFrame):
        frame = pa.Table.from_pandas(frame, preserve_index=False)
    return sorted(frame.to_pylist(), key=str)


def producer(value, *, name="orders", annotation=Any, **options):
    def compute():
        return value() if callable(value) else value

    compute.__annotations__["return"] = annotation
    return dg.asset(name=name, **options)(compute)


def consumer(annotation, seen, *, metadata=None, name="orders", **options):
    def compute(orders):
        seen.append(orders)

    compute.__annotations__ = {"orders": annotation, "return": None}
    ins = {"orders": dg.AssetIn(key=name, metadata=metadata, **options)}
    return dg.asset(name="report", ins=ins)(compute)


@pytest.mark.req("FR-024", "FR-025", "SC-007", "API-03")
@pytest.mark.parametrize("written", FRAMES)
@pytest.mark.parametrize("read", FRAMES)
def test_every_kind_of_frame_is_written_and_read_as_every_other(written, read, materialize):
    seen: list[Any] = []
    source_type, make = FRAMES[written]
    target_type, _ = FRAMES[read]
    orders = producer(lambda: make(ROWS), annotation=source_type)
    assert materialize(orders, consumer(target_type, seen)).success
    assert isinstance(seen[0], target_type)
    assert as_rows(seen[0]) == ROWS.to_pylist()


@pytest.mark.req("FR-025")
@pytest.mark.parametrize(
    ("annotation", "kind"),
    [(Any, pa.Table), (Optional[pd.DataFrame], pd.DataFrame)],  # noqa: UP045 - Dagster refuses X | None
    ids=["any", "optional"],
)
def test_annotations_that_name_no_kind_of_their_own(annotation, kind, materialize):
    seen: list[Any] = []
    materialize(producer(ROWS), consumer(annotation, seen))
    assert isinstance(seen[0], kind)


def test_an_annotation_that_cannot_be_served_is_refused_with_those_that_can(materialize):
    result = materialize(producer(ROWS), consumer(dict, []), raise_on_error=False)
    [failure] = result.filter_events(lambda event: event.is_step_failure)
    cause = failure.step_failure_data.error
    assert "floe cannot load inputs as" in str(cause)
    assert "pandas.DataFrame" in str(cause)


@pytest.mark.req("FR-024")
def test_none_writes_nothing(materialize, catalog):
    assert materialize(producer(None)).success
    assert not catalog.namespace_exists("public")


@pytest.mark.req("FR-024")
@pytest.mark.parametrize("kind", FRAMES)
def test_an_empty_frame_makes_an_empty_table(kind, materialize, tables):
    materialize(producer(lambda: FRAMES[kind][1](ROWS.cast(ROWS.schema).slice(0, 0))))
    assert tables.scan("public.orders").num_rows == 0


def test_a_frame_without_columns_writes_nothing(materialize, tables):
    assert materialize(producer(pd.DataFrame())).success
    assert not tables.table_exists("public.orders")
    materialize(producer(ROWS))
    assert materialize(producer(pd.DataFrame())).success
    assert tables.scan("public.orders").num_rows == 3


def test_what_is_no_frame_is_refused(materialize):
    with pytest.raises(InvalidDataError, match="floe cannot write data of type int"):
        materialize(producer(7))


@pytest.mark.req("FR-029")
def test_a_materialisation_says_what_it_wrote(materialize, metadata_of, tables):
    seen = metadata_of(materialize(producer(ROWS)), "orders")
    current = tables.get_current_snapshot("public.orders")
    assert seen["table"] == "public.orders"
    assert seen["num_rows"] == 3
    assert seen["snapshot_id"] == current.snapshot_id
    assert seen["dagster/row_count"] == 3
    assert seen["dagster/table_name"] == "lake.public.orders"
    assert [(c.name, c.type) for c in seen["dagster/column_schema"].columns] == [("id", "long"), ("name", "string")]
    assert seen["engine"] == "arrow"
    assert seen["files"] == 1
    assert seen["bytes"] > 0
    assert seen["snapshot"] == current.manifest_list
    assert seen["operation_id"].startswith("dagster:orders:")
    again = metadata_of(materialize(producer(ROWS.slice(0, 1))), "orders")
    assert (again["num_rows"], again["dagster/row_count"]) == (1, 4)


def test_a_write_that_changes_nothing_reports_no_rows(materialize, metadata_of):
    materialize(producer(ROWS))
    seen = metadata_of(materialize(producer(ROWS.slice(0, 0))), "orders")
    assert (seen["num_rows"], seen["files"], seen["dagster/row_count"]) == (0, 0, 3)


@pytest.mark.req("FR-030")
def test_assets_append_by_default_and_overwrite_when_told(materialize, tables, io_manager):
    materialize(producer(ROWS))
    materialize(producer(ROWS))
    assert tables.scan("public.orders").num_rows == 6
    materialize(producer(ROWS, metadata={"write_mode": "overwrite"}))
    assert tables.scan("public.orders").num_rows == 3
    overwriting = IcebergIOManager(table_manager=tables, default_write_mode=WriteMode.OVERWRITE)
    materialize(producer(ROWS.slice(0, 1)), io=overwriting)
    assert tables.scan("public.orders").num_rows == 1
    materialize(producer(ROWS, metadata={"write_mode": WriteMode.APPEND}), io=overwriting)
    assert tables.scan("public.orders").num_rows == 4


@pytest.mark.req("FR-030")
def test_a_step_can_choose_the_mode_of_one_output(materialize, tables):
    materialize(producer(ROWS))
    chosen = dg.Output(ROWS, metadata={"write_mode": "overwrite"})
    materialize(producer(chosen, annotation=dg.Output[pa.Table]))
    assert tables.scan("public.orders").num_rows == 3


@pytest.mark.req("TM-06")
@pytest.mark.parametrize(
    "metadata",
    [
        {"write_mode": "upsert", "upsert_keys": ["id"]},
        {"write_mode": "upsert", "upsert_keys": "id"},
        {"write_mode": "upsert", "upsert_options": {"join_cols": ["id"], "when_matched_update_all": True}},
    ],
    ids=["keys", "key", "dagster-iceberg"],
)
def test_upserts_replace_by_key(metadata, materialize, tables, metadata_of):
    materialize(producer(ROWS))
    update = pa.table({"id": [3, 4], "name": ["C", "D"]})
    seen = metadata_of(materialize(producer(update, metadata=metadata)), "orders")
    assert seen["num_rows"] == 2
    assert sorted(tables.scan("public.orders")["name"].to_pylist()) == ["C", "D", "a", "b"]


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"write_mode": "replace"}, "Use one of: append"),
        ({"write_mode": "upsert", "upsert_keys": 1}, "upsert_keys"),
        ({"upsert_options": ["id"]}, "must be a dict"),
        ({"upsert_options": {"when_matched_update_all": False}}, "update and insert"),
        ({"schema_update_mode": "drop"}, "never dropped"),
        ({"partition_column": 3}, "partition_column"),
    ],
)
def test_settings_that_cannot_be_are_refused(metadata, reason, materialize):
    result = materialize(producer(ROWS, metadata=metadata), raise_on_error=False)
    [failure] = result.filter_events(lambda event: event.is_step_failure)
    assert reason in str(failure.step_failure_data.error)


@pytest.mark.req("FR-020", "RD-03")
def test_tables_follow_new_columns_and_never_lose_old_ones(materialize, tables):
    materialize(producer(ROWS))
    materialize(producer(pa.table({"id": [4], "city": ["Rome"]})))
    assert tables.scan("public.orders").schema.names == ["id", "name", "city"]
    # dagster-iceberg's "update" drops columns that the data lacks; floe never drops columns.
    materialize(producer(pa.table({"id": [5]}), metadata={"schema_update_mode": "update"}))
    assert tables.scan("public.orders").schema.names == ["id", "name", "city"]


@pytest.mark.req("API-03")
def test_evolution_can_be_switched_off_for_all_or_for_one(materialize, tables, io_manager):
    materialize(producer(ROWS))
    wider = pa.table({"id": [4], "city": ["Rome"]})
    strict = IcebergIOManager(table_manager=tables, schema_evolution_enabled=False)
    with pytest.raises(SchemaEvolutionError, match="city"):
        materialize(producer(wider), io=strict)
    with pytest.raises(SchemaEvolutionError, match="city"):
        materialize(producer(wider, metadata={"schema_update_mode": "error"}))
    materialize(producer(wider, metadata={"schema_update_mode": "update"}), io=strict)
    assert tables.scan("public.orders").num_rows == 4


@pytest.mark.req("API-03")
def test_a_missing_table_is_an_error_when_creation_is_off(materialize, tables, catalog):
    frugal = IcebergIOManager(table_manager=tables, auto_create_tables=False)
    with pytest.raises(TableNotFoundError, match=r"public\.orders"):
        materialize(producer(ROWS), io=frugal)
    assert not catalog.namespace_exists("public")
    materialize(producer(ROWS))
    materialize(producer(ROWS), io=frugal)
    assert tables.scan("public.orders").num_rows == 6


@pytest.mark.req("API-03")
def test_reading_a_missing_table_is_an_error(materialize):
    orders = dg.AssetSpec("orders")
    with pytest.raises(TableNotFoundError):
        materialize(orders, consumer(pa.Table, []), selection=["report"])


def test_table_properties_are_set_at_creation_and_later(materialize, tables):
    materialize(producer(ROWS, metadata={"table_properties": {"owner": "sales"}}))
    assert tables.load_table("public.orders").properties["owner"] == "sales"
    materialize(producer(ROWS, metadata={"table_properties": {"owner": "finance", "tier": 1}}))
    properties = tables.load_table("public.orders").properties
    assert (properties["owner"], properties["tier"]) == ("finance", "1")


@pytest.mark.req("FR-022", "FR-023")
@pytest.mark.parametrize("kind", FRAMES)
def test_columns_and_filters_of_an_input_are_pushed_down(kind, materialize):
    seen: list[Any] = []
    metadata = {"columns": ["name"], "row_filter": "id > 1"}
    materialize(producer(ROWS), consumer(FRAMES[kind][0], seen, metadata=metadata))
    assert as_rows(seen[0]) == [{"name": "b"}, {"name": "c"}]


@pytest.mark.req("FR-021")
def test_an_input_reads_a_snapshot_a_moment_or_a_branch(materialize, tables):
    materialize(producer(ROWS))
    first = tables.get_current_snapshot("public.orders")
    tables.create_branch("public.orders", "side")
    tables.append("public.orders", ROWS, branch="side")
    materialize(producer(ROWS, metadata={"write_mode": "overwrite"}))
    materialize(producer(ROWS.slice(0, 1)))

    def read(**metadata):
        seen: list[Any] = []
        orders = dg.AssetSpec("orders")
        materialize(orders, consumer(pa.Table, seen, metadata=metadata), selection=["report"])
        return seen[0].num_rows

    assert read() == 4
    assert read(snapshot_id=first.snapshot_id) == 3
    assert read(snapshot_id=str(first.snapshot_id)) == 3
    assert read(branch="side") == 6
    assert read(as_of=first.timestamp_ms) == 3
    assert read(as_of=first.timestamp.astimezone().isoformat()) == 3


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"columns": "name"}, "must be a list of columns"),
        ({"columns": []}, "must be a list of columns"),
        ({"row_filter": 1}, "must be text"),
        ({"snapshot_id": "x"}, "must be a number"),
        ({"as_of": "yesterday"}, "must be a timestamp"),
    ],
)
def test_input_settings_that_cannot_be_are_refused(metadata, reason, materialize):
    with pytest.raises(ConfigurationError, match=reason):
        materialize(producer(ROWS), consumer(pa.Table, [], metadata=metadata))


def test_an_unknown_column_of_an_input_is_refused(materialize):
    with pytest.raises(InvalidScanError, match="Did you mean 'name'"):
        materialize(producer(ROWS), consumer(pa.Table, [], metadata={"columns": ["nmae"]}))


@pytest.mark.req("FR-022", "API-03")
def test_a_type_hint_can_name_the_columns(materialize, tables):
    schema = dg.TableSchema.from_name_type_dict({"id": "long"})
    documented = dg.DagsterType(
        lambda _context, _value: True, "Ids", typing_type=pa.Table, metadata={"dagster/column_schema": schema}
    )
    for hint in (columns(pa.Table, "id"), documented):
        seen: list[Any] = []
        materialize(producer(ROWS), consumer(hint, seen))
        assert seen[0].schema.names == ["id"]
    seen = []
    plain = IcebergIOManager(table_manager=tables, column_projection_enabled=False)
    materialize(producer(ROWS), consumer(columns(pa.Table, "id"), seen), io=plain)
    assert seen[0].schema.names == ["id", "name"]


def test_outputs_that_are_no_assets_go_by_their_names(tables, io_manager):
    @dg.op(out={"orders": dg.Out(), "items": dg.Out()})
    def extract():
        return ROWS, ROWS.slice(0, 1)

    @dg.op
    def count(orders: pd.DataFrame) -> pa.Table:
        return pa.table({"rows": [len(orders)]})

    @dg.job(resource_defs={"io_manager": io_manager.get_resource_definition()})
    def pipeline():
        orders, _ = extract()
        count(orders)

    assert pipeline.execute_in_process().success
    assert tables.list_tables("public") == ["count", "items", "orders"]
    assert tables.scan("public.count")["rows"].to_pylist() == [3]


@pytest.mark.req("FR-024")
def test_a_multi_asset_writes_every_table(materialize, tables):
    @dg.multi_asset(outs={"a": dg.AssetOut(key_prefix="bronze"), "b": dg.AssetOut(key_prefix="bronze")})
    def both():
        return ROWS, ROWS.slice(0, 1)

    materialize(both)
    assert tables.scan("bronze.a").num_rows == 3
    assert tables.scan("bronze.b").num_rows == 1


@pytest.mark.req("API-02", "FR-036")
def test_the_io_manager_has_the_fields_and_defaults_of_the_contract():
    manager = IcebergIOManager(catalog_uri="http://localhost:1/api/catalog", warehouse="wh")
    assert (manager.client_id, manager.client_secret, manager.token) == (None, None, None)
    assert (manager.default_namespace, manager.write_mode) == ("public", WriteMode.APPEND)
    assert manager.schema_evolution_enabled
    assert manager.auto_create_tables
    assert manager.partition_column is None
    config = IcebergIOManagerConfig(catalog_uri="http://localhost:1/api/catalog", warehouse="wh")
    shared = {"default_namespace", "write_mode", "schema_evolution_enabled", "auto_create_tables", "partition_column"}
    assert all(getattr(config, name) == getattr(manager, name) for name in shared)
    with pytest.raises(ValueError, match="frozen"):
        config.warehouse = "other"


def test_without_a_catalog_the_error_says_what_to_set(materialize):
    with pytest.raises(ConfigurationError, match="catalog_uri and warehouse"):
        materialize(producer(ROWS), io=IcebergIOManager())


def test_secrets_can_come_from_the_environment_and_are_never_shown(monkeypatch, catalog, materialize):
    monkeypatch.setenv("CATALOG_SECRET", "canary-from-env")
    direct = IcebergIOManager(
        catalog_uri="http://localhost:1/", warehouse="w", client_id="c", client_secret="canary-a", token="canary-b"
    )
    by_variable = IcebergIOManager(
        catalog_uri="http://localhost:1/", warehouse="w", client_id="c", client_secret=dg.EnvVar("CATALOG_SECRET")
    )
    config = IcebergIOManagerConfig(
        catalog_uri="http://localhost:1/", warehouse="w", client_id="c", client_secret="canary-c"
    )
    shown = [repr(x) + str(x) for x in (direct, by_variable, config, create_io_manager(config, catalog))]
    assert "canary" not in "".join(shown)
    # Dagster shows the fields of resources in its UI.
    for io in (direct, by_variable, create_io_manager(config)):
        assert "canary" not in str(io.get_resource_definition().config_schema.default_value)


SECRETS = {
    "text": lambda: "canary-1",
    "SecretStr": lambda: SecretStr("canary-1"),
    "EnvVar": lambda: dg.EnvVar("CATALOG_SECRET"),
    "configuration": lambda: {"env": "CATALOG_SECRET"},
}


@pytest.mark.req("API-02")
@pytest.mark.parametrize("form", SECRETS)
def test_a_secret_in_every_form_reaches_the_catalog_and_no_field(form, monkeypatch):
    monkeypatch.setenv("CATALOG_SECRET", "canary-1")
    secret = SECRETS[form]
    properties = {"s3.secret-access-key": secret(), "s3.region": "eu-west-1"}
    address = {"catalog_uri": "http://127.0.0.1:1/", "warehouse": "w"}
    by_client = IcebergIOManager(**address, client_id="c", client_secret=secret(), catalog_properties=properties)
    by_token = IcebergIOManager(**address, token=secret())

    @dg.asset
    def connected(io: IcebergIOManager) -> None:
        seen.append(io.catalog_connection)

    for io, field in ((by_client, "client_secret"), (by_token, "token")):
        shown = str(io.get_resource_definition().config_schema.default_value) + repr(io) + str(dict(io))
        assert "canary" not in shown
        seen: list[Any] = [io.catalog_connection]
        assert dg.materialize([connected], resources={"io": io}).success
        for connection in seen:
            assert connection[field].get_secret_value() == "canary-1"
        assert len(seen) == 2
    plain = {"s3.secret-access-key": "canary-1", "s3.region": "eu-west-1"}
    assert by_client.catalog_connection["properties"] == plain


@pytest.mark.parametrize("form", SECRETS)
def test_a_secret_in_every_form_reaches_the_catalog_by_the_factory(form, monkeypatch):
    monkeypatch.setenv("CATALOG_SECRET", "canary-1")
    config = IcebergIOManagerConfig(
        catalog_uri="http://127.0.0.1:1/", warehouse="w", client_id="c", client_secret=SECRETS[form]()
    )
    assert config.client_secret.get_secret_value() == "canary-1"
    assert PolarisCatalogConfig(uri="http://127.0.0.1:1/", token=config.client_secret).token.get_secret_value() == (
        "canary-1"
    )
    assert "canary" not in repr(config) + config.model_dump_json()


def test_a_variable_that_is_not_set_is_named_when_it_is_needed(monkeypatch):
    monkeypatch.delenv("CATALOG_SECRET", raising=False)
    address = {"catalog_uri": "http://127.0.0.1:1/", "warehouse": "w"}
    config = IcebergIOManagerConfig(**address, client_id="c", client_secret=dg.EnvVar("CATALOG_SECRET"))
    with pytest.raises(SecretReferenceError, match="CATALOG_SECRET is not set"):
        config.client_secret.get_secret_value()
    io = IcebergIOManager(**address, client_id="c", client_secret=dg.EnvVar("CATALOG_SECRET"))
    with (
        dg.build_input_context(asset_key="orders") as asked,
        pytest.raises(SecretReferenceError, match="CATALOG_SECRET is not set"),
    ):
        io.load_input(asked)


def test_settings_of_a_run_reach_the_copy_that_dagster_makes(tables):
    io = IcebergIOManager(table_manager=tables, default_namespace="silver", write_mode="overwrite")
    for _ in range(2):
        dg.materialize([producer(ROWS)], resources={"io_manager": io})
    assert tables.scan("silver.orders").num_rows == 3


def test_a_mistyped_setting_of_one_output_is_refused(materialize, tables):
    @dg.asset
    def orders():
        return dg.Output(ROWS, metadata={"write_mod": "overwrite", "team": "sales"})

    with pytest.raises(ConfigurationError, match="Did you mean 'write_mode'"):
        materialize(orders)
    assert not tables.table_exists("public.orders")


def test_a_step_that_returned_none_says_that_the_table_is_unchanged(materialize, metadata_of):
    @dg.asset
    def orders():
        return None

    said = metadata_of(materialize(orders), "orders")
    assert (said["table"], said["num_rows"]) == ("public.orders", 0)
    assert "unchanged" in said["note"]


def test_a_mistyped_key_of_an_input_is_refused_when_it_is_read(materialize):
    materialize(producer(ROWS))
    with pytest.raises(ConfigurationError, match="'row_filer' on input 'orders'"):
        materialize(
            dg.AssetSpec("orders"), consumer(pa.Table, [], metadata={"row_filer": "id = 1"}), selection=["report"]
        )


@pytest.mark.req("API-03", "API-13")
def test_a_catalog_that_fails_under_a_write_is_a_write_error(tmp_path, catalog, io_manager):
    io_manager.handle_output(dg.build_output_context(asset_key="orders"), ROWS)
    catalog.engine.dispose()
    (tmp_path / "catalog.db").write_bytes(b"not a database " * 500)
    with (
        dg.build_output_context(asset_key="orders") as output,
        pytest.raises(WriteError, match="The catalog 'lake' failed") as caught,
    ):
        io_manager.handle_output(output, ROWS)
    assert isinstance(caught.value, CatalogConnectionError)
    assert caught.value.exit_code == 2
    with dg.build_input_context(asset_key="orders") as asked, pytest.raises(CatalogConnectionError) as read:
        io_manager.load_input(asked)
    assert not isinstance(read.value, WriteError)


def test_outputs_of_one_name_of_two_steps_are_two_writes(tables, io_manager):
    def extract(name):
        @dg.op(name=name, out={"orders": dg.Out()})
        def compute():
            return ROWS

        return compute

    @dg.job(resource_defs={"io_manager": io_manager.get_resource_definition()})
    def pipeline():
        extract("first")()
        extract("second")()

    assert pipeline.execute_in_process().success
    assert tables.scan("public.orders").num_rows == 6
