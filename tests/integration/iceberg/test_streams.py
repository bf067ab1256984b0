"""Streams larger than the available memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

STREAM = textwrap.dedent(
    """
    import resource, sys
    import numpy as np
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig

    root, term = sys.argv[1], sys.argv[2]
    catalog = SqlCatalog("test", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/warehouse")
    catalog.create_namespace("bronze")
    manager = IcebergTableManager(catalog, config=IcebergTableManagerConfig(stream_chunk_bytes=8 * 1024**2))
    schema = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("n", pa.int64())])
    manager.create_table("bronze.t", schema, partition_spec=[term] if term else None)
    manager.append("bronze.t", pa.table({"id": [0], "x": [0.0], "n": [0]}))

    def batches():
        random = np.random.default_rng(1)
        for _ in range(160):
            ids = random.integers(0, 1_000_000, 100_000)
            yield pa.record_batch([pa.array(ids), pa.array(ids / 3), pa.array(ids % 7)], schema=schema)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    manager.append("bronze.t", pa.RecordBatchReader.from_batches(schema, batches()))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert manager.get_current_snapshot("bronze.t").summary["added-records"] == "16000000"
    assert grown < 200, f"366 MiB of batches took {grown} MiB of memory"
    """
)


@pytest.mark.req("TM-15")
@pytest.mark.parametrize("term", ["", "bucket(20, id)"], ids=["plain", "partitioned"])
def test_a_stream_takes_a_fraction_of_its_size_in_memory(tmp_path, term):
    run = subprocess.run(
        [sys.executable, "-c", STREAM, str(tmp_path), term], capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
