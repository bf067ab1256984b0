"""A sample project from nothing: scaffolded, compiled, a table created, written by both engines, shown."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / ".floe-dev" / "demo"
TABLE = "bronze.orders"
ORDERS = 1_000

console = Console()


def floe(*arguments: str, cwd: Path) -> None:
    """Run a floe command as a user would."""
    console.print(f"\n[bold]$ floe {' '.join(arguments)}[/bold]")
    subprocess.run([sys.executable, "-m", "floe_cli", *arguments], cwd=cwd, check=True)


def orders(count: int, *, first: int = 0) -> pa.Table:
    """Make orders over a year."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "placed": pa.array([start + timedelta(hours=8 * n) for n in numbers], pa.timestamp("us", tz="UTC")),
            "customer": [f"customer-{n % 97}" for n in numbers],
            "total": [float(10 + n % 250) for n in numbers],
        }
    )


def show(title: str, rows: pa.Table) -> None:
    """Print a small table."""
    view = Table(title=title, title_justify="left")
    for name in rows.column_names:
        view.add_column(name)
    for row in rows.to_pylist():
        view.add_row(*(str(value) for value in row.values()))
    console.print(view)


def main() -> int:
    """Run the demonstration."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    PROJECT.parent.mkdir(exist_ok=True)
    floe("init", PROJECT.name, cwd=PROJECT.parent)
    floe("compile", cwd=PROJECT)

    manager = IcebergTableManager.from_artifacts(
        CompiledArtifacts.from_json_file(PROJECT / ".floe/compiled_artifacts.json")
    )
    manager.create_namespace("bronze")
    data = orders(ORDERS)
    manager.create_table(TABLE, data.schema, partition_spec=["month(placed)"], if_not_exists=True)
    first = manager.append(TABLE, data)
    console.print(f"\nAppended {data.num_rows} orders in process: snapshot {first.snapshot_id}")

    spark = manager.spark
    late = (
        spark.table(f"{manager.catalog.name}.{TABLE}")
        .where("id % 10 = 0")
        .selectExpr("id", "placed", "customer", "total * 2 AS total")
    )
    merged = manager.upsert(TABLE, late, keys=["id"])
    console.print(f"Upserted every tenth order on Spark: snapshot {merged.snapshot_id}")

    show("A few orders now", manager.scan(TABLE, row_filter="id < 30 and total > 40", limit=5))
    before, now = (
        manager.scan(TABLE, columns=["total"], snapshot_id=snapshot.snapshot_id)["total"]
        for snapshot in (first, merged)
    )
    console.print(f"Revenue before and after: {pa.compute.sum(before)} → {pa.compute.sum(now)} (time travel)")
    manager.close()

    floe("tables", "list", cwd=PROJECT)
    floe("tables", "show", TABLE, cwd=PROJECT)
    floe("tables", "snapshots", TABLE, cwd=PROJECT)
    console.print(f"\nThe project is in {PROJECT.relative_to(ROOT)}: look around with floe tables --help")
    return 0


if __name__ == "__main__":
    sys.exit(main())
