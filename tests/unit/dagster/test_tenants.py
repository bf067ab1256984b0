"""Pipelines for tenants: the same assets, one partition per tenant, separate tables."""

from __future__ import annotations

import itertools
import sys
from datetime import UTC, datetime
from functools import partial
from textwrap import dedent

import dagster as dg
import pytest

from floe_core.dataplane import OPERATION_ID_PROPERTY
from floe_core.errors import (
    CatalogAuthorizationError,
    ConfigurationError,
    InvalidIdentifierError,
    NamespaceNotFoundError,
)
from floe_core.schemas import CompiledArtifacts
from floe_dagster import create_definitions
from floe_dagster.gate.published import check_published
from floe_dagster.runs.batches import Batch
from floe_dagster.runs.materialize import run_assets
from floe_dagster.runs.pipeline import PartitionChoice, Pipeline
from floe_dagster.runs.plans import plan_assets
from floe_dagster.tenants import TENANTS, Scope, multi_key, own_partitions, partition_tags, tenants_sensor
from floe_iceberg import IcebergTableManager
from floe_iceberg.catalog.connection import open_project
from floe_iceberg.staging.staged import list_staged, publish_staged
from floe_tenancy import TenantTables, project_bootstrapper, tenancy_config, verify_tenant

pytestmark = [
    # Dagster's warnings about beta features, and about tags that it sets itself.
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore:Non-compliant tag keys:DeprecationWarning"),
]

numbers = itertools.count()

ASSETS = """
    import datetime as dt

    import dagster as dg
    import pyarrow as pa
    import pyarrow.compute as pc

    from floe_dagster import partition_keys_of, tenant_of

    DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-05")
    AT_ONCE = dg.BackfillPolicy.single_run()
    REPLACED = {"write_mode": "overwrite"}

    @dg.asset(key_prefix="bronze", partitions_def=DAILY, backfill_policy=AT_ONCE)
    def orders(context: dg.AssetExecutionContext) -> pa.Table:
        days = [dt.date.fromisoformat(key) for key in partition_keys_of(context)]
        return pa.table({"day": days, "owner": pa.array([tenant_of(context)] * len(days), pa.string())})

    @dg.asset(key_prefix="bronze", metadata=REPLACED)
    def rates(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"owner": pa.array([tenant_of(context)], pa.string())})

    @dg.asset(key_prefix="silver", partitions_def=DAILY, backfill_policy=AT_ONCE,
              ins={"orders": dg.AssetIn(["bronze", "orders"]), "rates": dg.AssetIn(["bronze", "rates"])})
    def sales(orders: pa.Table, rates: pa.Table) -> pa.Table:
        return orders.append_column("rated", pa.array([rates["owner"][0].as_py()] * len(orders), pa.string()))

    @dg.asset_check(asset=dg.AssetKey(["silver", "sales"]), blocking=True)
    def nobody_is_bad(sales: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed="bad" not in sales["owner"].to_pylist())

    YESTERDAY = dg.TimeWindowPartitionMapping(
        start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True
    )

    @dg.asset(key_prefix="silver", partitions_def=DAILY, backfill_policy=AT_ONCE,
              ins={"sales": dg.AssetIn(["silver", "sales"], partition_mapping=YESTERDAY)},
              metadata={"partition_column": "day"})
    def shifted(context: dg.AssetExecutionContext, sales: pa.Table) -> pa.Table:
        moved = pc.add(sales["day"], pa.scalar(dt.timedelta(days=1))).cast(pa.date32())
        return pa.table({"day": moved, "owner": sales["owner"]})

    @dg.asset(key_prefix="gold", metadata=REPLACED, ins={"sales": dg.AssetIn(["silver", "sales"])})
    def total(sales: pa.Table) -> pa.Table:
        owners = ",".join(sorted({str(owner) for owner in sales["owner"].to_pylist()}))
        return pa.table({"sales": [sales.num_rows], "owners": [owners]})
"""
FIRST, LAST = "2024-01-01", "2024-01-03"
RANGE = PartitionChoice(FIRST, LAST)


def lay_out(folder, code=ASSETS, **sections):
    """Compile a project whose module holds some assets."""
    name = f"tenant_assets_{next(numbers)}"
    (folder / f"{name}.py").write_text(dedent(code))
    settings = {"name": "shop", "floe_version": "0.1.0", **sections}
    settings["orchestration"] = {"module": name, **sections.get("orchestration", {})}
    return CompiledArtifacts.model_validate(settings).rooted_at(folder)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Give compiled projects."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return partial(lay_out, tmp_path)


