"""How each side opens its tables: same codec, same target file size, each on an embedded catalog of its own."""

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
    # What Arrow and delta-rs take when nobody says; Spark would take 3.
    "write.parquet.compression-level": "1",
    "write.target-file-size-bytes": str(TARGET_FILE_SIZE),
}
# Raw PyIceberg gives up after four tries unless told otherwise; it gets a fair number.
RETRIES = {"commit.retry.num-retries": "20"}


def open_floe(folder: Path) -> IcebergTableManager:
    """Open floe on an embedded stack in a folder."""
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
    """Describe rows regardless of their order: count and sums of numbers, digest of distinct texts."""
    parts = [str(table.num_rows)]
    for name in columns:
        column = table[name]
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            distinct = sorted(str(value) for value in pc.unique(column).to_pylist())
            parts.append(hashlib.sha256("|".join(distinct).encode()).hexdigest()[:12])
        else:
            parts.append(str(pc.sum(column).as_py()))
    return ":".join(parts)
