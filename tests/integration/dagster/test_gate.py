"""Write, audit, publish: rows are published only after their checks pass."""

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from floe_core.errors import CapabilityError, ConfigurationError, RefNotFoundError
from floe_core.schemas import CheckConfig
from floe_dagster import audited, discard_staged, list_staged, publish_staged
from floe_iceberg.staging import staged

pytestmark = pytest.mark.spark

DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")


def check(kind, **settings):
    return CheckConfig.model_validate({"type": kind, **settings})


NO_NULLS = check("not_null", column="id")


def orders_asset(ids, **options):
    @dg.asset(name="orders", **options)
    def orders() -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int64())})

    return orders


@pytest.fixture
def run(io_manager):
    """Run an audited asset with whatever is downstream of it."""

    def execute(asset, *checks, downstream=(), own=(), **options):
        marked, gates = audited(asset, {asset.key: list(checks)}, asset_checks=own)
        definitions = dg.Definitions(
            assets=[marked, *downstream], asset_checks=gates, resources={"io_manager": io_manager}
        )
        job = definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(raise_on_error=False, **options)

    return execute


def verdicts(result):
    return {event.check_name: event.passed for event in result.get_asset_check_evaluations()}


def reader_of(seen):
    @dg.asset
    def report(orders: pa.Table) -> None:
        seen.append(sorted(orders["id"].to_pylist()))

    return report


def test_rows_that_pass_are_published_before_anybody_reads_them(run, tables):
    seen = []
    result = run(orders_asset([1, 2]), NO_NULLS, downstream=[reader_of(seen)])
    assert result.success
    assert verdicts(result) == {"not_null_id": True, "published": True}
    assert seen == [[1, 2]]
    assert [ref.name for ref in tables.list_refs("public.orders")] == ["main"]
    assert list_staged(tables, "public.orders") == []


def test_rows_that_fail_leave_main_untouched_and_stop_what_is_downstream(run, tables):
    seen = []
    assert run(orders_asset([1, 2]), NO_NULLS).success
    result = run(orders_asset([3, None]), NO_NULLS, downstream=[reader_of(seen)])
    assert not result.success
    assert verdicts(result) == {"not_null_id": False, "published": False}
    assert seen == []
    assert sorted(tables.scan("public.orders")["id"].to_pylist()) == [1, 2]
    [staged] = list_staged(tables, "public.orders")
    assert tables.scan("public.orders", ref=staged.branch).num_rows == 4
    [failed] = [e for e in result.get_asset_check_evaluations() if e.check_name == "published"]
    assert failed.metadata["branch"].value == staged.branch
    assert staged.branch in failed.metadata["publish"].value


def test_the_verdict_names_columns_that_came_with_rows_held_back(run, tables):
    assert run(orders_asset([1, 2]), NO_NULLS).success

    @dg.asset(name="orders")
    def wider() -> pa.Table:
        return pa.table({"id": pa.array([3, None], pa.int64()), "note": ["a", "b"]})

    result = run(wider, NO_NULLS)
    [verdict] = [e for e in result.get_asset_check_evaluations() if e.check_name == "published"]
    assert verdict.description.endswith("The table already has the new columns, which are null on main: note.")
    assert tables.scan("public.orders")["note"].to_pylist() == [None, None]


def test_the_first_write_of_all_waits_as_well(run, tables):
    assert not run(orders_asset([None]), NO_NULLS).success
    assert tables.scan("public.orders").num_rows == 0
    [staged] = list_staged(tables, "public.orders")
    assert tables.scan("public.orders", ref=staged.branch).num_rows == 1


