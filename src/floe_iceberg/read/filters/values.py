"""Value sets, which represent filters on one column.

A row matches a filter on a column if the column's value is in the set. The set also records whether it contains null
and NaN, so SQL's three-valued logic needs no third value: if a comparison is null, the value is not in the set.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Span:
    """An interval; None means unbounded."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False

    @property
    def is_point(self) -> bool:
        """Whether it contains exactly one value."""
        return self.low is not None and self.low == self.high

    def reaches_down_to(self, value: Any) -> bool:  # noqa: ANN401 - a value of the order
        """Whether it starts at or below a value; None means the lowest value."""
        if self.low is None:
            return True
        return value is not None and (self.low < value or (self.low == value and not self.low_open))

    def reaches_up_to(self, value: Any) -> bool:  # noqa: ANN401 - a value of the order
        """Whether it ends at or above a value; None means the highest value."""
        if self.high is None:
            return True
        return value is not None and (self.high > value or (self.high == value and not self.high_open))


EVERYTHING = Span()


@dataclass(frozen=True)
class Order:
    """The order of a column's values.

    Attributes:
        limits: First and last value of a discrete type; None for a dense or unbounded type.
        has_nan: Whether the type has NaN, which is greater than all other values.
    """

    limits: tuple[int, int] | None = None
    has_nan: bool = False

    def normalized(self, spans: Iterable[Span]) -> tuple[Span, ...]:
        """Sort spans and merge adjacent or overlapping ones."""
        joined: list[Span] = []
        for span in sorted(filter(None, map(self._clipped, spans)), key=_by_low):
            if joined and self._touch(joined[-1], span):
                joined[-1] = _hull(joined[-1], span)
            else:
                joined.append(span)
        return tuple(joined)

    def _clipped(self, span: Span) -> Span | None:
        if self.limits is None:
            empty = (
                span.low is not None
                and span.high is not None
                and (span.low > span.high or (span.low == span.high and (span.low_open or span.high_open)))
            )
            return None if empty else span
        first, last = self.limits
        low = first if span.low is None else max(first, span.low + span.low_open)
        high = last if span.high is None else min(last, span.high - span.high_open)
        return Span(low, high) if low <= high else None

    def _touch(self, left: Span, right: Span) -> bool:
        if left.high is None or right.low is None:
            return True
        if self.limits is not None:
            return bool(left.high + 1 >= right.low)
        return bool(left.high > right.low or (left.high == right.low and not (left.high_open and right.low_open)))


def _by_low(span: Span) -> tuple[Any, ...]:
    return (True, span.low, span.low_open) if span.low is not None else (False,)


def _hull(left: Span, right: Span) -> Span:
    """Merge two adjacent or overlapping spans; ``left`` starts first."""
    if left.high is None or right.high is None:
        return Span(left.low, None, left.low_open)
    if left.high == right.high:
        return Span(left.low, left.high, left.low_open, left.high_open and right.high_open)
    later = left if left.high > right.high else right
    return Span(left.low, later.high, left.low_open, later.high_open)


@dataclass(frozen=True)
class ValueSet:
    """A set of values of a column.

    Attributes:
        order: The order of the values.
        spans: Disjoint intervals in ascending order.
        nan: Whether it contains NaN.
        nulls: Whether it contains null.
    """

    order: Order
    spans: tuple[Span, ...] = ()
    nan: bool = False
    nulls: bool = False
    _normal: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Normalize the spans."""
        if not self._normal:
            object.__setattr__(self, "spans", self.order.normalized(self.spans))
            object.__setattr__(self, "_normal", True)

    @classmethod
    def all_values(cls, order: Order) -> ValueSet:
        """Return the set of all values, without null."""
        return cls(order, (EVERYTHING,), nan=order.has_nan)

    @property
    def is_empty(self) -> bool:
        """Whether it contains nothing, not even null."""
        return not (self.spans or self.nan or self.nulls)

    @property
    def has_all_values(self) -> bool:
        """Whether it contains every value, regardless of null."""
        whole = self.order.normalized([EVERYTHING])
        return self.spans == whole and self.nan == self.order.has_nan

    def complement(self) -> ValueSet:
        """Return the set of all other values; null is in neither set."""
        gaps: list[Span] = []
        low, low_open = None, False
        for span in self.spans:
            if span.low is not None:
                gaps.append(Span(low, span.low, low_open, not span.low_open))
            if span.high is None:
                break
            low, low_open = span.high, not span.high_open
        else:
            gaps.append(Span(low, None, low_open))
        return ValueSet(self.order, tuple(gaps), nan=self.order.has_nan and not self.nan)

    def union(self, other: ValueSet) -> ValueSet:
        """Return the union with another set."""
        return ValueSet(
            self.order, self.spans + other.spans, nan=self.nan or other.nan, nulls=self.nulls or other.nulls
        )

    def intersection(self, other: ValueSet) -> ValueSet:
        """Return the intersection with another set."""
        both = self.complement().union(other.complement()).complement()
        return ValueSet(self.order, both.spans, nan=self.nan and other.nan, nulls=self.nulls and other.nulls)

    @cached_property
    def _lows(self) -> list[Any]:
        return [span.low for span in self.spans if span.low is not None]

    def _last_from(self, value: Any) -> Span | None:  # noqa: ANN401 - a value of the order
        """Return the last span that starts at or below a value."""
        if not self.spans:
            return None
        if value is None:
            return self.spans[-1]
        unbounded = len(self.spans) - len(self._lows)
        number = unbounded + bisect_right(self._lows, value)
        span = self.spans[number - 1] if number else None
        if span is not None and not span.reaches_down_to(value):
            return self.spans[number - 2] if number > 1 else None
        return span

    def intersects(self, low: Any, high: Any) -> bool:  # noqa: ANN401 - values of the order
        """Whether it contains any value from low to high; None means unbounded."""
        # Spans are disjoint and sorted: of those that start early enough, the last one ends highest.
        span = self._last_from(high)
        if span is None:
            return False
        return low is None or span.reaches_up_to(low)

    def covers(self, low: Any, high: Any) -> bool:  # noqa: ANN401 - values of the order
        """Whether it contains every value from low to high; None means unbounded."""
        if low is None:
            span = self.spans[0] if self.spans else None
            return span is not None and span.low is None and span.reaches_up_to(high)
        span = self._last_from(low)
        return span is not None and span.reaches_up_to(high)
