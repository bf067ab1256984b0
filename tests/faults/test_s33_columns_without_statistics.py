"""S33: columns without statistics, or with cut ones: pruning never hides a row; upserts and deletes find it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_iceberg import IcebergTableManager

pytest_plugins = ["floe_testing.table_fixtures"]

LONG = "k" * 5_000
TEXTS = ["a", "m" * 40 + "1", "m" * 40 + "2", LONG + "a", LONG + "b", "\U0010ffff" * 20, None]
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
ROWS = [{"k": text, "n": number, "x": float(number)} for number, text in enumerate(TEXTS)]
MODES = ["none", "counts", "truncate(1)", "truncate(16)", "full"]


def data(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def written(manager, mode, *, layout):
    properties = {"write.metadata.metrics.default": mode, "write.parquet.row-group-limit": "2"}
    manager.create_table("bronze.t", SCHEMA, properties=properties)
    groups = [ROWS] if layout == "one file" else [[row] for row in ROWS]
    for group in groups:
        manager.append("bronze.t", data(group))


def numbers(manager, row_filter):
    return sorted(manager.scan("bronze.t", columns=["n"], row_filter=row_filter)["n"].to_pylist())


@pytest.fixture
def manager(context):
    return IcebergTableManager(context.catalog)


@pytest.mark.parametrize("layout", ["one file", "a file each"])
@pytest.mark.parametrize("mode", MODES)
def test_s33_rows_are_found_whatever_statistics_the_table_keeps(manager, mode, layout):
    written(manager, mode, layout=layout)
    for row in ROWS[:-1]:
        assert numbers(manager, f"k = '{row['k']}'") == [row["n"]]
        assert numbers(manager, f"k >= '{row['k']}' and k <= '{row['k']}'") == [row["n"]]
    assert numbers(manager, f"k > '{LONG}a'") == [1, 2, 4, 5]
    assert numbers(manager, f"k like '{'m' * 40}%'") == [1, 2]
    assert numbers(manager, "k is null") == [6]
    assert numbers(manager, f"k != '{LONG}a'") == [0, 1, 2, 4, 5]
    assert numbers(manager, "x >= 5 or n = 0") == [0, 5, 6]

    changed = [{**ROWS[4], "x": -1.0}, {**ROWS[1], "x": -1.0}, {**ROWS[5], "x": -1.0}]
    manager.upsert("bronze.t", data(changed), keys=["k"])
    assert numbers(manager, "x = -1") == [1, 4, 5]
    assert manager.scan("bronze.t").num_rows == len(ROWS)

    manager.delete("bronze.t", f"k in ('{LONG}b', '{TEXTS[2]}', '{TEXTS[5]}')")
    assert numbers(manager, None) == [0, 1, 3, 6]
    manager.delete("bronze.t", f"k > '{LONG}'")
    assert numbers(manager, None) == [0, 6]
