"""Differences between PyIceberg's filters and SQL; ``floe_iceberg.read.filters`` works around each of them.

If a test fails, PyIceberg has been fixed: check whether the workaround is still needed, and remove the test.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    AlwaysTrue,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    NotEqualTo,
    NotIn,
    NotNaN,
    Or,
    parser,
)
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, bind, residual_evaluator_of
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, NestedField

SCHEMA = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "x", DoubleType()))
ROWS = pa.table({"id": pa.array([1, 2, None], pa.int32()), "x": [math.nan, -0.0, None]})
CAUGHT_UP = "PyIceberg has caught up; see whether floe_iceberg.read.filters still has to go round it"


def rows_of(expression):
    return ROWS.filter(expression_to_pyarrow(bind(SCHEMA, expression, case_sensitive=True), SCHEMA))


def residual(expression, transform):
    spec = PartitionSpec(PartitionField(1, 1000, transform, "p"))
    return residual_evaluator_of(spec, expression, True, SCHEMA).residual_for(Record(None))


def test_not_in_passes_null():
    assert rows_of(NotIn("id", [1, 2]))["id"].to_pylist() == [None], CAUGHT_UP


@pytest.mark.parametrize("transform", [IdentityTransform(), BucketTransform(4), TruncateTransform(10)], ids=str)
def test_a_partition_of_nulls_is_taken_to_differ_from_every_value(transform):
    assert isinstance(residual(NotEqualTo("id", 1), transform), AlwaysTrue), CAUGHT_UP


def test_a_comparison_with_a_partition_of_nulls_fails():
    with pytest.raises(TypeError):
        pytest.fail(f"{CAUGHT_UP}: {residual(Or(IsNull('id'), GreaterThan('id', 1)), IdentityTransform())}")


def test_a_fraction_is_rounded_to_an_integer():
    bound = bind(SCHEMA, EqualTo("id", Decimal("1.5")), case_sensitive=True)
    assert bound.literal.value == 2, CAUGHT_UP


def test_nan_is_not_greater_than_a_number():
    assert rows_of(GreaterThan("x", 1.0)).num_rows == 0, CAUGHT_UP


def test_a_file_with_nan_is_left_out_by_its_upper_bound():
    zero = struct.pack("<d", 0.0)
    file = DataFile.from_args(
        file_path="a",
        record_count=3,
        value_counts={2: 3},
        null_value_counts={2: 0},
        nan_value_counts={2: 1},
        lower_bounds={2: zero},
        upper_bounds={2: zero},
    )
    evaluator = _InclusiveMetricsEvaluator(SCHEMA, GreaterThan("x", 1.0), True, False)
    assert evaluator.eval(file) is False, CAUGHT_UP


def test_membership_tells_the_zeros_apart():
    assert rows_of(In("x", [0.0, 5.0])).num_rows == 0, CAUGHT_UP


def test_not_nan_leaves_out_null():
    assert rows_of(NotNaN("x"))["x"].to_pylist() == [-0.0], CAUGHT_UP


@pytest.mark.parametrize("text", ["`a b` > 1", '"a.b" > 1', "s like '%a'", "flag", "id in (1, null)", "id in (1, 2.5)"])
def test_the_parser_does_not_read_it(text):
    with pytest.raises(Exception):  # noqa: B017, PT011 - it raises errors of several libraries
        pytest.fail(f"{CAUGHT_UP}: {parser.parse(text)}")
