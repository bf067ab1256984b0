"""Pruning never excludes a matching row, however little is known about a file."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile, PartitionFieldSummary
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from floe_iceberg.read.filters.domains import stored
from floe_iceberg.read.filters.pruning import Pruner
from floe_iceberg.read.predicates import parse_row_filter
from floe_testing.oracles.sql_model import evaluate, filter_text, random_predicate

MOMENTS = [
    datetime.fromisoformat(text)
    for text in (
        "1970-01-01",
        "1969-12-31T23:59:59.999999",
        "1900-06-01T01:30",
        "2024-02-29T12:30",
        "0001-01-01",
        "9999-12-31T23:59:59.999999",
    )
]
ZONED = [moment.replace(tzinfo=UTC) for moment in MOMENTS]
DAYS = [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)]
INTS = [0, 1, 2, -1, 9, 10, -10, -(2**31) + 10, 2**31 - 1]
TEXTS = ["", "a", "ab", "abc", "b", "Ω", "\U0001f600", "\U0010ffff", "\ud7ff", "z" * 20]
CASES = {
    "int": (IntegerType(), INTS, [*INTS, Decimal("0.5"), Decimal("1.0"), 2**40]),
    "long": (LongType(), [*INTS, 2**53 + 1, -(2**63) + 10], [*INTS, 2**53, Decimal("1.5")]),
    "float": (FloatType(), [0.0, -0.0, 1.5, -2.0, math.nan, math.inf], [0.0, 1.5, 0.1, -2]),
    "double": (DoubleType(), [0.0, -0.0, 0.1, 1.5, math.nan, -math.inf], [0.0, -0.0, 0.1, 1]),
    "decimal": (DecimalType(9, 2), [Decimal("1.00"), Decimal("1.01"), Decimal("-0.05")], [1, Decimal("1.005"), 0]),
    "text": (StringType(), TEXTS, [*TEXTS, "aa", "zz"]),
    "bytes": (BinaryType(), [b"", b"a", b"\x00\xff", b"\xff" * 3], [b"", b"a", b"\xff", b"\x00"]),
    "date": (DateType(), DAYS, [*DAYS, date(2024, 3, 1)]),
    "timestamp": (TimestampType(), MOMENTS, MOMENTS),
    "zoned": (TimestamptzType(), ZONED, ZONED),
    "flag": (BooleanType(), [True, False], [True, False]),
}
PERIODS = [YearTransform(), MonthTransform(), DayTransform()]
NUMBERS = [IdentityTransform(), BucketTransform(4), TruncateTransform(10), VoidTransform()]
TRANSFORMS = {
    "int": NUMBERS, "long": NUMBERS, "decimal": NUMBERS, "text": [*NUMBERS[:2], TruncateTransform(2), VoidTransform()],
    "bytes": [*NUMBERS[:2], TruncateTransform(1)], "float": [IdentityTransform(), VoidTransform()],
    "double": [IdentityTransform(), VoidTransform()],
    "date": [*NUMBERS[:2], *PERIODS], "timestamp": [*NUMBERS[:2], *PERIODS, HourTransform()],
    "zoned": [*NUMBERS[:2], *PERIODS, HourTransform()], "flag": [IdentityTransform()],
}  # fmt: skip


class Metadata:
    """The part of a table's metadata that pruning asks for."""

    def __init__(self, spec):
        self.spec = spec

    def specs(self):
        return {self.spec.spec_id: self.spec}


def internal(value, kind):
    """Return a value as Iceberg stores it; texts and decimals as Python has them."""
    if value is None or isinstance(value, str | Decimal | bytes | bool | float):
        return value
    return stored(value, kind)


def order(value):
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_is_known_of_a_file_no_matching_row_is_left_out(data):
    name = data.draw(st.sampled_from(sorted(CASES)))
    kind, values, literals = CASES[name]
    transform = data.draw(st.sampled_from(TRANSFORMS[name]))
    schema = Schema(NestedField(1, "c", kind))
    spec = PartitionSpec(PartitionField(1, 1000, transform, "p"), spec_id=3)
    rows = data.draw(st.lists(st.one_of(st.none(), st.sampled_from(values)), min_size=1, max_size=4))
    predicate = random_predicate(data.draw(st.randoms(use_true_random=False)), {"c": literals})
    read = parse_row_filter(filter_text(predicate), schema, table="t")
    pruner = Pruner(read.bound, Metadata(spec))
    apply = transform.transform(kind)
    by_partition = {}
    for row in rows:
        by_partition.setdefault(repr(apply(internal(row, kind))), []).append(row)
    partitions = []
    for group in by_partition.values():
        partition = apply(internal(group[0], kind))
        partitions.append(partition)
        file = described(data, kind, group, partition)
        truths = [evaluate(predicate, {"c": row}) for row in group]
        if True in truths:
            assert pruner.may_match(file), (filter_text(predicate), transform, group)
            assert pruner.may_match_deletes(file)
        if pruner.matches_all(file):
            assert set(truths) == {True}, (filter_text(predicate), transform, group)
    if any(evaluate(predicate, {"c": row}) is True for row in rows):
        assert pruner.may_match_manifest(summarised(data, transform.result_type(kind), partitions)), filter_text(
            predicate
        )


