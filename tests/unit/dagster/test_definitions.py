"""Definitions from compiled artifacts, and the plugin and component that provide them."""

from __future__ import annotations

import itertools
import sys
from datetime import UTC, datetime
from textwrap import dedent

import dagster as dg
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from floe_core.errors import CapabilityError, ConfigurationError
from floe_core.plugins import PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_core.schemas import CompiledArtifacts
from floe_dagster import DagsterOrchestratorPlugin, IcebergIOManager, create_iceberg_resources
from floe_dagster.assets.settings import GATE_KEY
from floe_dagster.runs.pipeline import Pipeline

numbers = itertools.count()

ASSETS = """
    import dagster as dg
    import pyarrow as pa

    daily = dg.DailyPartitionsDefinition("2024-01-01")

    @dg.asset(key_prefix="bronze", partitions_def=daily)
    def orders() -> pa.Table:
        return pa.table({"id": [1]})

    @dg.asset(key_prefix="silver", metadata={"write_mode": "overwrite"})
    def customers() -> pa.Table:
        return pa.table({"id": [1]})

    @dg.asset_check(asset=dg.AssetKey(["bronze", "orders"]))
    def plausible(orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    @dg.asset_check(asset=dg.AssetKey(["silver", "customers"]), blocking=True)
    def known(customers: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    nightly = dg.define_asset_job("nightly", selection="*")
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Give a compiled project whose module holds some assets."""

    def create(code=ASSETS, **sections):
        name = f"assets_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(dedent(code))
        monkeypatch.setattr(sys, "path", list(sys.path))
        settings = {"name": "shop", "floe_version": "0.1.0", **sections}
        settings["orchestration"] = {"module": name, **sections.get("orchestration", {})}
        return CompiledArtifacts.model_validate(settings).rooted_at(tmp_path)

    return create


def definitions_of(artifacts):
    return DagsterOrchestratorPlugin().create_definitions(artifacts)


def check_names(definitions, *path):
    graph = definitions.resolve_asset_graph()
    return sorted(check.name for check in graph.get_check_keys_for_assets({dg.AssetKey(list(path))}))


def test_the_plugin_is_found_by_its_name():
    plugin = PluginRegistry().get(PluginType.ORCHESTRATOR, "dagster")
    assert isinstance(plugin, DagsterOrchestratorPlugin)


def test_assets_resources_jobs_and_checks_are_wired(project):
    checks = [{"type": "not_null", "column": "id"}, {"type": "row_count", "min": 1}]
    artifacts = project(tables={"bronze.orders": {"checks": checks}, "gold.daily": {}})
    definitions = definitions_of(artifacts)
    definitions.resolve_all_asset_keys()
    assert check_names(definitions, "bronze", "orders") == ["not_null_id", "plausible", "published", "row_count"]
    orders = definitions.resolve_assets_def(["bronze", "orders"])
    assert orders.specs_by_key[dg.AssetKey(["bronze", "orders"])].metadata[GATE_KEY] == "bronze__orders__gate"
    jobs = {job.name for job in definitions.resolve_all_job_defs()}
    assert {"nightly", "maintain_bronze_orders", "maintain_gold_daily"} <= jobs
    assert {"io_manager", "iceberg_io_manager", "spark", "tables"} <= set(definitions.resources)


def test_blocking_checks_of_ones_own_make_a_gate_and_others_do_not(project):
    definitions = definitions_of(project())
    assert check_names(definitions, "silver", "customers") == ["known", "published"]
    assert check_names(definitions, "bronze", "orders") == ["plausible"]


def gates(definitions):
    """Return the checks that each gate runs before publication."""
    found = {check.node_def.name: check.check_specs for check in definitions.asset_checks}
    return {name: {spec.name for spec in specs} for name, specs in found.items() if name.endswith("__gate")}


TWO_CHECKS = """
    import dagster as dg
    import pyarrow as pa

    @dg.asset(key_prefix="silver", metadata={"write_mode": "overwrite"})
    def customers() -> pa.Table:
        return pa.table({"id": [1]})

    @dg.asset_check(asset=customers, blocking=True)
    def known(customers: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    @dg.asset_check(asset=customers)
    def plausible(customers: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=customers.num_rows == 1)
"""


def test_where_one_check_blocks_the_others_look_at_the_same_rows(project):
    # Outside the gate, a check would read main before the rows are published.
    assert gates(definitions_of(project(TWO_CHECKS))) == {
        "silver__customers__gate": {"known", "plausible", "published"}
    }


def test_checks_that_stand_among_the_assets_make_a_gate_as_well(project):
    code = TWO_CHECKS + "\n    defs = dg.Definitions(assets=[customers, known, plausible])\n"
    assert gates(definitions_of(project(code))) == {"silver__customers__gate": {"known", "plausible", "published"}}