@pytest.fixture
def instance():
    # On disk, like a project: runs are watched from another thread, which an in-memory instance does not support.
    with dg.instance_for_test() as instance:
        yield instance


def bootstrap(artifacts, *tenants):
    with open_project(artifacts) as connection:
        for tenant in tenants:
            project_bootstrapper(connection).bootstrap_client(tenant, tenancy_config(connection))


def run(artifacts, instance, tenant, choice=RANGE, select="*"):
    pipeline = Pipeline.of(artifacts, tenant=tenant)
    keys = pipeline.select(select)
    return run_assets(pipeline, instance, keys, pipeline.partitions(keys, choice, instance))


def ran_for_two(artifacts, instance):
    """Run a project for two tenants."""
    bootstrap(artifacts, "acme", "beta")
    for tenant in ("acme", "beta"):
        outcome = run(artifacts, instance, tenant)
        assert outcome.success, [asset.reason for asset in outcome.assets]
    return artifacts


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Give a project that has run for two tenants, with its tables open and what Dagster remembers; to be looked at."""
    with pytest.MonkeyPatch.context() as patch, dg.instance_for_test() as instance:
        patch.setattr(sys, "path", list(sys.path))
        artifacts = ran_for_two(lay_out(tmp_path_factory.mktemp("shop")), instance)
        with IcebergTableManager.from_artifacts(artifacts) as tables:
            yield artifacts, tables, instance


one_shop = pytest.mark.xdist_group("tenants' shop")


@one_shop
@pytest.mark.req("TN-01")
def test_each_tenant_has_tables_and_rows_of_its_own(shop):
    _, tables, _ = shop
    for tenant in ("acme", "beta"):
        namespace = f"tenants.{tenant}"
        sales = tables.scan(f"{namespace}.silver.sales")
        assert sales.num_rows == 3
        assert set(sales["owner"].to_pylist()) == set(sales["rated"].to_pylist()) == {tenant}
        assert tables.scan(f"{namespace}.gold.total").to_pylist() == [{"sales": 3, "owners": tenant}]
    assert not [name for name in tables.namespaces.list_below() if name != "tenants"]


@one_shop
def test_a_partition_mapping_stays_within_its_tenant(shop):
    _, tables, _ = shop
    rows = tables.scan("tenants.beta.silver.shifted").sort_by("day").to_pylist()
    assert [str(row["day"]) for row in rows] == ["2024-01-02", "2024-01-03"]
    assert {row["owner"] for row in rows} == {"beta"}


@one_shop
@pytest.mark.req("TN-01", "TN-02")
def test_files_of_a_tenants_pipeline_lie_below_its_prefix_and_nowhere_else(shop):
    artifacts, tables, _ = shop
    with open_project(artifacts) as connection:
        config = tenancy_config(connection)
        with project_bootstrapper(connection).session(config) as session:
            for tenant in ("acme", "beta"):
                assert verify_tenant(session, tenant).ok
                location = tables.load_table(f"tenants.{tenant}.silver.sales").location()
                assert location == f"{config.warehouse_uri_for(tenant)}/silver/sales"
    files = {
        tenant: {file.path for file in tables.files(f"tenants.{tenant}.silver.sales")} for tenant in ("acme", "beta")
    }
    assert all("/tenants/acme/" in path for path in files["acme"])
    assert all("/tenants/beta/" in path for path in files["beta"])


@one_shop
def test_snapshots_tell_whose_they_are_and_a_repeated_step_would_find_its_own(shop):
    _, tables, _ = shop
    found = [tables.get_current_snapshot(f"tenants.{tenant}.silver.sales").summary for tenant in ("acme", "beta")]
    assert [summary["floe.tenant"] for summary in found] == ["acme", "beta"]
    operations = [summary[OPERATION_ID_PROPERTY] for summary in found]
    assert [operation.split(":")[1] for operation in operations] == ["acme/silver/sales", "beta/silver/sales"]


@one_shop
def test_a_range_is_one_write_where_the_asset_says_so(shop):
    _, tables, instance = shop
    assert len(tables.list_snapshots("tenants.acme.bronze.orders")) == 1
    keys = instance.get_materialized_partitions(dg.AssetKey(["silver", "sales"]))
    assert keys == {f"2024-01-0{day}|{tenant}" for day in (1, 2, 3) for tenant in ("acme", "beta")}
    assert instance.get_materialized_partitions(dg.AssetKey(["gold", "total"])) == {"acme", "beta"}


def test_a_run_again_replaces_the_tenants_partition_and_leaves_others_alone(project, instance):
    artifacts = ran_for_two(project(), instance)
    with IcebergTableManager.from_artifacts(artifacts) as tables:
        before = tables.get_current_snapshot("tenants.beta.silver.sales")
        outcome = run(artifacts, instance, "acme", PartitionChoice("2024-01-04", "2024-01-04"))
        assert outcome.success
        assert run(artifacts, instance, "acme", PartitionChoice("2024-01-04", "2024-01-04")).success
        assert tables.scan("tenants.acme.silver.sales").num_rows == 4
        assert tables.scan("tenants.acme.gold.total")["sales"].to_pylist() == [4]
        assert tables.get_current_snapshot("tenants.beta.silver.sales") == before


def test_rows_that_fail_their_checks_wait_on_the_tenants_own_table(project, instance):
    artifacts = project()
    bootstrap(artifacts, "bad", "acme")
    assert run(artifacts, instance, "acme").success
    held = {asset.table: asset for asset in run(artifacts, instance, "bad").assets}
    sales = held["tenants.bad.silver.sales"]
    assert sales.state == "held back"
    assert held["tenants.bad.gold.total"].state == "not run"
    with IcebergTableManager.from_artifacts(artifacts) as tables:
        [waiting] = list_staged(tables, "tenants.bad.silver.sales")
        assert waiting.branch == sales.branch
        assert waiting.branch.startswith("audit.silver_sales.2024-01-01")
        assert not list_staged(tables, "tenants.acme.silver.sales")
        publish_staged(tables, "tenants.bad.silver.sales", waiting.branch)
        assert tables.scan("tenants.bad.silver.sales").num_rows == 3


def test_a_plan_names_the_tenants_tables(project, instance):
    artifacts = project(tables={"silver.sales": {"keys": ["day"]}})
    bootstrap(artifacts, "acme")
    pipeline = Pipeline.of(artifacts, tenant="acme")
    keys = pipeline.select("+gold.total")
    with IcebergTableManager.from_artifacts(artifacts) as tables:
        planned = {one.table: one for one in plan_assets(pipeline, tables, [Batch(tuple(keys), (FIRST,))])}
    assert planned["tenants.acme.silver.sales"].partitions == (FIRST,)
    assert planned["tenants.acme.gold.total"].partitions == ()
    assert planned["tenants.acme.gold.total"].reads == ("tenants.acme.silver.sales",)


@pytest.mark.req("TN-01")
def test_without_a_tenant_the_project_is_as_before(project, instance):
    artifacts = project()
    outcome = run(artifacts, instance, None)
    assert outcome.success, [(asset.table, asset.state, asset.reason) for asset in outcome.assets]
    assert {asset.table for asset in outcome.assets} >= {"bronze.orders", "silver.sales", "gold.total"}
    with IcebergTableManager.from_artifacts(artifacts) as tables:
        assert tables.scan("bronze.orders")["owner"].to_pylist() == [None] * 3
        assert "floe.tenant" not in tables.get_current_snapshot("bronze.orders").summary
    assert instance.get_materialized_partitions(dg.AssetKey(["silver", "sales"])) == {
        f"2024-01-0{day}" for day in (1, 2, 3)
    }


@pytest.mark.parametrize("tenant", ["..", "a/b", "a|b", "", "x" * 64])
def test_an_id_that_cannot_be_is_refused_before_anything_is_opened(project, tenant):
    with pytest.raises(InvalidIdentifierError):
        Pipeline.of(project(), tenant=tenant)


def test_a_partition_that_somebody_added_makes_no_tenant(project, instance):
    artifacts = project()
    bootstrap(artifacts, "acme")
    outcome = run(artifacts, instance, "acne")
    assert not outcome.success
    assert {asset.state.value for asset in outcome.assets} == {"failed", "not run"}
    with open_project(artifacts) as connection:
        assert TenantTables(connection).tenants() == ["acme"]
        with pytest.raises(NamespaceNotFoundError) as caught:
            TenantTables(connection).require("acne")
    assert caught.value.hint == "Did you mean 'acme'? Create it with: floe tenants bootstrap acne"


def test_a_project_for_tenants_asks_for_one(project):
    pipeline = Pipeline.of(project(orchestration={"per_tenant": True}))
    with pytest.raises(ConfigurationError) as caught:
        pipeline.partitions(pipeline.keys, RANGE)
    assert "--tenant" in caught.value.hint


def test_dagster_sees_tenants_beside_the_assets_own_partitions(project, instance):
    definitions = create_definitions(project(orchestration={"per_tenant": True}))
    sales = definitions.resolve_assets_def(["silver", "sales"])
    instance.add_dynamic_partitions(str(TENANTS.name), ["acme", "beta"])
    keys = sales.partitions_def.get_partition_keys(dynamic_partitions_store=instance)
    assert len(keys) == 4 * 2
    assert "2024-01-02|beta" in keys
    assert isinstance(own_partitions(sales.partitions_def), dg.DailyPartitionsDefinition)
    assert definitions.resolve_assets_def(["gold", "total"]).partitions_def == TENANTS
    # A backfill over tenants and days must not combine two tenants in one run.
    assert sales.backfill_policy == dg.BackfillPolicy.multi_run(1)


def test_a_run_is_about_one_tenant():
    both = dg.MultiPartitionsDefinition({"partition": dg.StaticPartitionsDefinition(["x"]), "tenant": TENANTS})
    assert Scope.of(both, ["x|acme"]) == Scope("acme", own_partitions(both), ("x",))
    with pytest.raises(ConfigurationError, match="acme, beta"):
        Scope.of(both, ["x|acme", "x|beta"])


def test_a_users_own_dimension_called_tenant_is_left_alone():
    own = dg.MultiPartitionsDefinition(
        {"day": dg.DailyPartitionsDefinition("2024-01-01"), "tenant": dg.StaticPartitionsDefinition(["a"])}
    )
    assert Scope.of(own, ["2024-01-02|a", "2024-01-01|a"]) == Scope(None, own, ("2024-01-01|a", "2024-01-02|a"))


def test_runs_are_tagged_as_dagster_reads_them():
    assert partition_tags(None, []) == {}
    assert partition_tags(None, ["a"]) == {"dagster/partition": "a"}
    assert partition_tags("acme", []) == {"dagster/partition": "acme"}
    one = partition_tags("acme", ["a"])
    assert one == {
        "dagster/partition": "a|acme",
        "dagster/partition/tenant": "acme",
        "dagster/partition/partition": "a",
    }
    assert set(partition_tags("acme", ["a", "b"]).values()) == {"a|acme", "b|acme"}


TWO_DIMENSIONS = (
    ASSETS
    + """
    @dg.asset(partitions_def=dg.MultiPartitionsDefinition({"a": DAILY, "b": dg.StaticPartitionsDefinition(["x"])}))
    def cube() -> pa.Table: ...
