"""Tables of floe and PyIceberg with the same codec and target file size, each on a separate embedded catalog."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE = "bench"
TARGET_FILE_SIZE = 128 * 1024 * 1024
PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    # The default of Arrow and delta-rs; Spark's is 3.
    "write.parquet.compression-level": "1",
    "write.target-file-size-bytes": str(TARGET_FILE_SIZE),
}
# By default, PyIceberg gives up after four attempts.
RETRIES = {"commit.retry.num-retries": "20"}


def open_floe(folder: Path) -> IcebergTableManager:
    """Open floe on the embedded stack in a folder."""
    artifacts = CompiledArtifacts(name="bench", floe_version="bench").rooted_at(folder)
    manager = IcebergTableManager.from_artifacts(artifacts)
    manager.create_namespace(NAMESPACE)
    return manager


def open_pyiceberg(folder: Path) -> SqlCatalog:
    """Open plain PyIceberg on a SQLite catalog in a folder."""
    uri = f"sqlite:///{folder}/catalog.db"
    catalog = SqlCatalog("floe", uri=uri, warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace_if_not_exists(NAMESPACE)
    return catalog


def rows_digest(table: pa.Table, columns: tuple[str, ...]) -> str:
    """Return a digest independent of row order: the row count, sums of numbers, and hashes of distinct strings."""
    parts = [str(table.num_rows)]
    for name in columns:
        column = table[name]
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            distinct = sorted(str(value) for value in pc.unique(column).to_pylist())
            parts.append(hashlib.sha256("|".join(distinct).encode()).hexdigest()[:12])
        else:
            parts.append(str(pc.sum(column).as_py()))
    return ":".join(parts)