def test_a_held_write_can_be_published_or_discarded_by_hand(run, tables):
    run(orders_asset([None, 1]), NO_NULLS)
    run(orders_asset([None, 2]), NO_NULLS)
    first, second = list_staged(tables, "public.orders")
    publish_staged(tables, "public.orders", first.branch)
    assert tables.scan("public.orders").num_rows == 2
    # Main has changed: the second write is repeated on top of it.
    publish_staged(tables, "public.orders", second.branch)
    assert sorted(tables.scan("public.orders")["id"].to_pylist(), key=str) == [1, 2, None, None]
    run(orders_asset([None, 3]), NO_NULLS)
    [third] = list_staged(tables, "public.orders")
    discard_staged(tables, "public.orders", third.branch)
    assert list_staged(tables, "public.orders") == []
    assert tables.scan("public.orders").num_rows == 4
    for call in (discard_staged, publish_staged):
        with pytest.raises(RefNotFoundError):
            call(tables, "public.orders", third.branch)
    with pytest.raises(RefNotFoundError, match="Staged writes: none"):
        discard_staged(tables, "public.orders", "main")


def test_warnings_and_checks_that_do_not_block_publish_all_the_same(run, tables):
    warned = check("not_null", column="id", severity="warn", name="warned")
    noted = check("not_null", column="id", blocking=False, name="noted")
    result = run(orders_asset([1, None]), warned, noted)
    assert result.success
    assert verdicts(result) == {"warned": False, "noted": False, "published": True}
    assert tables.scan("public.orders").num_rows == 2


def test_without_its_checks_the_asset_refuses_to_run(io_manager, tables):
    marked, gates = audited(orders_asset([1]), {dg.AssetKey("orders"): [NO_NULLS]})
    alone = dg.define_asset_job("alone", dg.AssetSelection.all().without_checks())
    definitions = dg.Definitions(
        assets=[marked], asset_checks=gates, jobs=[alone], resources={"io_manager": io_manager}
    )
    with pytest.raises(ConfigurationError, match="together with its checks"):
        definitions.resolve_job_def("alone").execute_in_process()
    assert not tables.table_exists("public.orders")


def test_a_catalog_without_branches_is_refused_before_the_first_write(run, tables, monkeypatch):
    monkeypatch.setattr(tables, "_context", __import__("dataclasses").replace(tables.context, branches=False))
    result = run(orders_asset([1]), NO_NULLS)
    [failure] = result.filter_events(lambda event: event.is_step_failure)
    assert CapabilityError.__name__ in failure.step_failure_data.error.to_string()
    assert not tables.table_exists("public.orders")


def test_checks_of_their_own_see_the_rows_that_wait(run, tables):
    asset = orders_asset([1, 2])
    seen = []

    @dg.asset_check(asset=asset, blocking=True)
    def few_rows(orders: DataFrame) -> dg.AssetCheckResult:
        seen.append(orders.count())
        return dg.AssetCheckResult(passed=seen[-1] <= 3, metadata={"rows": seen[-1]})

    assert run(asset, NO_NULLS, own=[few_rows]).success
    result = run(asset, NO_NULLS, own=[few_rows])
    assert verdicts(result) == {"few_rows": False, "not_null_id": True, "published": False}
    assert seen == [2, 4]
    assert tables.scan("public.orders").num_rows == 2


def daily(value, bad=(), **options):
    @dg.asset(name="orders", partitions_def=DAILY, **options)
    def orders(context) -> pa.Table:
        keys = context.partition_keys
        ids = [None if key in bad else value for key in keys]
        return pa.table({"id": pa.array(ids, pa.int64()), "day": keys}).set_column(
            1, "day", pa.array(keys).cast(pa.date32())
        )

    return orders


def ids_by_day(tables, **options):
    return {row["day"].day: row["id"] for row in tables.scan("public.orders", **options).to_pylist()}


