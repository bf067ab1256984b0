"""The input of all workloads: TPC-H lineitem, generated once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).resolve().parent.parent / ".floe-dev" / "bench-data"
LINEITEM_ROWS = 6_001_215


def lineitem_file(scale_factor: int = 1) -> Path:
    """Return the Parquet file of lineitem, generating it on first use."""
    file = FOLDER / f"sf{scale_factor}" / "lineitem.parquet"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        tool = shutil.which("tpchgen-cli") or str(Path(sys.executable).parent / "tpchgen-cli")
        command = [tool, "parquet", "-s", str(scale_factor), "--tables=lineitem", "-o", str(file.parent)]
        subprocess.run(command, check=True)
    return file


@cache
def lineitem(rows: int) -> pa.Table:
    """Return the first rows of lineitem with plain Arrow types."""
    reader = pq.ParquetFile(lineitem_file())
    batches, count = [], 0
    for batch in reader.iter_batches(batch_size=131_072):
        batches.append(batch)
        count += batch.num_rows
        if count >= rows:
            break
    return plain(pa.Table.from_batches(batches).slice(0, rows))


def plain(table: pa.Table) -> pa.Table:
    """Remove view types and field ids, which PyIceberg and Spark do not accept."""
    fields = [
        pa.field(field.name, pa.string() if pa.types.is_string_view(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()
