"""The project in docs/reference/assets.md runs as written; on Arrow, except for its SQL model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from floe_core.config.sql_models import read_sql_models
from floe_dagster.runs.batches import batches_of
from floe_dagster.runs.home import open_instance
from floe_dagster.runs.materialize import combined, run_assets
from floe_dagster.runs.pipeline import Due, PartitionChoice, Pipeline
from floe_iceberg import IcebergTableManager

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "assets.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def shop(new_project, tmp_path, monkeypatch, request):
    """Give the page's project, with everything outside of it that it reads."""
    module = f"reference_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{module}.py").write_text("\n\n".join(blocks("python")))
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "2026-01-05.csv").write_text("at,item\n2026-01-05,tea\n2026-01-05,milk\n")
    (tmp_path / "rates.json").write_text(json.dumps([{"day": "2026-01-05", "currency": "NOK", "rate": 11.5}]))
    monkeypatch.setenv("RATES_URL", (tmp_path / "rates.json").as_uri())
    partner = SqlCatalog("partner", uri=f"sqlite:///{tmp_path}/partner.db", warehouse=f"file://{tmp_path}/partner")
    partner.create_namespace("sales")
    contracts = pa.table({"id": [1, 2], "text": ["a", "b"]})
    partner.create_table("sales.contracts", contracts.schema).append(contracts)
    partner.close()
    monkeypatch.setenv("PARTNER_CATALOG", f"sqlite:///{tmp_path}/partner.db")
    [sql] = blocks("sql")
    model = tmp_path / "models" / "gold" / "spending.sql"
    model.parent.mkdir(parents=True)
    model.write_text(sql)
    project = new_project(orchestration={"module": module})
    with IcebergTableManager.from_artifacts(project) as tables:
        tables.create_namespace("erp")
        suppliers = pa.table({"name": ["x", "y"], "active": [True, False]})
        tables.create_table("erp.suppliers", suppliers.schema)
        tables.append("erp.suppliers", suppliers)
    return project


@pytest.fixture
def run(shop):
    """Run a selection of the page's assets."""
    pipeline = Pipeline.of(shop)
    with open_instance(shop) as instance:
        instance.add_dynamic_partitions("shops", ["berlin", "rome"])

        def start(selection, first=None, last=None, *, due=None):
            choice = PartitionChoice(first, last or first, due)
            batches = batches_of(pipeline, pipeline.select(selection), choice, instance)
            return combined([run_assets(pipeline, instance, one.keys, one.partitions) for one in batches])

        start.instance = instance
        yield start


def states(outcome):
    return {asset.table: asset.state.value for asset in outcome.assets}


def rows(project, table):
    with IcebergTableManager.from_artifacts(project) as tables:
        return tables.scan(table).to_pylist()


WITHOUT_PARTITIONS = {
    "bronze.customers": 3,
    "silver.cities": 2,
    "bronze.clicks": 5000,
    "bronze.prices": 2,
    "silver.order_lines": 3,
    "bronze.rates": 1,
    "silver.suppliers": 1,
    "bronze.contracts": 2,
}


def test_reruns_of_assets_without_partitions_change_nothing(shop, run):
    for _ in range(2):
        outcome = run(",".join(WITHOUT_PARTITIONS))
        assert outcome.success
        assert states(outcome) == dict.fromkeys(WITHOUT_PARTITIONS, "written")
    assert {table: len(rows(shop, table)) for table in WITHOUT_PARTITIONS} == WITHOUT_PARTITIONS
    assert {row["city"]: row["people"] for row in rows(shop, "silver.cities")} == {"Oslo": 2, "Rome": 1}
    assert rows(shop, "silver.suppliers") == [{"name": "x", "active": True}]
    with IcebergTableManager.from_artifacts(shop) as tables:
        assert tables.load_table("silver.order_lines").properties["write.parquet.compression-codec"] == "zstd"
    assert run("public.recent_clicks").success
    assert len(rows(shop, "bronze.clicks")) == 1000


def test_partitions_of_every_kind_are_replaced(shop, run):
    assert run("bronze.customers").success
    assert states(run("bronze.orders", "2026-01-01", "2026-01-31")) == {"bronze.orders": "published"}
    for _ in range(2):
        assert run("bronze.orders,bronze.deliveries", "2026-01-05").success
        assert run("bronze.visits", "2026-01-05|north").success
    assert run("bronze.stock", "north").success
    assert run("bronze.tills", due=Due.ALL).success
    assert run("gold.big_orders,gold.turnover").success
    counts = {name: len(rows(shop, f"bronze.{name}")) for name in ("orders", "stock", "tills", "visits", "deliveries")}
    assert counts == {"orders": 31, "stock": 1, "tills": 2, "visits": 1, "deliveries": 2}
    assert sorted(row["id"] for row in rows(shop, "gold.big_orders")) == list(range(11, 32))
    assert rows(shop, "gold.turnover") == [{"total": 4960}]
    with IcebergTableManager.from_artifacts(shop) as tables:
        specs = {name: tables.load_table(f"bronze.{name}").spec().fields for name in counts}
    assert {name: [str(field.transform) for field in fields] for name, fields in specs.items()} == {
        "orders": ["day"],
        "stock": ["identity"],
        "tills": ["identity"],
        "visits": ["day", "identity"],
        "deliveries": ["day"],
    }


@pytest.fixture
def bad_orders(shop, tmp_path):
    """Make the page's orders break the page's check."""
    [module] = tmp_path.glob("reference_*.py")
    module.write_text(module.read_text().replace("[10 * day.day for", "[-10 * day.day for"))


def test_a_blocking_check_holds_the_rows_back(bad_orders, shop, run):
    assert run("bronze.customers").success
    assert states(run("bronze.orders", "2026-01-05")) == {"bronze.orders": "held back"}
    assert rows(shop, "bronze.orders") == []


def test_a_check_that_warns_is_listed_and_holds_nothing_back(shop, run):
    with IcebergTableManager.from_artifacts(shop) as tables:
        tables.create_namespace("bronze")
        tables.create_table("bronze.customers", pa.schema({"customer": pa.string(), "city": pa.string()}))
    [asset] = run("bronze.orders", "2026-01-05").assets
    assert asset.state.value == "published"
    assert [check.name for check in asset.checks if not check.passed] == ["there_are_customers"]


def test_the_model_of_the_page_is_an_asset(shop, tmp_path):
    [model] = read_sql_models(tmp_path / "models", tmp_path)
    assert model.config.write_mode == "overwrite"
    pipeline = Pipeline.of(shop)
    [key] = pipeline.select("gold.spending")
    assert pipeline.upstream(key) == [dg.AssetKey(["bronze", "customers"])]
    assert pipeline.spec(key).description == "What each city spent."


@pytest.mark.spark
@pytest.mark.live
def test_the_model_of_the_page_runs(shop, run):
    assert run("bronze.customers").success
    assert states(run("gold.spending")) == {"gold.spending": "written"}
    assert sorted(row["people"] for row in rows(shop, "gold.spending")) == [1, 2]


def documented(heading):
    """Return what the first column of the table under a heading names."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {
        name
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def test_every_figure_of_a_materialization_is_described(run):
    assert run("bronze.customers").success
    assert run("bronze.orders", "2026-01-05").success
    events = [
        run.instance.get_latest_materialization_event(dg.AssetKey(["bronze", key])) for key in ("customers", "orders")
    ]
    found = {name for event in events for name in event.asset_materialization.metadata}
    assert documented("Materialization metadata") == found | {"note"}
