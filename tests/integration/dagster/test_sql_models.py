"""SQL models of a project, run by Spark."""

from __future__ import annotations

import pytest

from floe_core.errors import ConfigurationError
from floe_dagster.runs.batches import batches_of
from floe_dagster.runs.home import open_instance
from floe_dagster.runs.materialize import combined, run_assets
from floe_dagster.runs.pipeline import PartitionChoice, Pipeline
from floe_iceberg import IcebergTableManager

pytestmark = pytest.mark.spark

ASSETS = """\
import pyarrow as pa
from dagster import DailyPartitionsDefinition, asset

DAYS = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-04")


@asset(key=["silver", "orders"], partitions_def=DAYS)
def orders(context) -> pa.Table:
    day = pa.array([context.partition_key] * 2).cast(pa.date32())
    return pa.table({"day": day, "customer": ["ann", "bob"], "total": [1, 10]})


@asset(key=["bronze", "people"], metadata={"write_mode": "overwrite"})
def people() -> pa.Table:
    return pa.table({"name": ["ann", "bob"], "city": ["Oslo", "Rome"]})
"""
BY_CITY = """\
/* floe:
description: What each city spent, by day.
partitions: silver.orders
*/
with spent as (select day, customer, total from silver.orders)
select day, people.city, sum(total) as total
from spent join bronze.people on people.name = spent.customer
group by day, people.city
"""
BEST = """\
/* floe:
write_mode: overwrite
*/
select max_by(city, total) as city, count(*) as lines from gold.by_city
"""


@pytest.fixture
def project(new_project, tmp_path, request):
    module = f"models_of_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{module}.py").write_text(ASSETS)
    for name, text in {"by_city": BY_CITY, "best": BEST}.items():
        file = tmp_path / "models" / "gold" / f"{name}.sql"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return new_project(
        orchestration={"module": module}, tables={"gold.by_city": {"checks": [{"type": "row_count", "min": 1}]}}
    )


def run(project, first, last):
    pipeline = Pipeline.of(project)
    with open_instance(project) as instance:
        batches = batches_of(pipeline, pipeline.keys, PartitionChoice(first, last), instance)
        return combined([run_assets(pipeline, instance, one.keys, one.partitions) for one in batches])


def test_models_are_assets_among_the_others(project):
    outcome = run(project, "2026-01-01", "2026-01-02")
    assert {asset.table: asset.state.value for asset in outcome.assets} == {
        "bronze.people": "written",
        "silver.orders": "written",
        "gold.by_city": "published",
        "gold.best": "written",
    }
    assert run(project, "2026-01-02", "2026-01-03").success
    with IcebergTableManager.from_artifacts(project) as tables:
        rows = sorted(tables.scan("gold.by_city").select(["city", "total"]).to_pylist(), key=lambda row: row["city"])
        assert rows == [{"city": "Oslo", "total": 1}] * 3 + [{"city": "Rome", "total": 10}] * 3
        assert tables.scan("gold.best").to_pylist() == [{"city": "Rome", "lines": 6}]


def test_a_mistake_in_a_query_fails_its_asset_with_the_reason(project, tmp_path):
    (tmp_path / "models" / "gold" / "best.sql").write_text(BEST.replace("max_by(city", "max_by(town"))
    outcome = run(project, "2026-01-01", "2026-01-01")
    assert not outcome.success
    reasons = {asset.table: asset.reason for asset in outcome.assets}
    assert "town" in reasons["gold.best"]


def test_a_model_without_partitions_has_to_say_how_it_is_written(project, tmp_path):
    (tmp_path / "models" / "gold" / "best.sql").write_text("select 1 as one")
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.of(project)
    assert "write_mode" in str(caught.value.problems[0])
