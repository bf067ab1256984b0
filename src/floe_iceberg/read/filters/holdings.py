"""Values that a file or manifest may contain in a column, derived from partitions and statistics.

All results are conservative: a value whose absence is not proven may be present.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from floe_iceberg.read.filters.binding import Column, prefix_span
from floe_iceberg.read.filters.domains import MICROS_A_DAY, bound, is_float, stored, unscaled

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import DataFile, PartitionFieldSummary
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.transforms import Transform
    from pyiceberg.types import IcebergType

    from floe_iceberg.read.filters.values import ValueSet

# With more values than this, hashing each costs more than reading a file.
_MOST_HASHED = 1_000
_HOURS_A_DAY = 24


@dataclass(frozen=True)
class Holding:
    """Values that a column may contain.

    Attributes:
        ranges: First and last value, both inclusive; None means unbounded.
        nulls: Whether there may be nulls.
        nan: Whether there may be NaN.
        buckets: The number of buckets, and the first and last bucket of the values.
    """

    ranges: tuple[tuple[Any, Any], ...] = ((None, None),)
    nulls: bool = True
    nan: bool = True
    buckets: tuple[int, int, int] | None = None

    def may_meet(self, values: ValueSet, column: Column) -> bool:
        """Whether any of the values may be in a set."""
        if (self.nulls and values.nulls) or (self.nan and values.nan):
            return True
        if not any(values.meets(low, high) for low, high in self.ranges):
            return False
        return self.buckets is None or _in_buckets(values, column, *self.buckets)

    def is_at_or_below(self, values: ValueSet) -> bool:
        """Whether all values are certainly in a set."""
        if (self.nulls and not values.nulls) or (self.nan and not values.nan):
            return False
        return all(values.covers(low, high) for low, high in self.ranges)


UNKNOWN = Holding()


def by_partition(field: PartitionField, value: Any, column: Column) -> Holding:  # noqa: ANN401, PLR0911 - one case per transform
    """Return what a file may contain in a column, given its partition value."""
    transform = field.transform
    if isinstance(transform, VoidTransform):
        return UNKNOWN
    if value is None:
        return Holding((), nulls=True, nan=False) if _keeps_null(transform) else UNKNOWN
    if isinstance(transform, IdentityTransform):
        exact = stored(value, column.type)
        if exact != exact:  # noqa: PLR0124 - only NaN
            return Holding((), nulls=False, nan=True)
        return Holding(((exact, exact),), nulls=False, nan=False)
    if isinstance(transform, BucketTransform):
        return Holding(nulls=False, nan=False, buckets=(transform.num_buckets, int(value), int(value)))
    ends = _ends(transform, column.type)
    if ends is None:
        return UNKNOWN
    exact = stored(value, transform.result_type(column.type))
    return Holding(ends(exact, exact), nulls=False, nan=False)


def by_summary(field: PartitionField, summary: PartitionFieldSummary, column: Column) -> Holding:
    """Return what a manifest's files may contain in a column, given the range of partition values."""
    transform = field.transform
    if isinstance(transform, VoidTransform) or not _keeps_null(transform):
        return UNKNOWN
    result = transform.result_type(column.type)
    low, high = bound(summary.lower_bound, result), bound(summary.upper_bound, result)
    nulls = bool(summary.contains_null)
    nan = is_float(column.type) and summary.contains_nan is not False
    if low is None or high is None:
        return Holding(nulls=nulls, nan=nan)
    if isinstance(transform, IdentityTransform):
        return Holding(((low, high),), nulls=nulls, nan=nan)
    if isinstance(transform, BucketTransform):
        return Holding(nulls=nulls, nan=nan, buckets=(transform.num_buckets, low, high))
    ends = _ends(transform, column.type)
    return Holding(ends(low, high), nulls=nulls, nan=nan) if ends else UNKNOWN


