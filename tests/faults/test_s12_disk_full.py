"""S12: the disk is full in the middle of a write."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

WRITE = textwrap.dedent(
    """
    import os, resource, sys
    from pathlib import Path
    import pyarrow as pa
    from floe_iceberg import IcebergTableManager
    from floe_core.errors import StorageFullError
    from floe_testing.embedded_tables import open_catalog

    root, kind = sys.argv[1], sys.argv[2]
    manager = IcebergTableManager(open_catalog(Path(root)))
    schema = pa.schema([("id", pa.int64()), ("noise", pa.binary())])
    manager.create_table("bronze.t", schema, partition_spec=["bucket(4, id)"] if kind == "partitioned" else None)
    before = manager.append("bronze.t", pa.table({"id": [1], "noise": [b"x"]}))
    folder = Path(manager.load_table("bronze.t").location().removeprefix("file://"))
    files = set(folder.rglob("*.parquet"))

    big = pa.table({"id": list(range(4000)), "noise": [os.urandom(1000) for _ in range(4000)]})
    data = pa.RecordBatchReader.from_batches(big.schema, big.to_batches(100)) if kind == "stream" else big
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    try:
        manager.append("bronze.t", data)
    except StorageFullError as err:
        assert "full" in str(err), err
    else:
        raise SystemExit("the write went through")
    assert manager.get_current_snapshot("bronze.t").snapshot_id == before.snapshot_id
    assert manager.scan("bronze.t").num_rows == 1
    assert set(folder.rglob("*.parquet")) == files, "half a file was left behind"
    """
)


@pytest.mark.parametrize("kind", ["plain", "partitioned", "stream"])
def test_s12_a_full_disk_is_a_clean_error_and_the_table_stays(tmp_path, kind):
    run = subprocess.run(
        [sys.executable, "-c", WRITE, str(tmp_path), kind], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
