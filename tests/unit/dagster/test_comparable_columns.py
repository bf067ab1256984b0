"""A relationship compares only columns whose values an engine compares without rounding them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.dataplane import Figure
from floe_core.schemas import CheckConfig
from floe_dagster.gate.checks import expand_checks
from floe_dagster.gate.evaluation import CheckedRows, evaluate
from floe_iceberg import IcebergTableManager

D38 = pa.decimal128


class Counts:
    """An engine that finds nothing."""

    name = "counts"

    def unmatched(self, *_asked):
        return Figure(0)


@pytest.mark.parametrize(
    ("mine", "other", "exact"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), D38(38, 18), True),
        (pa.int64(), D38(38, 19), False),
        (pa.int32(), D38(38, 28), True),
        (pa.int32(), D38(38, 29), False),
        (D38(38, 10), D38(38, 10), True),
        (D38(38, 10), D38(38, 0), False),
        (D38(28, 0), D38(10, 10), True),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), D38(10, 2), False),
        (pa.string(), pa.int64(), False),
    ],
    ids=str,
)
def test_columns_are_compared_if_no_value_is_rounded(catalog, mine, other, exact):
    manager = IcebergTableManager(catalog, compute=Counts())
    manager.create_namespace("a")
    manager.create_table("a.one", pa.schema({"x": mine}))
    manager.create_table("a.two", pa.schema({"y": other}))
    for column, table, there, to_column in (("x", "a.one", "a.two", "y"), ("y", "a.two", "a.one", "x")):
        config = CheckConfig(type="relationship", column=column, to=there, to_columns=(to_column,))
        [outcome] = evaluate(manager, expand_checks([config], table=table), CheckedRows(table))
        assert outcome.passed is exact
        assert exact or "compares" in str(outcome.error)