READING = """
    import dagster as dg
    import pyarrow as pa

    @dg.asset(key_prefix="bronze", metadata={"write_mode": "append"})
    def orders() -> pa.Table:
        return pa.table({"id": [1]})

    @dg.asset(
        key_prefix="silver",
        ins={"orders": dg.AssetIn(["bronze", "orders"], metadata={"incremantal": True})},
        metadata={"write_mode": "append"},
    )
    def new_orders(orders: pa.Table) -> pa.Table:
        return orders
"""


def test_a_mistyped_key_of_an_input_is_told_before_anything_runs(project):
    with pytest.raises(ConfigurationError) as caught:
        definitions_of(project(READING))
    [problem] = caught.value.problems
    assert "'incremantal' on input 'orders' of asset 'silver/new_orders'" in problem.message
    assert "Did you mean 'incremental'?" in problem.message


def test_inputs_that_another_io_manager_reads_may_say_what_they_like(project):
    code = READING.replace('["bronze", "orders"], metadata', '["bronze", "orders"], input_manager_key="mine", metadata')
    code += "\n    defs = dg.Definitions([orders, new_orders], resources={'mine': dg.mem_io_manager})\n"
    assert definitions_of(project(code))


ELSEWHERE = """
    import dagster as dg
    import pyarrow as pa

    suppliers = dg.AssetSpec(["erp", "suppliers"], description="Written by the ERP.")
    left, right = dg.AssetSpec("left"), dg.AssetSpec("right")

    @dg.multi_asset(specs=[left, right])
    def pair():
        yield dg.MaterializeResult(asset_key="left")
        yield dg.MaterializeResult(asset_key="right")
"""


def test_tables_that_others_write_are_known_by_their_specs(project):
    graph = definitions_of(project(ELSEWHERE)).resolve_asset_graph()
    assert graph.get(dg.AssetKey(["erp", "suppliers"])).description == "Written by the ERP."
    assert {key.to_user_string() for key in graph.materializable_asset_keys} == {"left", "right"}


def test_an_asset_with_another_io_manager_has_no_gate(project):
    code = ASSETS + "\n    defs = dg.Definitions([orders, customers], resources={'io_manager': dg.mem_io_manager})\n"
    definitions = definitions_of(project(code))
    assert check_names(definitions, "bronze", "orders") == []
    assert definitions.resources["io_manager"] is dg.mem_io_manager
    checked = project(code, tables={"bronze.orders": {"checks": [{"type": "row_count", "min": 1}]}})
    with pytest.raises(ConfigurationError, match=r"checks for 'bronze\.orders', but no asset writes that table"):
        definitions_of(checked)


def test_a_package_is_loaded_with_its_modules(project, tmp_path):
    artifacts = project()
    package = tmp_path / f"pipeline_{next(numbers)}"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").touch()
    (package / "inner" / "gold.py").write_text("import dagster as dg\n\n@dg.asset\ndef metrics() -> None:\n    pass\n")
    artifacts = artifacts.model_copy(
        update={"orchestration": artifacts.orchestration.model_copy(update={"module": package.name})}
    )
    keys = definitions_of(artifacts.rooted_at(tmp_path)).resolve_all_asset_keys()
    assert [key.path for key in keys] == [["metrics"]]


def test_a_module_that_is_missing_is_named(project):
    artifacts = project(orchestration={"module": "no_such_module.assets"})
    with pytest.raises(ConfigurationError, match=r"'no_such_module\.assets'"):
        definitions_of(artifacts)


def test_a_module_that_misses_another_says_so_itself(project):
    with pytest.raises(ConfigurationError, match=r"line 2: ModuleNotFoundError: No module named 'no_such_dependency'"):
        definitions_of(project("\nimport no_such_dependency\n"))


def test_a_project_without_a_module_still_has_resources_and_maintenance(project):
    artifacts = project(tables={"bronze.orders": {}})
    bare = artifacts.model_copy(update={"orchestration": artifacts.orchestration.model_copy(update={"module": None})})
    definitions = definitions_of(bare)
    assert "maintain_bronze_orders" in {job.name for job in definitions.resolve_all_job_defs()}


def test_schedules_run_what_they_select(project):
    schedules = {
        "hourly": {"cron": "0 * * * *", "select": "silver.customers", "timezone": "Europe/Berlin"},
        "daily": {"cron": "0 3 * * *", "select": "bronze.orders"},
    }
    definitions = definitions_of(project(orchestration={"schedules": schedules}))
    hourly, daily = definitions.resolve_schedule_def("hourly"), definitions.resolve_schedule_def("daily")
    assert (hourly.cron_schedule, hourly.execution_timezone) == ("0 * * * *", "Europe/Berlin")
    with dg.instance_for_test() as instance:
        moment = datetime(2024, 1, 5, 3, tzinfo=UTC)
        context = dg.build_schedule_context(
            instance=instance, scheduled_execution_time=moment, repository_def=definitions.get_repository_def()
        )
        [request] = daily.evaluate_tick(context).run_requests
        assert request.partition_key == "2024-01-04"


