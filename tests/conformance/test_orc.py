"""ORC files written by Spark, read and rewritten in process."""

from __future__ import annotations

import datetime as dt
import uuid

import pyarrow as pa
import pytest

from floe_iceberg import Engine
from floe_testing.audit import assert_audited

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

FIXED = pa.binary(4)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("fx", FIXED),
        ("u", pa.uuid()),
        ("r", pa.struct([("fx", FIXED), ("u", pa.uuid())])),
        ("x", pa.list_(FIXED)),
        ("m", pa.map_(pa.string(), FIXED)),
    ]
)


def test_fixed_and_uuid_columns_are_read_from_orc_files(two_engines):
    manager, name = two_engines.manager, "floe.n.t"
    manager.create_table("n.t", SCHEMA, properties={"write.format.default": "orc"})
    number, other = uuid.UUID(int=7), uuid.UUID(int=2**128 - 1)
    two_engines.sql(
        f"INSERT INTO {name} VALUES "
        f"(1, X'61626364', '{number}', struct(X'00000000', '{other}'), array(X'ffffffff', NULL), "
        "map('k', X'61626364')), "
        f"(2, X'ffffffff', '{other}', struct(NULL, NULL), array(), map('k', NULL)), "
        "(3, NULL, NULL, NULL, NULL, NULL)"
    )
    formats = [row["file_format"] for row in two_engines.sql(f"SELECT DISTINCT file_format FROM {name}.files")]
    assert formats == ["ORC"]
    rows = manager.scan("n.t").to_pylist(maps_as_pydicts="strict")
    expected = [
        {
            "id": 1,
            "fx": b"abcd",
            "u": number,
            "r": {"fx": bytes(4), "u": other},
            "x": [b"\xff" * 4, None],
            "m": {"k": b"abcd"},
        },
        {"id": 2, "fx": b"\xff" * 4, "u": other, "r": {"fx": None, "u": None}, "x": [], "m": {"k": None}},
        {"id": 3, "fx": None, "u": None, "r": None, "x": None, "m": None},
    ]
    assert sorted(rows, key=lambda row: row["id"]) == expected
    assert manager.scan("n.t", row_filter=f"u = '{number}'")["id"].to_pylist() == [1]
    assert manager.scan("n.t", row_filter="fx = X'ffffffff'")["id"].to_pylist() == [2]
    two_engines.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('write.format.default')")
    third = manager.scan("n.t", row_filter="id = 3")
    changed = third.set_column(1, "fx", pa.array([b"wxyz"], FIXED))
    manager.upsert("n.t", changed, keys=["id"], engine=Engine.ARROW)
    manager.delete("n.t", f"u = '{number}'", engine=Engine.ARROW)
    manager.compact_table("n.t", engine=Engine.ARROW)
    left = two_engines.sql(f"SELECT id, fx, u FROM {name} ORDER BY id")
    assert left == [{"id": 2, "fx": b"\xff" * 4, "u": str(other)}, {"id": 3, "fx": b"wxyz", "u": None}]
    assert_audited(manager, "n.t")


def test_timestamps_are_read_from_orc_files_of_format_version_3(two_engines):
    two_engines.sql(
        "CREATE TABLE floe.n.t (t timestamp_ntz, z timestamp) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3', 'write.format.default' = 'orc')"
    )
    two_engines.sql(
        "INSERT INTO floe.n.t VALUES (timestamp_ntz '2024-02-29 12:00:00.000001', timestamp '2024-02-29 12:00:00Z')"
    )
    (row,) = two_engines.manager.scan("n.t").to_pylist()
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    assert row == {"t": moment.replace(tzinfo=None, microsecond=1), "z": moment}
