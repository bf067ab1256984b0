"""A project with a checked asset that runs in step processes; a script for test_processes.

All files are in ``FLOE_TEST_ROOT``; a file named ``bad`` contains the name of a partition with bad rows. Starts one run
for each of four partitions, two at a time, with the multiprocess executor, and prints their results.
"""

import json
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pyarrow as pa

from floe_core.schemas import CompiledArtifacts
from floe_dagster import audited, create_iceberg_resources

ROOT = Path(os.environ["FLOE_TEST_ROOT"])
KEYS = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]
DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")


def artifacts() -> CompiledArtifacts:
    settings = {
        "name": "gated",
        "floe_version": "0.1.0",
        "compute": {"master": os.environ["FLOE_TEST_MASTER"], "driver_memory": "1g"},
        "tables": {"bronze.orders": {"checks": [{"type": "not_null", "column": "id"}]}},
    }
    return CompiledArtifacts.model_validate(settings).rooted_at(ROOT)


@dg.asset(key=["bronze", "orders"], partitions_def=DAILY)
def orders(context):
    day = pa.array([context.partition_key]).cast(pa.date32())
    bad = (ROOT / "bad").exists() and (ROOT / "bad").read_text() == context.partition_key
    return pa.table({"day": day, "id": pa.array([None if bad else 1], pa.int64())})


@dg.asset(partitions_def=DAILY, ins={"orders": dg.AssetIn(key=["bronze", "orders"])})
def report(context, orders):
    (ROOT / f"read-{context.partition_key}").write_text(str(orders.num_rows))


def partitions_job():
    project = artifacts()
    marked, gates = audited(orders, {orders.key: project.tables["bronze.orders"].checks})
    definitions = dg.Definitions(
        assets=[marked, report],
        asset_checks=gates,
        jobs=[dg.define_asset_job("everything")],
        resources=create_iceberg_resources(project),
    )
    return definitions.resolve_job_def("everything")


def run(job, instance, key) -> bool:
    config = {"execution": {"config": {"multiprocess": {"max_concurrent": 1}}}}
    tags = {"dagster/partition": key}
    with dg.execute_job(job, instance=instance, run_config=config, tags=tags) as result:
        return result.success


def main() -> None:
    warnings.simplefilter("ignore")
    (ROOT / "dagster").mkdir(exist_ok=True)
    # Dagster imports this file again to find the job: import it before threads can see it half imported.
    job = dg.reconstructable(partitions_job)
    job.get_definition()
    with dg.DagsterInstance.local_temp(str(ROOT / "dagster")) as instance, ThreadPoolExecutor(2) as pool:
        ended = dict(zip(KEYS, pool.map(lambda key: run(job, instance, key), KEYS), strict=True))
    sys.stdout.write(json.dumps(ended) + "\n")


if __name__ == "__main__":
    main()
