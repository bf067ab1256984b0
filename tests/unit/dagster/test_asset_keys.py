from __future__ import annotations

import dagster as dg
import pytest

from floe_core.errors import InvalidIdentifierError
from floe_dagster.assets.keys import audit_branch, operation_id, origin_run_id, table_of


@pytest.mark.req("FR-026", "API-02")
@pytest.mark.parametrize(
    ("path", "table"),
    [
        (["customers"], "public.customers"),
        (["bronze", "raw_events"], "bronze.raw_events"),
        (["gold", "metrics", "daily"], "gold.metrics_daily"),
        (["lake.bronze", "orders"], "lake.bronze.orders"),
    ],
)
def test_an_asset_key_is_a_table(path, table, io_manager):
    assert table_of(path, default_namespace="public") == table
    assert io_manager.get_table_identifier(dg.build_output_context(asset_key=dg.AssetKey(path))) == table
    assert io_manager.get_table_identifier(dg.build_input_context(asset_key=dg.AssetKey(path))) == table


@pytest.mark.parametrize("path", [["bronze", "a.b"], ["bronze", " "], [" ", "a"]])
def test_a_key_that_makes_no_table_name_is_refused(path):
    with pytest.raises(InvalidIdentifierError, match="does not form a valid table name"):
        table_of(path, default_namespace="public")


def test_operation_ids_tell_asset_output_partition_and_run_apart():
    ids = [
        operation_id(["a"], "result", [], "run-1"),
        operation_id(["a"], "result", [], "run-2"),
        operation_id(["a"], "result", ["2024-01-01"], "run-1"),
        operation_id(["a"], "result", ["2024-01-01", "2024-01-02"], "run-1"),
        operation_id(["a"], "left", [], "run-1"),
        operation_id(["a", "b"], "result", [], "run-1"),
        operation_id(["a"], "result", [str(n) for n in range(100)], "run-1"),
        operation_id(["a"], "result", [str(n) for n in range(99)] + ["x"], "run-1"),
    ]
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) < 100


def test_branches_are_named_by_asset_partition_and_run():
    key = dg.AssetKey(["gold", "metrics"])
    assert audit_branch(key, ["2024-01-01"], "11112222-3333") == "audit.gold_metrics.2024-01-01.11112222"
    assert audit_branch(key, ["a/b"], "11112222-3333") != audit_branch(key, ["a-b"], "11112222-3333")
    assert audit_branch(key, [], "11112222-3333") == "audit.gold_metrics.11112222"


@pytest.mark.req("TM-14")
def test_a_chain_of_re_executions_shares_the_id_of_the_run_that_failed_first():
    @dg.op
    def work():
        pass

    @dg.job
    def job():
        work()

    with dg.instance_for_test() as instance:
        first = instance.create_run_for_job(job, status=dg.DagsterRunStatus.FAILURE)

        def again(parent, status):
            return instance.create_run_for_job(
                job, status=status, parent_run_id=parent.run_id, root_run_id=first.run_id
            )

        second = again(first, dg.DagsterRunStatus.FAILURE)
        third = again(second, dg.DagsterRunStatus.SUCCESS)
        fourth = again(third, dg.DagsterRunStatus.STARTED)
        assert origin_run_id(first, instance) == first.run_id
        assert origin_run_id(third, instance) == first.run_id
        assert origin_run_id(fourth, instance) == fourth.run_id
