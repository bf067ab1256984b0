"""S33: missing or truncated column statistics: pruning never hides rows from scans, upserts and deletes."""

from __future__ import annotations

import pyarrow as pa
import pytest

LONG = "k" * 5_000
TEXTS = ["a", "m" * 40 + "1", "m" * 40 + "2", LONG + "a", LONG + "b", "\U0010ffff" * 20, None]
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("x", pa.float64())])
ROWS = [{"k": text, "n": number, "x": float(number)} for number, text in enumerate(TEXTS)]
LAYOUTS = ["one file", "a file each"]
MODES = ["none", "counts", "truncate(1)", "truncate(16)", "full"]


def data(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def written(manager, name, mode, *, layout):
    properties = {"write.metadata.metrics.default": mode, "write.parquet.row-group-limit": "2"}
    manager.create_table(name, SCHEMA, properties=properties)
    groups = [ROWS] if layout == LAYOUTS[0] else [[row] for row in ROWS]
    for group in groups:
        manager.append(name, data(group))


def numbers(manager, name, row_filter):
    return sorted(manager.scan(name, columns=["n"], row_filter=row_filter)["n"].to_pylist())


@pytest.mark.parametrize(
    ("site", "layout"),
    [
        *(("embedded", layout) for layout in LAYOUTS),
        pytest.param("rest", LAYOUTS[1], marks=pytest.mark.live),
    ],
    indirect=["site"],
)
@pytest.mark.parametrize("mode", MODES)
def test_s33_rows_are_found_whatever_statistics_the_table_keeps(manager, name, mode, layout):
    written(manager, name, mode, layout=layout)
    for row in ROWS[:-1]:
        assert numbers(manager, name, f"k = '{row['k']}'") == [row["n"]]
        assert numbers(manager, name, f"k >= '{row['k']}' and k <= '{row['k']}'") == [row["n"]]
    assert numbers(manager, name, f"k > '{LONG}a'") == [1, 2, 4, 5]
    assert numbers(manager, name, f"k like '{'m' * 40}%'") == [1, 2]
    assert numbers(manager, name, "k is null") == [6]
    assert numbers(manager, name, f"k != '{LONG}a'") == [0, 1, 2, 4, 5]
    assert numbers(manager, name, "x >= 5 or n = 0") == [0, 5, 6]

    changed = [{**ROWS[4], "x": -1.0}, {**ROWS[1], "x": -1.0}, {**ROWS[5], "x": -1.0}]
    manager.upsert(name, data(changed), keys=["k"])
    assert numbers(manager, name, "x = -1") == [1, 4, 5]
    assert manager.scan(name).num_rows == len(ROWS)

    manager.delete(name, f"k in ('{LONG}b', '{TEXTS[2]}', '{TEXTS[5]}')")
    assert numbers(manager, name, None) == [0, 1, 3, 6]
    manager.delete(name, f"k > '{LONG}'")
    assert numbers(manager, name, None) == [0, 6]
