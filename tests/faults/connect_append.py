"""Appends rows slowly through a Spark Connect server, with one operation id; a script for S28.

Usage: ``python connect_append.py ADDRESS ROOT SERVER_URL MILLISECONDS_PER_ROW``; prints the rows and snapshots at the
end.
"""

import sys
from pathlib import Path

import pyarrow as pa

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager
from floe_testing.faults.sites import address_of

ROWS = 8


def main() -> None:
    address, root, url, pause = address_of(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    table = address.name("slow_orders")
    artifacts = CompiledArtifacts.model_validate(
        {"name": "faults", "floe_version": "0.1.0", "compute": {"master": url}, **address.project()}
    )
    with IcebergTableManager.from_artifacts(artifacts.rooted_at(root)) as manager:
        manager.create_namespace(address.namespace)
        manager.create_table(table, pa.schema([("id", pa.int64()), ("slept", pa.string())]), if_not_exists=True)
        sleep = f"reflect('java.lang.Thread', 'sleep', cast({pause} as bigint)) as slept"
        rows = manager.spark.range(0, ROWS, 1, 4).selectExpr("id", sleep)
        manager.append(table, rows, operation_id="orders-of-today")
        sys.stdout.write(f"{manager.scan(table).num_rows} {len(manager.list_snapshots(table))}\n")


if __name__ == "__main__":
    main()