@pytest.mark.parametrize(
    ("select", "reason"),
    [("gold.nothing", "Assets: bronze/orders, silver/customers"), ("key:", "matches no asset")],
)
def test_a_schedule_that_selects_nothing_is_refused(select, reason, project):
    schedules = {"daily": {"cron": "0 3 * * *", "select": select}}
    with pytest.raises(ConfigurationError, match=reason):
        definitions_of(project(orchestration={"schedules": schedules}))


def test_checks_on_a_catalog_without_branches_are_refused_before_anything_runs(project, monkeypatch):
    plugin = type(PluginRegistry().get(PluginType.CATALOG, "sql"))
    limited = plugin().capabilities.__class__(branches=False)
    monkeypatch.setattr(plugin, "capabilities", property(lambda _self: limited))
    with pytest.raises(CapabilityError, match="does not support branches"):
        definitions_of(project())


@pytest.mark.req("PL-07")
def test_resources_of_a_project_share_one_connection(project):
    resources = create_iceberg_resources(project())
    assert isinstance(resources["io_manager"], IcebergIOManager)
    assert resources["io_manager"] is resources["iceberg_io_manager"]

    @dg.asset(required_resource_keys={"tables"})
    def seen(context):
        context.resources.tables.create_namespace("bronze")
        return [{"rows": 1}]

    assert dg.materialize([seen], resources=resources).success
    manager = resources["io_manager"].tables
    assert manager.scan("public.seen").num_rows == 1
    assert manager.namespaces.exists("bronze")


@pytest.mark.req("PL-07")
def test_a_missing_storage_plugin_is_logged_and_no_error(project):
    with capture_logs() as logs:
        resources = create_iceberg_resources(project(storage={"type": "unheard_of"}))
    assert "io_manager" in resources
    [line] = [entry for entry in logs if entry["event"] == "storage_plugin_missing"]
    assert line["storage"] == "unheard_of"


def test_declared_tables_are_made_as_declared(project):
    columns = [{"name": "id", "type": "long", "required": True}, {"name": "note", "type": "string", "doc": "free"}]
    tables = {"public.orders": {"columns": columns, "keys": ["id"], "properties": {"owner": "sales"}}}
    resources = create_iceberg_resources(project(tables=tables))

    @dg.asset(metadata={"write_mode": "upsert"})
    def orders():
        return [{"id": 1}]

    for _ in range(2):
        dg.materialize([orders], resources=resources)
    manager = resources["io_manager"].tables
    assert manager.scan("public.orders").to_pylist() == [{"id": 1, "note": None}]
    table = manager.load_table("public.orders")
    assert table.properties["owner"] == "sales"
    assert table.schema().find_field("note").doc == "free"


def test_maintenance_jobs_work_on_their_table_and_keep_orphans_unless_told(project, tmp_path):
    definitions = definitions_of(project(tables={"silver.customers": {}, "gold.daily": {}}))
    manager = definitions.resources["io_manager"].tables
    manager.create_namespace("silver")
    manager.create_table("silver.customers", pa.schema({"id": pa.int64()}))
    for number in range(3):
        manager.append("silver.customers", [{"id": number}])
    assert definitions.resolve_job_def("maintain_silver_customers").execute_in_process().success
    assert manager.scan("silver.customers").num_rows == 3
    assert len(manager.load_table("silver.customers").inspect.files()) == 1
    # A table that was never written is not a failure.
    assert definitions.resolve_job_def("maintain_gold_daily").execute_in_process().success


# Dagster's own components use a deprecated name of Pydantic.
@pytest.mark.filterwarnings("ignore:.parse_obj_as. is deprecated")
@pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning")
def test_a_component_hands_out_the_same_definitions(tmp_path):
    from dagster.components.testing import create_defs_folder_sandbox

    from floe_dagster.component import FloeProjectComponent

    (tmp_path / "component_assets.py").write_text(dedent(ASSETS))
    (tmp_path / "floe.yaml").write_text("schema_version: 1\nname: shop\norchestration:\n  module: component_assets\n")
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=FloeProjectComponent,
            defs_yaml_contents={
                "type": "floe_dagster.component.FloeProjectComponent",
                "attributes": {"project": str(tmp_path)},
            },
        )
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, definitions):
            assert isinstance(component, FloeProjectComponent)
            assert check_names(definitions, "silver", "customers") == ["known", "published"]


