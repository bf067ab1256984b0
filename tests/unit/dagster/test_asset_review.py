"""Assets with unexpected effects are rejected before a run."""

from __future__ import annotations

import dagster as dg
import pytest

from floe_core.errors import ConfigurationError
from floe_core.schemas import CheckConfig, TableConfig
from floe_dagster.assets.review import ReadInput, WrittenAsset, require_valid
from floe_iceberg.models import WriteMode

DAYS = dg.DailyPartitionsDefinition("2026-01-01")
SAID = {"write_mode": "overwrite"}


def written(*key, table=None, default_mode=None, returns_rows=True, **options):
    spec = dg.AssetSpec(list(key), **options)
    return WrittenAsset(spec, table or ".".join(key), default_mode, returns_rows=returns_rows)


def problems_of(assets, declared=None):
    with pytest.raises(ConfigurationError) as caught:
        require_valid(assets, declared or {})
    assert caught.value.exit_code == 1
    return [problem.message for problem in caught.value.problems]


def test_an_asset_without_partitions_has_to_say_its_write_mode():
    [problem] = problems_of([written("gold", "daily")])
    assert "'gold/daily'" in problem
    assert "'append', 'overwrite', 'upsert'" in problem


@pytest.mark.parametrize(
    "asset",
    [
        written("gold", "daily", metadata=SAID),
        written("gold", "daily", partitions_def=DAYS),
        written("gold", "daily", returns_rows=False),
        written("gold", "daily", default_mode=WriteMode.OVERWRITE),
        written("gold", "daily", default_mode=WriteMode.APPEND),
        written("gold", "daily", metadata=SAID | {"team": "sales", "mode": "x", "dagster/write_mod": 1}),
    ],
    ids=[
        "said",
        "partitioned",
        "without rows",
        "said by the IO manager",
        "append said by the IO manager",
        "own metadata",
    ],
)
def test_assets_that_are_sound(asset):
    require_valid([asset], {})


@pytest.mark.parametrize(
    ("key", "meant"),
    [("write_mod", "write_mode"), ("upsert_key", "upsert_keys"), ("partition_colum", "partition_column")],
)
def test_a_mistyped_key_is_named_with_the_one_that_was_meant(key, meant):
    [problem] = problems_of([written("gold", "daily", metadata=SAID | {key: "x"})])
    assert f"'{key}'" in problem
    assert f"Did you mean '{meant}'?" in problem


def test_a_write_mode_that_does_not_exist_is_listed_with_the_others():
    first, second = problems_of([written("gold", "a", metadata={"write_mode": "replace"}), written("gold", "b")])
    assert "'replace'" in first
    assert "overwrite" in first
    assert "'gold/b'" in second


def test_two_assets_of_one_table_are_refused():
    assets = [
        written("a", "b", "c", table="a.b_c", metadata=SAID),
        written("a", "b_c", table="a.b_c", metadata=SAID),
    ]
    [problem] = problems_of(assets)
    assert "'a/b/c' and 'a/b_c'" in problem
    assert "'a.b_c'" in problem


def test_checks_that_no_asset_would_run_are_refused():
    checks = (CheckConfig(type="not_null", columns=("id",)),)
    declared = {"gold.dialy": TableConfig(checks=checks), "gold.other": TableConfig()}
    [problem] = problems_of([written("gold", "daily", metadata=SAID)], declared)
    assert "'gold.dialy'" in problem
    assert "Did you mean 'gold.daily'?" in problem


def test_all_problems_are_told_at_once():
    assert len(problems_of([written("gold", "a"), written("gold", "b", metadata={"write_mod": "append"})])) == 3


def reading(**metadata):
    return ReadInput("gold/daily", "orders", metadata, dg.PythonObjectDagsterType(object))


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"incremantal": True}, "Did you mean 'incremental'?"),
        ({"columns": "id"}, "must be a list of columns"),
        ({"incremental": True, "branch": "side"}, "sets both 'incremental' and a version of the table"),
    ],
)
def test_mistakes_in_what_an_input_asks_for_are_told_before_anything_runs(metadata, told):
    with pytest.raises(ConfigurationError) as caught:
        require_valid([written("gold", "daily", metadata=SAID)], {}, [reading(**metadata)])
    [problem] = caught.value.problems
    assert told in problem.message
    assert "nput 'orders' of asset 'gold/daily'" in problem.message


def test_own_metadata_of_inputs_is_left_alone():
    require_valid([written("gold", "daily", metadata=SAID)], {}, [reading(team="sales", columns=["id"])])
