"""Writes and reads a table on Google Cloud Storage with both engines; a script for test_gcs.

Usage: ``python rows_on_gcs.py ROOT BUCKET ENDPOINT``; prints the rows that each engine reads.
"""

import sys
from pathlib import Path

import pyarrow as pa

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import Engine, IcebergTableManager

TABLE = "bronze.orders"


def main() -> None:
    root, bucket, endpoint = sys.argv[1:]
    storage = {
        "type": "gcs",
        "bucket": bucket,
        "endpoint": endpoint,
        "project": "test",
        "prefix": Path(root).name,
        "credentials": {"token": "${LAKE_SECRET}"},
    }
    compute = {"master": "local[1]", "driver_memory": "1g"}
    settings = {"name": "lake", "floe_version": "0.1.0", "storage": storage, "compute": compute}
    artifacts = CompiledArtifacts.model_validate(settings).rooted_at(Path(root))
    with IcebergTableManager.from_artifacts(artifacts) as manager:
        manager.create_namespace("bronze")
        manager.create_table(TABLE, pa.schema([("id", pa.int64())]))
        manager.append(TABLE, manager.spark.range(10))
        manager.append(TABLE, pa.table({"id": [100]}), engine=Engine.ARROW)
        manager.upsert(TABLE, manager.spark.range(5, 15), keys=["id"])
        sys.stdout.write(f"{manager.frame(TABLE).count()} {manager.scan(TABLE).num_rows}\n")


if __name__ == "__main__":
    main()
