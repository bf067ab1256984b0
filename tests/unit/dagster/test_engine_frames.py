"""The engine is consulted only about its own frames, never about Arrow data."""

from __future__ import annotations

import importlib
from typing import Any, Optional

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from floe_core.errors import CapabilityError, FloeStorageError, InvalidDataError, InvalidScanError
from floe_core.plugins import PLUGIN_API_VERSION, ComputePlugin, PluginRegistry
from floe_core.schemas import CheckConfig, ComputeConfig
from floe_dagster.assets.sql_models import load_sql_models
from floe_dagster.engine import ProjectEngine, reason_of
from floe_dagster.gate.checks import expand_checks
from floe_dagster.io.frames import EngineFrame, is_engine_annotation, plane_of
from floe_dagster.io.inputs import InputSelection, bare, load, load_nothing
from floe_iceberg import IcebergTableManager
from floe_spark.plane.plane import SparkDataPlane
from floe_spark.session.settings import SparkSettings

ROWS = pa.table({"id": [1, 2, 3]})


class Other(ComputePlugin):
    """An engine with another dialect."""

    name = "other"
    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION
    sql_dialect = "postgres"

    def data_plane(self, config, **options):
        pytest.fail("the engine was opened")


@pytest.fixture
def unopened(catalog):
    """Give a manager whose engine must not be opened."""
    return IcebergTableManager(catalog, compute=Other())


@pytest.fixture
def on_spark(catalog, tmp_path):
    """Give a manager whose engine is Spark, which is not started."""
    settings = SparkSettings("local[1]", tmp_path)
    return IcebergTableManager(catalog, compute=SparkDataPlane(settings, catalog_name="lake", conf={}))


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        ROWS.to_batches()[0],
        ROWS.to_reader(),
        ROWS.to_pandas(),
        pl.from_arrow(ROWS),
        pl.from_arrow(ROWS).lazy(),
        [{"id": 1}],
        [1, 2],
        pd.Series([1]),
    ],
    ids=lambda data: f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}",
)
def test_data_that_arrow_takes_opens_no_engine(data, unopened):
    assert plane_of(unopened, data) is None


@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatchReader, pd.DataFrame, pl.DataFrame, pl.LazyFrame, Any, None])
def test_inputs_that_arrow_gives_open_no_engine(kind, unopened):
    unopened.create_namespace("a")
    unopened.create_table("a.b", ROWS.schema)
    load(unopened, "a.b", kind, InputSelection(), None)
    load_nothing(unopened, "a.missing", kind)


@pytest.mark.parametrize("module", ["pyspark.sql", "pyspark.sql.classic.dataframe", "pyspark.sql.connect.dataframe"])
def test_spark_recognizes_annotations_with_its_frames(module, on_spark):
    frame = importlib.import_module(module).DataFrame
    assert is_engine_annotation(on_spark, frame)
    assert is_engine_annotation(on_spark, bare(Optional[frame]))  # noqa: UP045 - as Dagster users write it


@pytest.mark.parametrize("kind", [dict, int, "pyspark.sql.DataFrame"])
def test_other_annotations_are_not_frames_of_the_engine(kind, on_spark):
    assert not is_engine_annotation(on_spark, kind)
    with pytest.raises(
        InvalidScanError, match=r"Use one of these annotations: pyarrow\.Table.* or a frame of the engine\."
    ):
        load(on_spark, "a.b", kind, InputSelection(), None)


def test_an_annotation_for_any_engine_needs_no_engine_to_be_recognized(unopened):
    assert is_engine_annotation(unopened, EngineFrame)


def test_without_an_engine_data_of_no_known_kind_is_refused(materialize):
    @dg.asset
    def orders():
        return object()

    with pytest.raises(InvalidDataError, match="object"):
        materialize(orders)


def test_a_frame_of_an_engine_that_cannot_open_the_catalog_names_the_catalog(tables):
    frame = type("DataFrame", (), {"columns": ("id",)})()
    with pytest.raises(CapabilityError, match="SqlCatalog"):
        plane_of(tables, frame)


def test_without_an_engine_other_annotations_are_refused_with_the_reason(tables):
    with pytest.raises(InvalidScanError, match=r"or a frame of the engine, which is not available \(.*SqlCatalog"):
        load(tables, "a.b", dict, InputSelection(), None)
    with pytest.raises(FloeStorageError):
        load_nothing(tables, "a.b", EngineFrame)


def test_the_name_and_the_dialect_of_the_engine_come_from_its_plugin():
    registry = PluginRegistry(source=list)
    registry.register(Other())
    assert ProjectEngine.of(ComputeConfig(type="other"), registry) == ProjectEngine("other", "postgres")
    assert ProjectEngine.of() == ProjectEngine("spark", "spark")
    assert ProjectEngine.of(ComputeConfig(type="missing"), registry) == ProjectEngine("missing", "")


def test_conditions_and_models_are_written_in_the_dialect_of_the_engine(tmp_path):
    check = CheckConfig.model_validate({"type": "expression", "expression": '"odd name"::int > 0'})
    [found] = expand_checks([check], table="a.b", sql_dialect="postgres")
    assert found.conditions[0].columns == ("odd name",)
    file = tmp_path / "models" / "gold" / "daily.sql"
    file.parent.mkdir(parents=True)
    file.write_text('select id::int from silver."orders"')
    seen = {}

    class Plane:
        def query(self, frames, text):
            seen.update(frames, text=text(dict.fromkeys(frames, "v")))
            return ROWS

    engine = ProjectEngine("other", "postgres")
    [model] = load_sql_models(tmp_path / "models", tmp_path, [], engine=engine)
    assert model.get_asset_spec().kinds == {"sql", "other"}
    context = type("Context", (), {"plane": Plane})
    tables = type("Tables", (), {"context": context()})()
    model(dg.build_asset_context(resources={"tables": tables}), table_0="rows")
    assert seen == {"silver.orders": "rows", "text": 'select id::int from "v" AS "orders"'}


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        ("pyspark.errors.AnalysisException", "[X] no such column. SQLSTATE: 42703;\n'Plan", "[X] no such column."),
        ("builtins.ValueError", "wrong", None),
    ],
)
def test_an_error_of_an_engine_is_explained_by_its_plugin(kind, message, reason):
    assert reason_of(kind, message) == reason
