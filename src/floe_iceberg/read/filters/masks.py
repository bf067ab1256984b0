"""Evaluates bound filters on Arrow rows."""

from __future__ import annotations

import math
import re
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import BooleanType, DecimalType, StringType

from floe_iceberg.read.filters.binding import AllOf, AnyOf, In, Matches
from floe_iceberg.read.filters.domains import is_bytes, is_float, order_of, unscaled
from floe_iceberg.read.filters.syntax import Wildcard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from floe_iceberg.read.filters.binding import Bound, Column
    from floe_iceberg.read.filters.values import Span, ValueSet


def passing(rows: pa.Table | pa.RecordBatch, bound: Bound) -> Any:  # noqa: ANN401 - an array, chunked or not
    """Return a mask of the rows for which a filter is true; it has no nulls."""
    match bound:
        case AllOf(operands):
            masks = [passing(rows, operand) for operand in operands]
            return reduce(pc.and_, masks) if masks else _constant(rows, value=True)
        case AnyOf(operands):
            masks = [passing(rows, operand) for operand in operands]
            return reduce(pc.or_, masks) if masks else _constant(rows, value=False)
        case In(column, values):
            return _in(values_of(rows, column), column, values)
        case Matches(column, pattern, negated, _):
            found = pc.match_substring_regex(values_of(rows, column), _regex(pattern))
            return pc.fill_null(pc.invert(found) if negated else found, fill_value=False)


def values_of(rows: pa.Table | pa.RecordBatch, column: Column) -> Any:  # noqa: ANN401 - an array, chunked or not
    """Return a column's values; fields of a null struct are null."""
    values = rows.column(rows.schema.get_field_index(column.path[0]))
    for part in column.path[1:]:
        values = pc.struct_field(values, part)
    return values


def _constant(rows: pa.Table | pa.RecordBatch, *, value: bool) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows.num_rows)


def _in(values: Any, column: Column, wanted: ValueSet) -> Any:  # noqa: ANN401 - an array, chunked or not
    comparable = _comparable(values, column)
    mask = pc.fill_null(_spans(comparable, column, wanted), fill_value=False)
    if wanted.nulls:
        mask = pc.or_(mask, values.is_null())
    return mask


def _spans(values: Any, column: Column, wanted: ValueSet) -> Any:  # noqa: ANN401 - an array, chunked or not
    """Return a mask of the values in the set's spans, and of NaN if the set has it; null for null."""
    if wanted.has_all_values:
        return values.is_valid()
    others = wanted.complement()
    excluded = others.spans
    if len(excluded) < len(wanted.spans) and all(span.is_point for span in excluded):
        mask = pc.and_(pc.invert(_points(values, column, excluded)), values.is_valid())
        if is_float(column.type) and not wanted.nan:
            mask = pc.and_(mask, pc.invert(pc.is_nan(values)))
        return mask
    masks = []
    if points := [span for span in wanted.spans if span.is_point]:
        masks.append(_points(values, column, points))
    masks += [_span(values, column, span) for span in wanted.spans if not span.is_point]
    if wanted.nan:
        masks.append(pc.is_nan(values))
    return reduce(pc.or_, masks) if masks else pc.and_(values.is_valid(), values.is_null())


def _points(values: Any, column: Column, spans: Iterable[Span]) -> Any:  # noqa: ANN401 - an array, chunked or not
    points = [span.low for span in spans]
    if is_float(column.type) and 0.0 in points:
        # Arrow's is_in compares bits, but 0.0 and -0.0 are equal with different bits.
        points += [0.0, -0.0]
    scalars = pa.array([_scalar(value, column, values.type) for value in points], type=values.type)
    if len(points) == 1:
        return pc.equal(values, scalars[0])
    return pc.is_in(values, value_set=scalars, skip_nulls=True)


def _span(values: Any, column: Column, span: Span) -> Any:  # noqa: ANN401 - an array, chunked or not
    masks = []
    first, last = _limits(column)
    if span.low is not None and span.low != first:
        compare = pc.greater if span.low_open else pc.greater_equal
        masks.append(compare(values, pa.scalar(_scalar(span.low, column, values.type), values.type)))
    if span.high is not None and span.high != last:
        compare = pc.less if span.high_open else pc.less_equal
        masks.append(compare(values, pa.scalar(_scalar(span.high, column, values.type), values.type)))
    if not masks:
        mask = values.is_valid()
        return pc.and_(mask, pc.invert(pc.is_nan(values))) if is_float(column.type) else mask
    return reduce(pc.and_, masks)


def _limits(column: Column) -> tuple[int | None, int | None]:
    order = order_of(column.type)
    return order.limits if order and order.limits else (None, None)


def _comparable(values: Any, column: Column) -> Any:  # noqa: ANN401 - an array, chunked or not
    """Cast values to the type in which they are compared."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        values = values.cast(kind.storage_type)
        kind = kind.storage_type
    if isinstance(column.type, (DecimalType, StringType)):
        return values
    if is_float(column.type):
        return values.cast(pa.float64())
    if is_bytes(column.type):
        return values.cast(pa.large_binary() if pa.types.is_large_binary(kind) else pa.binary())
    if isinstance(column.type, BooleanType):
        return values.cast(pa.int8())
    if pa.types.is_temporal(kind):
        return values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())  # noqa: PLR2004 - bits of a date
    return values


def _scalar(value: Any, column: Column, kind: pa.DataType) -> Any:  # noqa: ANN401 - a value of the column
    if isinstance(column.type, DecimalType):
        return unscaled(value, column.type.scale)
    if isinstance(column.type, StringType):
        return value.decode()
    return float(value) if pa.types.is_floating(kind) and not math.isinf(value) else value


def _regex(pattern: tuple[str | Wildcard, ...]) -> str:
    wildcards = {Wildcard.ANY: ".*", Wildcard.ONE: "."}
    parts = [wildcards[part] if isinstance(part, Wildcard) else re.escape(part) for part in pattern]
    return rf"(?s)\A{''.join(parts)}\z"