@pytest.mark.req("FR-027")
def test_a_bad_partition_is_held_while_others_are_published(run, tables):
    for key in ("2024-01-01", "2024-01-02"):
        assert run(daily(1), NO_NULLS, partition_key=key).success
    assert not run(daily(2, bad=["2024-01-02"]), NO_NULLS, partition_key="2024-01-02").success
    assert run(daily(3), NO_NULLS, partition_key="2024-01-01").success
    assert ids_by_day(tables) == {1: 3, 2: 1}
    # The held-back partition is based on an older main; publishing it must not restore the first day.
    [staged] = list_staged(tables, "public.orders")
    publish_staged(tables, "public.orders", staged.branch)
    assert ids_by_day(tables) == {1: 3, 2: None}
    assert list_staged(tables, "public.orders") == []


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_when_main_moves_the_write_is_done_again_on_top_of_it(mode, run, tables, monkeypatch):
    """A second writer publishes between the check and the publication."""
    metadata = {"write_mode": mode, "upsert_keys": ["id"]}
    assert run(orders_asset([1, 2]), NO_NULLS).success
    original = staged.publish_branch
    checked = []

    def late(context, table, branch, **options):
        if not checked:
            checked.append(branch)
            tables.append("public.orders", pa.table({"id": pa.array([9], pa.int64())}))
        return original(context, table, branch, **options)

    monkeypatch.setattr(staged, "publish_branch", late)
    result = run(orders_asset([2, 3], metadata=metadata), NO_NULLS)
    assert result.success
    expected = {"append": [1, 2, 2, 3, 9], "overwrite": [2, 3], "upsert": [1, 2, 3, 9]}[mode]
    assert sorted(tables.scan("public.orders")["id"].to_pylist()) == expected
    assert [ref.name for ref in tables.list_refs("public.orders")] == ["main"]
    [operation] = {snapshot.summary["floe.operation-id"] for snapshot in tables.list_snapshots("public.orders", 1)}
    assert operation.startswith("dagster:orders:")


def test_a_redone_upsert_leaves_the_columns_alone_that_it_does_not_have(run, tables, monkeypatch):
    metadata = {"write_mode": "upsert", "upsert_keys": ["id"]}

    def asset(**columns):
        @dg.asset(name="orders", metadata=metadata)
        def orders() -> pa.Table:
            return pa.table(columns)

        return orders

    assert run(asset(id=[1, 2], price=[10, 10], stock=[5, 5]), NO_NULLS).success
    original = staged.publish_branch
    moved = []

    def late(context, table, branch, **options):
        if not moved:
            moved.append(branch)
            tables.upsert("public.orders", pa.table({"id": [1], "stock": [4]}), keys=["id"])
        return original(context, table, branch, **options)

    monkeypatch.setattr(staged, "publish_branch", late)
    assert run(asset(id=[1], price=[11]), NO_NULLS).success
    found = {row["id"]: (row["price"], row["stock"]) for row in tables.scan("public.orders").to_pylist()}
    assert found == {1: (11, 4), 2: (10, 5)}


def test_what_the_redone_write_makes_of_main_is_checked_again(run, tables, monkeypatch):
    unique = check("unique", column="id")
    assert run(orders_asset([1]), unique).success
    original = staged.publish_branch
    moved = []

    def late(context, table, branch, **options):
        if not moved:
            moved.append(branch)
            tables.append("public.orders", pa.table({"id": pa.array([2], pa.int64())}))
        return original(context, table, branch, **options)

    monkeypatch.setattr(staged, "publish_branch", late)
    result = run(orders_asset([2]), unique)
    assert verdicts(result) == {"unique_id": False, "published": False}
    assert sorted(tables.scan("public.orders")["id"].to_pylist()) == [1, 2]
    [waiting] = list_staged(tables, "public.orders")
    assert waiting.branch.endswith(".redo1")


def test_a_step_that_returns_nothing_has_nothing_to_publish(run, tables):
    @dg.asset(name="orders")
    def nothing():
        return None

    result = run(nothing, NO_NULLS)
    assert result.success
    assert verdicts(result) == {"not_null_id": True, "published": True}
    assert run(orders_asset([1]), NO_NULLS).success
    assert run(nothing, NO_NULLS).success
    assert tables.scan("public.orders").num_rows == 1


def test_the_gate_can_be_run_again_after_it_has_published(io_manager, tables):
    marked, gates = audited(orders_asset([1]), {dg.AssetKey("orders"): [NO_NULLS]})
    definitions = dg.Definitions(assets=[marked], asset_checks=gates, resources={"io_manager": io_manager})
    job = definitions.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process().success
    gate_only = job.get_subset(asset_selection=set(), asset_check_selection=set(gates[0].check_keys))
    assert gate_only.execute_in_process().success
    assert tables.scan("public.orders").num_rows == 1