def by_statistics(file: DataFile, column: Column) -> Holding:
    """Return what a file may contain in a column, given its counts and bounds."""
    number = column.field_id
    nulls = _count(file.null_value_counts, number)
    floats = is_float(column.type)
    nans = _count(file.nan_value_counts, number) if floats else 0
    low = bound(_entry(file.lower_bounds, number), column.type)
    high = bound(_entry(file.upper_bounds, number), column.type)
    # Writers differ in whether a null struct counts as a null of its fields.
    known = nulls is not None and not column.is_nested
    empty = known and nulls is not None and nans is not None and nulls + nans >= file.record_count
    return Holding(
        () if empty else ((low, high),),
        nulls=not (known and nulls == 0),
        nan=floats and nans != 0,
    )


def _entry(entries: dict[int, bytes] | None, number: int) -> bytes | None:
    return entries.get(number) if entries else None


def _count(entries: dict[int, int] | None, number: int) -> int | None:
    return entries.get(number) if entries else None


def _keeps_null(transform: Transform[Any, Any]) -> bool:
    """Whether a transform maps null, and only null, to null."""
    known = (
        IdentityTransform,
        BucketTransform,
        TruncateTransform,
        YearTransform,
        MonthTransform,
        DayTransform,
        HourTransform,
    )
    return isinstance(transform, known)


def _ends(
    transform: Transform[Any, Any], kind: IcebergType
) -> Callable[[Any, Any], tuple[tuple[Any, Any], ...]] | None:
    """Return a function that maps a range of partition values to a range of column values; None if unknown."""
    if isinstance(transform, TruncateTransform):
        if isinstance(kind, StringType):
            return lambda low, high: ((low, prefix_span(high.decode()).high),)
        if isinstance(kind, (IntegerType, LongType, DecimalType)):
            return lambda low, high: _truncated(low, high, transform.width, kind)
        return lambda low, _high: ((low, None),)
    if isinstance(transform, YearTransform | MonthTransform | DayTransform | HourTransform):
        return lambda low, high: _period(transform, kind, low, high)
    return None


def _truncated(low: int, high: int, width: int, kind: IcebergType) -> tuple[tuple[int, int], ...]:
    last = high + width - 1
    ranges = [(low, last)]
    for first, most in ((-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)):
        # Truncating the lowest numbers underflows the type, and some writers wrap around.
        if not isinstance(kind, DecimalType) and last > most >= high:
            ranges.append((first, first + width))
    return tuple(ranges)


def _period(transform: Transform[Any, Any], kind: IcebergType, low: int, high: int) -> tuple[tuple[int, int], ...]:
    # Old writers rounded times before 1970 toward 1970, so these rows are one partition later.
    first = low - 1 if low <= 0 else low
    units = 1 if isinstance(kind, DateType) else MICROS_A_DAY
    if isinstance(kind, (TimestampNanoType, TimestamptzNanoType)):
        units *= 1000
    if isinstance(transform, HourTransform):
        hour = units // _HOURS_A_DAY
        return ((first * hour, (high + 1) * hour - 1),)
    return ((_first_day(transform, first) * units, _first_day(transform, high + 1) * units - 1),)


def _first_day(transform: Transform[Any, Any], number: int) -> int:
    if isinstance(transform, YearTransform):
        return _days(1970 + number, 1)
    if isinstance(transform, MonthTransform):
        return _days(1970 + number // 12, number % 12 + 1)
    return number


def _days(year: int, month: int) -> int:
    """Count the days from 1970 to the first of a month, in the Gregorian calendar of any year."""
    # Years start in March here, so the leap day is the last day.
    year -= month <= 2  # noqa: PLR2004 - January and February belong to the year before
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _in_buckets(values: ValueSet, column: Column, count: int, first: int, last: int) -> bool:
    if len(values.spans) > _MOST_HASHED or not all(span.is_point for span in values.spans):
        return True
    bucket = BucketTransform(num_buckets=count).transform(column.type)
    return any(first <= (bucket(_hashed(span.low, column.type)) or 0) <= last for span in values.spans)


def _hashed(value: Any, kind: IcebergType) -> Any:  # noqa: ANN401 - a value for PyIceberg's transforms
    if isinstance(kind, StringType):
        return value.decode()
    if isinstance(kind, DecimalType):
        return unscaled(value, kind.scale)
    return value
