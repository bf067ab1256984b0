"""The gate on Arrow data with custom checks: published rows, held-back rows, and reports."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import dagster as dg
import pyarrow as pa
import pytest

from floe_core.errors import ConfigurationError, RefNotFoundError
from floe_core.schemas import CheckConfig, CompiledArtifacts
from floe_dagster import IcebergIOManager, audited, create_iceberg_resources, list_staged
from floe_dagster.assets.settings import GATE_KEY
from floe_dagster.gate.publication import _Audit, failing_checks, plan_of
from floe_dagster.gate.results import CheckResults
from floe_iceberg.staging import staged as held

ORDERS = dg.AssetKey("orders")
TABLE = "public.orders"
DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
OVERWRITE = {"write_mode": "overwrite"}
RANGE = {"dagster/asset_partition_range_start": "2024-01-04", "dagster/asset_partition_range_end": "2024-01-05"}


def orders_asset(*ids, note=None, **options):
    @dg.asset(name="orders", **options)
    def orders() -> pa.Table:
        columns = {"id": pa.array(ids, pa.int64())} | ({"note": [note] * len(ids)} if note else {})
        return pa.table(columns)

    return orders


def positive(*, blocking=True, name="positive"):
    @dg.asset_check(asset=ORDERS, name=name, blocking=blocking)
    def check(orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=all(number > 0 for number in orders["id"].to_pylist()))

    return check


def job_of(asset, io_manager, *checks):
    marked, gates = audited(asset, {}, asset_checks=checks)
    definitions = dg.Definitions(assets=[marked], asset_checks=gates, resources={"io_manager": io_manager})
    return definitions.resolve_implicit_global_asset_job_def()


@pytest.fixture
def run(io_manager):
    """Run an asset behind its gate; the checks are blocking unless others are given."""

    def execute(asset, *checks, io=None, **options):
        job = job_of(asset, io or io_manager, *(checks or [positive()]))
        return job.execute_in_process(raise_on_error=False, **options)

    return execute


def verdict_of(result):
    [found] = [event for event in result.get_asset_check_evaluations() if event.check_name == "published"]
    return found


def plain(verdict):
    return {name: value.value for name, value in verdict.metadata.items()}


def ids(tables, **options):
    return sorted(tables.scan(TABLE, **options)["id"].to_pylist())


def test_rows_that_pass_are_published_and_the_verdict_names_their_snapshot(run, tables):
    result = run(orders_asset(1, 2))
    assert result.success
    verdict = verdict_of(result)
    assert verdict.passed
    assert plain(verdict) == {"table": TABLE, "snapshot_id": tables.get_current_snapshot(TABLE).snapshot_id}
    assert verdict.description is None
    assert [ref.name for ref in tables.list_refs(TABLE)] == ["main"]


def test_rows_that_fail_wait_and_the_verdict_says_what_to_do_with_them(run, tables):
    assert run(orders_asset(1)).success
    result = run(orders_asset(-2))
    assert not result.success
    [waiting] = list_staged(tables, TABLE)
    verdict = verdict_of(result)
    assert not verdict.passed
    assert plain(verdict) == {
        "table": TABLE,
        "branch": waiting.branch,
        "look": f"floe tables scan {TABLE} --ref {waiting.branch}",
        "publish": f"floe publish {TABLE} {waiting.branch}",
        "discard": f"floe discard {TABLE} {waiting.branch}",
    }
    assert verdict.description == f"Held back on branch {waiting.branch}; the rows on main are unchanged."
    assert ids(tables) == [1]
    assert ids(tables, ref=waiting.branch) == [-2, 1]


def test_columns_of_rows_held_back_are_named_only_when_they_are_new(run, tables):
    assert run(orders_asset(1)).success
    described = verdict_of(run(orders_asset(-2, note="a"))).description
    assert described.endswith("are unchanged. The table already has the new columns, which are null on main: note.")


def test_the_first_rows_of_a_table_can_be_held_back_too(run, tables):
    verdict = verdict_of(run(orders_asset(-1)))
    assert not verdict.passed
    assert verdict.description.endswith("the rows on main are unchanged.")
    assert ids(tables) == []


def test_a_check_that_does_not_block_holds_nothing_back(run, tables):
    result = run(orders_asset(-1), positive(blocking=False))
    assert result.success
    assert {event.check_name: event.passed for event in result.get_asset_check_evaluations()} == {
        "positive": False,
        "published": True,
    }
    assert ids(tables) == [-1]


def test_a_step_that_returns_nothing_publishes_nothing_and_says_so(run, tables):
    @dg.asset(name="orders")
    def nothing():
        return None

    result = run(nothing)
    assert result.success
    # Every check of the gate must return a result; otherwise, Dagster fails the step.
    said = {event.check_name: (event.passed, plain(event)) for event in result.get_asset_check_evaluations()}
    reason = {"not_evaluated": f"{TABLE} does not exist"}
    assert said == {"positive": (True, reason), "published": (True, reason)}
    assert run(orders_asset(1)).success
    verdict = verdict_of(run(nothing))
    assert verdict.passed
    assert plain(verdict) == {"table": TABLE}
    assert verdict.description == "The asset returned nothing, so nothing was published and the table is unchanged."
    assert ids(tables) == [1]


def test_the_published_rows_of_an_older_held_write_replace_it(run, tables):
    assert not run(orders_asset(-1, metadata=OVERWRITE)).success
    [older] = list_staged(tables, TABLE)
    verdict = verdict_of(run(orders_asset(2, metadata=OVERWRITE)))
    assert plain(verdict)["retired"] == older.branch
    assert verdict.description == f"Discarded older staged writes that this one replaces: {older.branch}."
    assert list_staged(tables, TABLE) == []


def daily(*, bad=()):
    @dg.asset(name="orders", partitions_def=DAILY)
    def orders(context) -> pa.Table:
        keys = context.partition_keys
        numbers = [-1 if key in bad else 1 for key in keys]
        return pa.table({"id": pa.array(numbers, pa.int64()), "day": pa.array(keys).cast(pa.date32())})

    return orders


def counting(seen):
    @dg.asset_check(asset=ORDERS, name="positive", blocking=True)
    def check(orders: pa.Table) -> dg.AssetCheckResult:
        seen.append(sorted(str(day) for day in orders["day"].to_pylist()))
        return dg.AssetCheckResult(passed=all(number > 0 for number in orders["id"].to_pylist()))

    return check


@pytest.mark.req("FR-027")
def test_a_gate_looks_at_the_partitions_of_its_run(run, tables):
    seen = []
    assert run(daily(), counting(seen), partition_key="2024-01-01").success
    assert not run(daily(bad=["2024-01-02"]), counting(seen), partition_key="2024-01-02").success
    # A held-back day does not hold back another one.
    assert run(daily(), counting(seen), partition_key="2024-01-03").success
    assert run(daily(), counting(seen), tags=RANGE).success
    assert seen == [["2024-01-01"], ["2024-01-02"], ["2024-01-03"], ["2024-01-04", "2024-01-05"]]
    assert sorted(str(day) for day in tables.scan(TABLE)["day"].to_pylist()) == [
        *("2024-01-01", "2024-01-03", "2024-01-04", "2024-01-05")
    ]
    [waiting] = list_staged(tables, TABLE)
    assert waiting.branch.startswith("audit.orders.2024-01-02.")


@pytest.mark.parametrize("tags", [RANGE, {"dagster/partition": "2024-01-04"}], ids=["range", "one"])
def test_an_asset_without_partitions_is_checked_whole_in_a_run_over_partitions(io_manager, tables, tags):
    @dg.asset(partitions_def=DAILY)
    def daily_rows(context) -> None:
        context.log.info("%s", context.partition_keys)

    marked, gates = audited(orders_asset(1), {}, asset_checks=[positive()])
    definitions = dg.Definitions(assets=[marked, daily_rows], asset_checks=gates, resources={"io_manager": io_manager})
    job = definitions.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(tags=tags).success
    assert ids(tables) == [1]


@pytest.fixture
def main_moves(tables, monkeypatch):
    """Let another writer append rows to main just before a publication, once.

    Spark would read the rows of the staged write for the second try; here they are told.
    """

    def arrange(*numbers, waiting):
        monkeypatch.setattr(held, "staged_rows", lambda *_: pa.table({"id": pa.array(waiting, pa.int64())}))
        original, moved = held.publish_branch, []

        def late(context, table, branch, **options):
            if not moved:
                moved.append(branch)
                tables.append(TABLE, pa.table({"id": pa.array(numbers, pa.int64())}))
            return original(context, table, branch, **options)

        monkeypatch.setattr(held, "publish_branch", late)

    return arrange


def few(seen):
    @dg.asset_check(asset=ORDERS, name="few", blocking=True)
    def check(orders: pa.Table) -> dg.AssetCheckResult:
        seen.append(sorted(orders["id"].to_pylist()))
        return dg.AssetCheckResult(passed=orders.num_rows <= 3)

    return check


def test_rows_that_pass_again_on_a_main_that_moved_are_published(run, tables, main_moves):
    seen = []
    assert run(orders_asset(1), few(seen)).success
    main_moves(2, waiting=[3])
    assert run(orders_asset(3), few(seen)).success
    assert seen == [[1], [1, 3], [1, 2, 3]]
    assert ids(tables) == [1, 2, 3]


@pytest.mark.parametrize("when", ["before the gate looks", "while it checks"])
def test_a_run_publishes_what_it_has_just_written_whatever_main_got_since(run, tables, monkeypatch, when):
    moved, write = [], IcebergIOManager.handle_output

    def move(now):
        if now == when and not moved:
            moved.append(tables.append(TABLE, pa.table({"id": pa.array([2], pa.int64())})))

    def staged(self, context, rows):
        write(self, context, rows)
        move("before the gate looks")

    @dg.asset_check(asset=ORDERS, name="meanwhile", blocking=True)
    def meanwhile(orders: pa.Table) -> dg.AssetCheckResult:
        move("while it checks")
        return dg.AssetCheckResult(passed=True)

    assert run(orders_asset(1, metadata=OVERWRITE)).success
    monkeypatch.setattr(IcebergIOManager, "handle_output", staged)
    monkeypatch.setattr(held, "staged_rows", lambda *_: pa.table({"id": pa.array([3], pa.int64())}))
    assert run(orders_asset(3, metadata=OVERWRITE), meanwhile).success
    assert moved
    assert ids(tables) == [3]


def test_rows_that_fail_on_a_main_that_moved_wait_on_their_new_branch(run, tables, main_moves):
    seen = []
    assert run(orders_asset(1), few(seen)).success
    main_moves(2, 3, waiting=[4])
    result = run(orders_asset(4), few(seen))
    assert seen[1:] == [[1, 4], [1, 2, 3, 4]]
    verdict = verdict_of(result)
    assert not verdict.passed
    assert plain(verdict)["branch"].endswith(".redo1")
    # The report contains the result of the last evaluation.
    assert {event.check_name: event.passed for event in result.get_asset_check_evaluations()}["few"] is False
    assert ids(tables) == [1, 2, 3]


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def test_a_gate_that_is_run_again_finds_what_it_published(io_manager, tables, instance):
    job = job_of(orders_asset(1), io_manager, positive())
    assert job.execute_in_process(instance=instance).success
    published = tables.get_current_snapshot(TABLE).snapshot_id
    gate = job.get_subset(
        asset_selection=set(), asset_check_selection={dg.AssetCheckKey(ORDERS, n) for n in ("positive", "published")}
    )
    result = gate.execute_in_process(instance=instance)
    assert result.success
    assert ids(tables) == [1]
    assert tables.get_current_snapshot(TABLE).snapshot_id == published


@pytest.fixture
def again(io_manager, instance):
    """Run the gate of a run that failed again, with the steps that are run again; None is all of them."""

    def audit(failed, *steps, check=None):
        run = SimpleNamespace(
            run_id="again",
            parent_run_id=failed.run_id,
            root_run_id=failed.run_id,
            step_keys_to_execute=list(steps) or None,
        )
        context = Mock(
            run=run,
            instance=instance,
            resources=Mock(spec=["io_manager"], io_manager=io_manager),
            has_partition_key=False,
            has_partition_key_range=False,
        )
        _, [gate] = audited(orders_asset(1), {}, asset_checks=[check or positive()])
        *_, verdict = _Audit(plan_of(gate), context).run()
        return verdict

    return audit


@pytest.fixture
def failed(run, instance):
    """A run that wrote its rows, and whose gate then failed."""

    @dg.asset_check(asset=ORDERS, name="positive", blocking=True)
    def broken(orders: pa.Table) -> dg.AssetCheckResult:
        raise ValueError

    result = run(orders_asset(1), broken, instance=instance)
    assert not result.success
    return result


def test_a_gate_that_is_run_again_publishes_the_rows_that_wait(failed, again, tables):
    assert ids(tables) == []
    assert again(failed, "orders__gate").metadata["snapshot_id"].value == tables.get_current_snapshot(TABLE).snapshot_id
    assert ids(tables) == [1]
    # Another attempt: the rows are already on main.
    assert again(failed, "orders__gate").metadata["snapshot_id"].value == tables.get_current_snapshot(TABLE).snapshot_id
    assert len(tables.list_snapshots(TABLE)) == 2


def test_a_gate_that_died_before_it_wrote_its_rows_again_still_has_them(failed, again, tables):
    """It had begun a new branch on top of a main that moved, and nothing is on that yet."""
    [waiting] = list_staged(tables, TABLE)
    tables.create_branch(TABLE, f"{waiting.branch}.redo1")
    seen = []
    assert again(failed, "orders__gate", check=few(seen)).passed
    assert seen == [[1]]
    assert ids(tables) == [1]
    assert [ref.name for ref in tables.list_refs(TABLE)] == ["main"]


def test_a_gate_that_died_after_it_wrote_its_rows_again_goes_on_with_those(failed, again, tables, monkeypatch):
    """Both branches are there: the rows as they were first written, and on top of a main that moved."""
    [waiting] = list_staged(tables, TABLE)
    tables.append(TABLE, pa.table({"id": pa.array([9], pa.int64())}))
    monkeypatch.setattr(held, "staged_rows", lambda *_: pa.table({"id": pa.array([1], pa.int64())}))
    with monkeypatch.context() as killed:
        killed.setattr(tables, "remove_branch", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            held._repeat(tables, tables.load_table(TABLE), waiting)
    assert len(list_staged(tables, TABLE)) == 2
    seen = []
    assert again(failed, "orders__gate", check=few(seen)).passed
    assert seen == [[1, 9]]
    assert ids(tables) == [1, 9]
    assert [ref.name for ref in tables.list_refs(TABLE)] == ["main"]


def test_a_gate_does_not_pass_when_its_rows_were_removed(failed, again, tables):
    [waiting] = list_staged(tables, TABLE)
    tables.remove_branch(TABLE, waiting.branch)
    with pytest.raises(RefNotFoundError, match=f"branch '{waiting.branch}' .* removed before they were published"):
        again(failed, "orders__gate")
    # A repeated step that returned nothing has nothing to publish.
    for steps in ((), ("orders", "orders__gate")):
        assert again(failed, *steps).description.startswith("The asset returned nothing")


def kept_io(tmp_path, **orchestration):
    settings = {
        "name": "shop",
        "floe_version": "0.1.0",
        "catalog": {"name": "lake"},
        "orchestration": {"check_results": {"table": "ops.results", **orchestration}},
    }
    artifacts = CompiledArtifacts.model_validate(settings).rooted_at(tmp_path)
    return create_iceberg_resources(artifacts)["io_manager"]


@pytest.fixture
def kept(tmp_path):
    io_manager = kept_io(tmp_path, enabled=True)
    assert isinstance(io_manager, IcebergIOManager)
    yield io_manager
    io_manager.tables.close()


def results_in(io_manager):
    rows = io_manager.tables.scan("ops.results").to_pylist()
    return [(row["check_name"], row["passed"], row["blocking"], row["ref"], row["snapshot_id"]) for row in rows]


def test_results_are_kept_with_the_snapshot_that_was_looked_at(run, kept):
    assert run(orders_asset(1), positive(), positive(blocking=False, name="noted"), io=kept).success
    published = kept.tables.get_current_snapshot(TABLE).snapshot_id
    assert sorted(results_in(kept)) == [
        ("noted", True, False, "main", published),
        ("positive", True, True, "main", published),
    ]
    assert not run(orders_asset(-1), positive(), io=kept).success
    [waiting] = list_staged(kept.tables, TABLE)
    assert ("positive", False, True, waiting.branch, waiting.snapshot_id) in results_in(kept)


def test_results_that_cannot_be_kept_fail_no_run_and_are_named(run, kept, monkeypatch):
    monkeypatch.setattr(CheckResults, "keep", Mock(side_effect=OSError("no room")))
    result = run(orders_asset(1), io=kept)
    assert result.success
    assert plain(verdict_of(result))["results_not_kept"] == "no room"
    assert ids(kept.tables) == [1]


def test_a_check_of_several_assets_is_refused():
    other = dg.AssetKey("other")

    @dg.multi_asset_check(specs=[dg.AssetCheckSpec("one", asset=ORDERS), dg.AssetCheckSpec("two", asset=other)])
    def both():
        yield from ()

    with pytest.raises(ConfigurationError, match="The checks one, two cover several assets"):
        audited(orders_asset(1), {}, asset_checks=[both])


def test_only_assets_with_checks_get_a_gate():
    @dg.multi_asset(specs=[dg.AssetSpec("orders"), dg.AssetSpec("items"), dg.AssetSpec("plain")])
    def several():
        yield from ()

    declared = CheckConfig.model_validate({"type": "row_count", "min": 1})
    marked, gates = audited(several, {dg.AssetKey("items"): [declared]}, asset_checks=[positive()])
    found = {key.to_user_string(): spec.metadata.get(GATE_KEY) for key, spec in marked.specs_by_key.items()}
    assert found == {"orders": "orders__gate", "items": "items__gate", "plain": None}
    assert {gate.node_def.name: sorted(spec.name for spec in gate.check_specs) for gate in gates} == {
        "orders__gate": ["positive", "published"],
        "items__gate": ["published", "row_count"],
    }


def test_the_checks_of_a_gate_can_be_run_by_hand(io_manager, run, tables, instance):
    run(orders_asset(-1))
    [waiting] = list_staged(tables, TABLE)
    _, [gate] = audited(orders_asset(-1), {}, asset_checks=[positive()])
    resources = Mock(spec=["io_manager"], io_manager=io_manager)
    asked = {"tenant": None, "partitions": (), "instance": instance}
    assert failing_checks(gate, resources, waiting.branch, **asked) == ["positive"]
    assert failing_checks(gate, resources, "main", **asked) == []
    # Checks outside the gate are not reported.
    assert plan_of(positive()) is None
    assert failing_checks(positive(), resources, waiting.branch, **asked) == []
