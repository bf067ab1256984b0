"""Runs a Dagster job with one asset, as a new run or as the re-execution of another; a script for S11, S28 and S38.

The tables are at the site ``FLOE_TEST_ADDRESS``. ``FLOE_TEST_ROOT`` contains Dagster's instance, and files with which a
test controls the asset. Usage: ``python dagster_runs.py JOB [PARENT_RUN_ID [all]]``; prints a JSON object.
"""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import dagster as dg
import pyarrow as pa

from floe_core.schemas import CompiledArtifacts
from floe_dagster import IcebergIOManager, audited
from floe_dagster.io.tables_source import TablesSource
from floe_dagster.telemetry.causes import cause_of
from floe_iceberg import IcebergTableManager
from floe_testing.faults.sites import address_of

ADDRESS = address_of(os.environ["FLOE_TEST_ADDRESS"])
ROOT = Path(os.environ["FLOE_TEST_ROOT"])
MASTER = os.environ.get("FLOE_TEST_MASTER", "local[2]")
PAUSE = int(os.environ.get("FLOE_TEST_PAUSE", "1500"))
ROWS = 8


def once(name):
    """Tell whether this happens for the first time."""
    try:
        (ROOT / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def open_tables() -> IcebergTableManager:
    conf = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "600m"}
    compute = {"master": MASTER, "driver_memory": "1g", "conf": conf}
    settings = {"name": "faults", "floe_version": "0.1.0", "compute": compute, **ADDRESS.project()}
    return IcebergTableManager.from_artifacts(CompiledArtifacts.model_validate(settings).rooted_at(ROOT))


class UnluckyIOManager(IcebergIOManager):
    """Loses its process or its answer after the write has landed, once."""

    def handle_output(self, context, obj):
        super().handle_output(context, obj)
        if once("killed") and (ROOT / "kill").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if once("lost") and (ROOT / "lose").exists():
            message = "the answer was lost"
            raise ConnectionError(message)


def io_manager():
    return UnluckyIOManager(source=TablesSource(open_tables))


@dg.asset(key=[ADDRESS.namespace, "orders"])
def orders():
    return pa.table({"id": list(range(ROWS))})


@dg.asset(key=[ADDRESS.namespace, "patient_orders"], retry_policy=dg.RetryPolicy(max_retries=2))
def patient_orders():
    return pa.table({"id": list(range(ROWS))})


@dg.asset(deps=[orders])
def report():
    if (ROOT / "break").exists():
        message = "the report is broken"
        raise ValueError(message)


@dg.asset(key=[ADDRESS.namespace, "slow_orders"], required_resource_keys={"spark"})
def slow_orders(context):
    """Take its time for each of four files, so that there is time to kill something."""
    pause = 0 if (ROOT / "hurry").exists() else PAUSE
    sleep = f"reflect('java.lang.Thread', 'sleep', cast({pause} as bigint)) as slept"
    return context.resources.spark.range(0, ROWS, 1, 4).selectExpr("id", sleep)


@dg.asset(key=[ADDRESS.namespace, "gated"])
def gated():
    return pa.table({"id": list(range(ROWS))})


@dg.asset_check(asset=gated, blocking=True)
def sound(gated: pa.Table):
    if (ROOT / "break").exists():
        message = "the check is broken"
        raise ValueError(message)
    return dg.AssetCheckResult(passed=gated.num_rows == ROWS)


def _job(*assets):
    io = io_manager()
    spark = dg.ResourceDefinition(lambda _context: io.tables.spark)
    resources = {"io_manager": io, "spark": spark}
    everything = dg.define_asset_job("everything")
    definitions = dg.Definitions(assets=list(assets), resources=resources, jobs=[everything])
    return definitions.resolve_job_def("everything")


def orders_job():
    return _job(orders, report)


def patient_job():
    return _job(patient_orders)


def slow_job():
    return _job(slow_orders)


def gated_job():
    marked, gates = audited(gated, {}, asset_checks=[sound])
    jobs = [dg.define_asset_job("everything")]
    resources = {"io_manager": io_manager()}
    definitions = dg.Definitions(assets=[marked], asset_checks=gates, resources=resources, jobs=jobs)
    return definitions.resolve_job_def("everything")


JOBS = {job.__name__: job for job in (orders_job, patient_job, slow_job, gated_job)}


def main() -> None:
    warnings.simplefilter("ignore")
    name, *parent = sys.argv[1:]
    job = dg.reconstructable(JOBS[name])
    (ROOT / "dagster").mkdir(exist_ok=True)
    with dg.DagsterInstance.local_temp(str(ROOT / "dagster")) as instance:
        options = None
        if parent:
            run_id = parent[0] if parent[0] != "last" else instance.get_runs(limit=1)[0].run_id
            steps = dg.ReexecutionOptions(parent_run_id=run_id)
            options = steps if parent[1:] == ["all"] else dg.ReexecutionOptions.from_failure(run_id, instance)
        config = {"execution": {"config": {"in_process": {}}}}
        with dg.execute_job(job, instance=instance, run_config=config, reexecution_options=options) as result:
            failed = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
            reasons = [cause_of(error).reason for error in failed]
            said = {"run_id": result.run_id, "success": result.success, "reasons": reasons}
            sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
