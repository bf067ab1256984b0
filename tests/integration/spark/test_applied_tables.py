"""Tables after ``apply_declaration``, as read by Spark and Java."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from floe_core.schemas import TableConfig
from floe_testing.audit import assert_audited

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

BEFORE = {
    "columns": [
        {"name": "id", "type": "int", "required": True},
        {"name": "region", "type": "string"},
        {"name": "day", "type": "date"},
        {"name": "gone", "type": "string"},
    ],
    "partition_by": ["region", "day(day)"],
    "sort_by": ["region"],
    "keys": ["id"],
}
AFTER = {
    "columns": [
        {"name": "note", "type": "struct<text: string, n: int>"},
        {"name": "id", "type": "long", "required": True, "doc": "Key."},
        {"name": "area", "type": "string", "renamed_from": "region"},
        {"name": "day", "type": "date"},
    ],
    "partition_by": ["month(day)", "bucket(4, id)"],
    "sort_by": ["area desc", "id"],
    "keys": ["id"],
}


@pytest.mark.parametrize("version", ["1", "2"], ids=["v1", "v2"])
def test_spark_reads_and_writes_a_table_after_every_kind_of_change(two_engines, version):
    manager, name = two_engines.manager, f"n.applied_v{version}"
    made = TableConfig.model_validate({**BEFORE, "properties": {"format-version": version}})
    manager.apply_declaration(name, made)
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            ("region", pa.string()),
            ("day", pa.date32()),
            ("gone", pa.string()),
        ]
    )
    days = [date(2026, 1, 31), date(2026, 2, 1), None]
    first = pa.table({"id": [1, 2, 3], "region": ["n", None, "s"], "day": days, "gone": ["x"] * 3}, schema=schema)
    manager.append(name, first)
    manager.apply_declaration(name, TableConfig.model_validate(AFTER), drop_columns=True)
    assert two_engines.sql(f"SELECT id, area, day, note FROM floe.{name} ORDER BY id") == [
        {"id": 1, "area": "n", "day": days[0], "note": None},
        {"id": 2, "area": None, "day": days[1], "note": None},
        {"id": 3, "area": "s", "day": None, "note": None},
    ]
    assert two_engines.sql(f"SELECT id FROM floe.{name} WHERE area = 'n' AND day < DATE '2026-02-01'") == [{"id": 1}]
    two_engines.sql(
        f"INSERT INTO floe.{name} (note, id, area, day) VALUES (named_struct('text', 't', 'n', 1), 5000000000, 'w', "
        "DATE '2026-03-01'), (null, 4, 'n', DATE '2026-01-31')"
    )
    two_engines.sql(f"DELETE FROM floe.{name} WHERE area = 's'")
    expected = [(1, "n"), (2, None), (4, "n"), (5000000000, "w")]
    assert sorted((row["id"], row["area"]) for row in manager.scan(name).to_pylist()) == expected
    described = {row["col_name"]: row for row in two_engines.sql(f"DESCRIBE floe.{name}")}
    assert described["id"]["comment"] == "Key."
    files = two_engines.sql(f"SELECT partition FROM floe.{name}.files WHERE spec_id > 0")
    assert {row["partition"]["day_month"] for row in files} >= {674, 672}
    manager.upsert(name, pa.table({"id": [1], "area": ["e"]}))
    assert two_engines.sql(f"SELECT area FROM floe.{name} WHERE id = 1") == [{"area": "e"}]
    assert_audited(manager, name)