def described(data, kind, group, partition):
    """Describe a file as truly as some writer would: any statistic may be missing, bounds may be cut."""
    present = [internal(value, kind) for value in group if value is not None]
    numbers = [value for value in present if value == value]  # noqa: PLR0124 - not NaN
    lower = upper = None
    if numbers:
        lower, upper = min(numbers, key=order), max(numbers, key=order)
    if isinstance(kind, StringType) and numbers and data.draw(st.booleans()):
        lower, upper = lower[:1], upper[:1] + "\U0010ffff" if len(upper) > 1 else upper
    known = [data.draw(st.booleans()) for _ in range(4)]
    return _with_spec(
        DataFile.from_args(
            content=DataFileContent.DATA,
            file_path="f",
            record_count=len(group),
            partition=Record(partition),
            value_counts={1: len(group)},
            null_value_counts={1: group.count(None)} if known[0] else data.draw(st.sampled_from([None, {}])),
            nan_value_counts={1: len(present) - len(numbers)} if known[1] else None,
            lower_bounds={1: to_bytes(kind, lower)} if known[2] and lower is not None else None,
            upper_bounds={1: to_bytes(kind, upper)} if known[3] and upper is not None else {},
        )
    )


def _with_spec(file):
    file.spec_id = 3
    return file


def summarised(data, kind, partitions):
    """Describe a manifest of the files."""
    present = [value for value in partitions if value is not None]
    numbers = [value for value in present if value == value]  # noqa: PLR0124 - not NaN
    bounds = {}
    if numbers and data.draw(st.booleans()):
        low, high = min(numbers, key=order), max(numbers, key=order)
        bounds = {"lower_bound": to_bytes(kind, low), "upper_bound": to_bytes(kind, high)}
    nan = len(numbers) < len(present)
    summary = PartitionFieldSummary.from_args(
        _table_format_version=2,
        contains_null=None in partitions,
        contains_nan=data.draw(st.sampled_from([nan, None])),
        **bounds,
    )
    summaries = data.draw(st.sampled_from([[summary], None]))
    return ManifestFile.from_args(manifest_path="m", manifest_length=1, partition_spec_id=3, partitions=summaries)


def test_a_filter_leaves_files_out_where_it_can():
    schema = Schema(NestedField(1, "c", IntegerType()))
    spec = PartitionSpec(spec_id=3)
    file = _with_spec(
        DataFile.from_args(
            content=DataFileContent.DATA,
            file_path="f",
            record_count=2,
            partition=Record(),
            null_value_counts={1: 0},
            lower_bounds={1: to_bytes(IntegerType(), 5)},
            upper_bounds={1: to_bytes(IntegerType(), 9)},
        )
    )
    for text, found in {
        "c = 4": False, "c > 9": False, "c >= 9": True, "c < 5": False, "c in (1, 4, 10)": False, "c in (1, 7)": True,
        "c is null": False, "c != 5": True, "c between 10 and 20": False, "c = 5.5": False, "c < 5 or c > 9": False,
        "not (c between 5 and 9)": False, "c is not null and c > 100": False,
    }.items():  # fmt: skip
        pruner = Pruner(parse_row_filter(text, schema, table="t").bound, Metadata(spec))
        assert pruner.may_match(file) is found, text
        # Bounds are hints, and never prove that all rows match.
        assert not pruner.matches_all(file)


def test_nan_beyond_the_bounds_of_a_manifest_is_left_out_only_when_it_is_known_to_be_absent():
    schema = Schema(NestedField(1, "c", DoubleType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"), spec_id=3)
    pruner = Pruner(parse_row_filter("c > 1", schema, table="t").bound, Metadata(spec))
    zero = to_bytes(DoubleType(), 0.0)
    for contains_nan, found in ((None, True), (True, True), (False, False)):
        summary = PartitionFieldSummary.from_args(
            _table_format_version=2, contains_null=False, contains_nan=contains_nan, lower_bound=zero, upper_bound=zero
        )
        manifest = ManifestFile.from_args(
            manifest_path="m", manifest_length=1, partition_spec_id=3, partitions=[summary]
        )
        assert pruner.may_match_manifest(manifest) is found