"""
)
LATEST_ONLY = (
    ASSETS
    + """
    @dg.asset(ins={"sales": dg.AssetIn(["silver", "sales"], partition_mapping=dg.LastPartitionMapping())})
    def newest(sales: pa.Table) -> pa.Table: ...
"""
)


@pytest.mark.parametrize(("code", "reason"), [(TWO_DIMENSIONS, "'cube' has two"), (LATEST_ONLY, "'newest' reads")])
def test_what_tenants_cannot_be_added_to_is_refused(project, code, reason):
    with pytest.raises(ConfigurationError, match=reason):
        create_definitions(project(code, orchestration={"per_tenant": True}))


def test_an_io_manager_of_ones_own_is_refused_rather_than_shared_by_all(project, instance, tmp_path):
    code = (
        ASSETS
        + """
    from floe_dagster import IcebergIOManager

    defs = dg.Definitions([rates], resources={"io_manager": IcebergIOManager(catalog_uri="http://x", warehouse="w")})
    """
    )
    bootstrap(artifacts := project(code), "acme")
    outcome = run(artifacts, instance, "acme", PartitionChoice())
    assert not outcome.success


def test_the_sensor_keeps_the_list_of_tenants_as_the_catalog_has_it(project, instance):
    artifacts = project(orchestration={"per_tenant": True})
    bootstrap(artifacts, "acme", "beta")
    instance.add_dynamic_partitions(str(TENANTS.name), ["beta", "gone"])
    sensor = create_definitions(artifacts).resolve_sensor_def("floe_tenants")
    with dg.build_sensor_context(instance=instance) as context:
        result = sensor.evaluate_tick(context)
    asked = {type(request).__name__: request.partition_keys for request in result.dynamic_partitions_requests}
    assert asked == {"AddDynamicPartitionsRequest": ["acme"], "DeleteDynamicPartitionsRequest": ["gone"]}
    assert "floe_tenants" not in {sensor.name for sensor in create_definitions(project()).sensors or ()}


def test_a_schedule_runs_for_every_tenant(project):
    schedules = {
        "daily": {"cron": "0 3 * * *", "select": "silver.sales"},
        "totals": {"cron": "0 4 * * *", "select": "gold.total"},
    }
    definitions = create_definitions(project(orchestration={"per_tenant": True, "schedules": schedules}))
    moment = datetime(2024, 1, 3, 3, tzinfo=UTC)

    def asked(instance, name):
        with dg.build_schedule_context(
            instance=instance, scheduled_execution_time=moment, repository_def=definitions.get_repository_def()
        ) as context:
            return definitions.resolve_schedule_def(name).evaluate_tick(context)

    with dg.instance_for_test() as instance:
        assert asked(instance, "daily").skip_message == "There are no tenants yet."
        instance.add_dynamic_partitions(str(TENANTS.name), ["beta", "acme"])
        assert [request.partition_key for request in asked(instance, "daily").run_requests] == [
            multi_key("acme", "2024-01-02"),
            multi_key("beta", "2024-01-02"),
        ]
        assert [request.partition_key for request in asked(instance, "totals").run_requests] == ["acme", "beta"]


def test_maintenance_works_on_the_tables_of_one_tenant(project, instance):
    artifacts = project(tables={"silver.sales": {}}, orchestration={"per_tenant": True})
    bootstrap(artifacts, "acme")
    assert run(artifacts, instance, "acme").success
    job = create_definitions(artifacts).resolve_job_def("maintain_silver_sales")
    result = job.execute_in_process(instance=instance, partition_key="acme")
    assert result.success
    told = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert any(message.startswith("tenants.acme.silver.sales: files_before") for message in told)


def test_pipeline_tables_do_not_lie_in_those_that_every_tenant_has(project):
    artifacts = project(tables={"silver.sales": {"location": "s3://lake/sales"}})
    with open_project(artifacts) as connection:
        tables = TenantTables(connection)
        with pytest.raises(ConfigurationError, match="inside that of the tenant table 'events'"):
            tables.declaration("acme", "events.raw")
        with pytest.raises(ConfigurationError, match="all tenants would share"):
            tables.declaration("acme", "silver.sales")
        assert tables.declaration("acme", "gold.total").location.endswith("/tenants/acme/gold/total")


def test_metadata_goes_to_the_metadata_bucket(project, tmp_path):
    artifacts = project(tenancy={"metadata_bucket": str(tmp_path / "meta")})
    with open_project(artifacts) as connection:
        declared = TenantTables(connection).declaration("acme", "gold.total")
    assert declared.properties["write.metadata.path"] == f"file://{tmp_path}/meta/tenants/acme/gold/total/metadata"


@one_shop
def test_results_of_checks_are_kept_in_the_tenants_own_namespace(shop):
    artifacts, tables, _ = shop
    for tenant in ("acme", "beta"):
        kept = tables.scan(f"tenants.{tenant}.floe_checks.results").to_pylist()
        assert [(row["table_name"], row["check_name"], row["state"]) for row in kept] == [
            (f"tenants.{tenant}.silver.sales", "nobody_is_bad", "passed")
        ]
        assert f"/tenants/{tenant}/" in tables.load_table(f"tenants.{tenant}.floe_checks.results").location()
    assert not tables.namespaces.exists("floe_checks")
    pipeline = Pipeline.of(artifacts, tenant="acme")
    [tested] = check_published(pipeline, "silver.sales")
    assert (tested.table, tested.snapshot_id) == (
        "tenants.acme.silver.sales",
        tables.get_current_snapshot("tenants.acme.silver.sales").snapshot_id,
    )
    assert [(check.check, check.state.value) for check in tested.checks] == [("nobody_is_bad", "passed")]


def test_a_tenant_that_may_not_list_the_others_keeps_the_partitions_it_has(instance):
    class Source:
        def required_tenants(self):
            msg = "These credentials may not list all namespaces."
            raise CatalogAuthorizationError(msg)

    instance.add_dynamic_partitions(TENANTS.name, ["acme"])
    context = dg.build_sensor_context(instance=instance)
    found = tenants_sensor(Source())(context)
    assert "may not list" in found.skip_reason.skip_message
    assert found.dynamic_partitions_requests is None or not found.dynamic_partitions_requests
    assert instance.get_dynamic_partitions(TENANTS.name) == ["acme"]
