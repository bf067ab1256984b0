"""Appends slowly through a Spark Connect server, under one operation id; a script for S28.

Usage: ``python connect_append.py ROOT SERVER_URL MILLISECONDS_PER_ROW``; prints the rows and snapshots at its end.
"""

import sys
from pathlib import Path

import pyarrow as pa

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

ROWS = 8
TABLE = "bronze.slow_orders"


def main() -> None:
    root, url, pause = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    artifacts = CompiledArtifacts.model_validate(
        {"name": "faults", "floe_version": "0.1.0", "compute": {"master": url}}
    )
    with IcebergTableManager.from_artifacts(artifacts.rooted_at(root)) as manager:
        manager.create_namespace("bronze")
        manager.create_table(TABLE, pa.schema([("id", pa.int64()), ("slept", pa.string())]), if_not_exists=True)
        sleep = f"reflect('java.lang.Thread', 'sleep', cast({pause} as bigint)) as slept"
        rows = manager.spark.range(0, ROWS, 1, 4).selectExpr("id", sleep)
        manager.append(TABLE, rows, operation_id="orders-of-today")
        sys.stdout.write(f"{manager.scan(TABLE).num_rows} {len(manager.list_snapshots(TABLE))}\n")


if __name__ == "__main__":
    main()
