"""Batches that may run in parallel."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest
from dagster import AssetKey

from floe_core.compile import compile_project
from floe_dagster.runs.batch_runs import groups
from floe_dagster.runs.batches import Batch
from floe_dagster.runs.pipeline import Pipeline

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

ASSETS = """
    import dagster as dg
    import pyarrow as pa

    DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-07")
    BY_DAY = {"partitions_def": DAYS}
    YESTERDAY = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
    ALL = dg.AllPartitionMapping()

    def reading(name, mapping=None):
        return {"rows": dg.AssetIn(["bronze", name], partition_mapping=mapping)}

    @dg.asset(key_prefix="bronze", **BY_DAY)
    def raw() -> pa.Table: ...

    @dg.asset(key_prefix="silver", ins=reading("raw"), **BY_DAY)
    def same_day(rows: pa.Table) -> pa.Table: ...

    @dg.asset(key_prefix="silver", ins=reading("raw", dg.IdentityPartitionMapping()), **BY_DAY)
    def same_key(rows: pa.Table) -> pa.Table: ...

    @dg.asset(key_prefix="silver", ins=reading("raw", YESTERDAY), **BY_DAY)
    def day_before(rows: pa.Table) -> pa.Table: ...

    @dg.asset(key_prefix="silver", ins=reading("raw", ALL), **BY_DAY)
    def every_day(rows: pa.Table) -> pa.Table: ...

    @dg.asset(key_prefix="silver", **BY_DAY, ins={
        "own": dg.AssetIn(["silver", "running"], partition_mapping=YESTERDAY),
    })
    def running(own: pa.Table) -> pa.Table: ...

    @dg.asset(key_prefix="silver", metadata={"write_mode": "append"}, **BY_DAY)
    def appended() -> pa.Table: ...

    @dg.asset(key_prefix="silver", metadata={"write_mode": "upsert", "upsert_keys": ["id"]}, **BY_DAY)
    def upserted() -> pa.Table: ...

    @dg.asset(key_prefix="gold", metadata={"write_mode": "overwrite"})
    def whole() -> pa.Table: ...
"""


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    (folder / "assets_in_groups.py").write_text(dedent(ASSETS))
    (folder / "floe.yaml").write_text("schema_version: 1\nname: shop\norchestration: {module: assets_in_groups}\n")
    before = list(sys.path)
    yield Pipeline.of(compile_project(folder))
    sys.path[:] = before


def batch(names, *partitions):
    return Batch(tuple(AssetKey(name.split(".")) for name in names.split()), partitions)


def sizes(pipeline, *batches):
    return [len(group) for group in groups(pipeline, batches)]


@pytest.mark.parametrize(
    "names",
    [
        "bronze.raw",
        "bronze.raw silver.same_day",
        "bronze.raw silver.same_key",
        "silver.appended",
        # Its inputs were written before, and no batch writes them now.
        "silver.day_before",
        "silver.every_day",
    ],
)
def test_partitions_run_beside_each_other(pipeline, names):
    assert sizes(pipeline, batch(names, "2026-01-01"), batch(names, "2026-01-02"), batch(names, "2026-01-03")) == [3]


@pytest.mark.parametrize(
    "names",
    [
        "bronze.raw silver.day_before",
        "bronze.raw silver.every_day",
        "silver.running",
        "silver.upserted",
        "silver.appended silver.upserted",
    ],
)
def test_partitions_that_meet_run_in_order(pipeline, names):
    assert sizes(pipeline, batch(names, "2026-01-01"), batch(names, "2026-01-02")) == [1, 1]


def test_batches_of_one_partition_run_in_order(pipeline):
    first, again = batch("bronze.raw", "2026-01-01", "2026-01-02"), batch("silver.same_day", "2026-01-02")
    assert sizes(pipeline, first, again, batch("silver.same_day", "2026-01-03")) == [1, 2]


def test_what_is_read_by_another_batch_is_written_before(pipeline):
    assert sizes(pipeline, batch("bronze.raw", "2026-01-01"), batch("silver.day_before", "2026-01-02")) == [1, 1]


def test_assets_without_partitions_run_alone(pipeline):
    days = [batch("bronze.raw", "2026-01-01"), batch("bronze.raw", "2026-01-02")]
    assert sizes(pipeline, *days, batch("gold.whole"), batch("silver.same_day", "2026-01-03")) == [2, 1, 1]