PROCEDURES = """
    import dagster as dg
    import pyarrow as pa

    @dg.asset
    def procedure() -> None:
        pass

    @dg.asset
    def measured() -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={"seen": 1})

    @dg.multi_asset(specs=[dg.AssetSpec("left"), dg.AssetSpec("right")])
    def pair():
        yield dg.MaterializeResult(asset_key="left")
        yield dg.MaterializeResult(asset_key="right")
"""


def test_assets_that_return_no_rows_need_no_write_mode(project):
    assert len(list(definitions_of(project(PROCEDURES)).resolve_asset_graph().get_all_asset_keys())) == 4


def test_an_asset_that_may_return_rows_has_to_say_its_write_mode(project):
    code = "import dagster as dg\n\n@dg.asset\ndef rows():\n    return None\n"
    with pytest.raises(ConfigurationError, match="Asset 'rows' has no partitions and no write_mode"):
        definitions_of(project(code))


NAMED_OTHERWISE = """
    import dagster as dg

    @dg.asset
    def orders() -> None:
        pass

    @dg.asset(key=["gold", "metrics", "daily"], deps=[orders])
    def daily() -> None:
        pass

    @dg.asset(key=["gold", "routes"])
    def routes() -> None:
        pass

    supplied = dg.AssetSpec(["erp", "v1.suppliers"])
"""


@pytest.mark.parametrize(
    ("selection", "keys"),
    [
        ("public.orders", {"orders"}),
        ("public.orders+", {"orders", "gold/metrics/daily"}),
        ("gold.metrics_daily", {"gold/metrics/daily"}),
        ("+gold.metrics_daily", {"orders", "gold/metrics/daily"}),
        ("gold.*", {"gold/metrics/daily", "gold/routes"}),
        ("public.*,gold/routes", {"orders", "gold/routes"}),
        ("*", {"orders", "gold/metrics/daily", "gold/routes"}),
    ],
)
def test_assets_are_selected_by_the_names_of_their_tables(project, selection, keys):
    pipeline = Pipeline.of(project(NAMED_OTHERWISE))
    assert {key.to_user_string() for key in pipeline.select(selection)} == keys


def test_schedules_select_by_the_names_of_tables(project):
    schedules = {"nightly": {"cron": "0 3 * * *", "select": "public.orders or gold.metrics_daily"}}
    definitions = definitions_of(project(NAMED_OTHERWISE, orchestration={"schedules": schedules}))
    selected = definitions.resolve_job_def("nightly_job").asset_layer.selected_asset_keys
    assert {key.to_user_string() for key in selected} == {"orders", "gold/metrics/daily"}


SOUND = """
    import dagster as dg
    import pyarrow as pa

    @dg.asset(key=["a", "b_c"], metadata={"write_mode": "overwrite"})
    def orders() -> pa.Table:
        return pa.table({"id": [1]})
"""
SAME_TABLE = """
    @dg.asset(key=["a", "b", "c"], metadata={"write_mode": "overwrite"})
    def others() -> pa.Table:
        return pa.table({"id": [1]})
"""


@pytest.mark.parametrize(
    ("code", "tables", "told"),
    [
        (SOUND.replace("write_mode", "write_mod"), {}, "Did you mean 'write_mode'?"),
        (SOUND + SAME_TABLE, {}, "all write the table 'a.b_c'"),
        (SOUND, {"a.b_d": {"checks": [{"type": "row_count", "min": 1}]}}, "Did you mean 'a.b_c'?"),
    ],
    ids=["mistyped key", "two assets of one table", "checks of a mistyped table"],
)
def test_a_project_with_surprises_is_refused_before_anything_runs(project, code, tables, told):
    with pytest.raises(ConfigurationError) as caught:
        definitions_of(project(code, tables=tables))
    assert told in caught.value.problems[0].message


HANDED_OVER = """
    import dagster as dg
    import pyarrow as pa

    @dg.asset(metadata=METADATA)
    def measured() -> dg.MaterializeResult:
        return dg.MaterializeResult(value=pa.table({"id": [1]}))
"""


def test_rows_of_an_asset_that_seemed_to_have_none_need_a_write_mode(project):
    definitions = definitions_of(project(HANDED_OVER.replace("METADATA", "{}")))
    with pytest.raises(ConfigurationError, match="'measured' returned rows but has no write_mode"):
        definitions.resolve_implicit_global_asset_job_def().execute_in_process()
    said = definitions_of(project(HANDED_OVER.replace("METADATA", "{'write_mode': 'overwrite'}")))
    assert said.resolve_implicit_global_asset_job_def().execute_in_process().success
