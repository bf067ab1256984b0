"""In-process upserts that rewrite only the files with matching keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThanOrEqual,
    Or,
    Reference,
)
from pyiceberg.expressions.literals import DateLiteral, Literal, TimestampLiteral, literal

from floe_core.dataplane import NullKeys
from floe_core.errors import InvalidDataError
from floe_iceberg.formats import float_bits
from floe_iceberg.formats.cast import fit
from floe_iceberg.formats.keys import comparable, numbered, repeated_keys
from floe_iceberg.formats.partitioning import column_of, column_path
from floe_iceberg.write.copy_on_write import Branch, Rewrite
from floe_iceberg.write.data_files import Layout, write_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask

_FEW_KEYS = 200
_SOURCE, _TARGET = "__floe_source", "__floe_target"


def require_keys(rows: pa.Table, keys: Sequence[str], *, table: str, null_keys: NullKeys = NullKeys.REFUSE) -> None:
    """Reject data with duplicate keys, or with null keys unless null equals null: a rerun would insert those again.

    Raises:
        InvalidDataError: The data has duplicate keys, or nulls in key columns.
    """
    given = {key: column_of(rows, key) for key in keys}
    empty = {key: values.null_count for key, values in given.items() if values.null_count}
    if empty and null_keys is NullKeys.REFUSE:
        raise null_in_keys(empty, table=table)
    if repeated := repeated_keys(rows, keys, null_keys=null_keys):
        shown = ", ".join(str(example) for example in repeated.examples)
        counted = f"{repeated.count} duplicate key{'s' if repeated.count != 1 else ''} ({', '.join(keys)})"
        msg = f"The data has {counted}, for example {shown}."
        raise InvalidDataError(msg, hint="Keep one row per key before the upsert.", table=table)


def null_in_keys(counts: Mapping[str, int], *, table: str) -> InvalidDataError:
    """Return the error for nulls in key columns, with the number of rows per column."""
    counted = ", ".join(f"{key} ({count} row{'s' if count != 1 else ''})" for key, count in counts.items())
    msg = f"The upsert into '{table}' has nulls in key columns: {counted}. Nothing was written."
    hint = "Fill in or drop those rows, or set null_keys: match to treat nulls as equal."
    return InvalidDataError(msg, hint=hint, table=table)


def key_filter(rows: pa.Table, keys: Sequence[str]) -> BooleanExpression:
    """Return a filter that matches every row with one of the keys, to prune files by their statistics."""
    expression: BooleanExpression = AlwaysTrue()
    for key in keys:
        expression = And(expression, _key_range(rows, key))
    return expression


def _key_range(rows: pa.Table, key: str) -> BooleanExpression:
    values = column_of(rows, key)
    expression: BooleanExpression = AlwaysTrue()
    for term in _key_terms(values, key):
        expression = And(expression, term)
    if not values.null_count:
        return expression
    # Nulls that get this far match null. Not every file has null counts for the fields of a struct.
    if len(column_path(rows.schema, key) or ()) != 1:
        return AlwaysTrue()
    missing = IsNull(term=Reference(key))
    return missing if values.null_count == len(values) else Or(expression, missing)


def _key_terms(values: pa.ChunkedArray, key: str) -> list[BooleanExpression]:
    # Only types with exact statistics; NaN, for example, is in no range.
    text = types.is_string(values.type) or types.is_large_string(values.type)
    if types.is_time(values.type) or not (text or types.is_integer(values.type) or types.is_temporal(values.type)):
        return []
    make: Callable[[Any], Literal[Any]] = literal
    if types.is_date32(values.type):
        values, make = values.cast(pa.int32()), DateLiteral
    elif types.is_timestamp(values.type) and values.type.unit == "us":
        values, make = values.cast(pa.int64()), TimestampLiteral
    elif types.is_temporal(values.type):
        return []
    if len(values) <= _FEW_KEYS:
        distinct = pc.unique(values).drop_null().to_pylist()
        return [In(term=Reference(key), literals={make(value) for value in distinct})] if distinct else []
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is None:
        return []
    low, high = make(bounds["min"]), make(bounds["max"])
    return [GreaterThanOrEqual(term=Reference(key), value=low), LessThanOrEqual(term=Reference(key), value=high)]


def upsert_rows(
    branch: Branch, tasks: Iterable[FileScanTask], rows: pa.Table, keys: Sequence[str], layout: Layout
) -> Rewrite:
    """Update the rows whose keys match and insert the others.

    Columns missing from the data keep their values in updated rows and are null in new rows. A file in which no row
    changes is not rewritten. Null in a key equals null; callers that reject null keys check for them first.
    """
    source = fit(rows, layout.schema)
    given = [name for name in source.column_names if name in set(rows.column_names)]
    index = KeyIndex(source, keys)
    unmatched = np.ones(source.num_rows, dtype=bool)
    removed: list[DataFile] = []
    written: list[pa.Table] = []
    for task in tasks:
        if index.lookup(branch.rows(task, layout, layout.schema.select(*keys))).num_rows == 0:
            continue
        current = fit(branch.rows(task, layout), layout.schema, like=source.schema)
        pairs = index.lookup(current)
        unmatched[pairs[_SOURCE].to_numpy()] = False
        old, new = current.take(pairs[_TARGET]), source.take(pairs[_SOURCE])
        if _same_rows(old.select(given), new.select(given)):
            continue
        removed.append(task.file)
        updated = pa.table([new[name] if name in given else old[name] for name in old.column_names], source.schema)
        written += [_without(current, pairs[_TARGET]), updated]
    written.append(source.filter(pa.array(unmatched)))
    tables = [table for table in written if table.num_rows]
    added = write_rows(layout, pa.concat_tables(tables)) if tables else []
    return Rewrite(tuple(removed), tuple(added))


class KeyIndex:
    """Finds rows of the source by key; null equals null."""

    def __init__(self, source: pa.Table, keys: Sequence[str]) -> None:
        """Index the source by its keys."""
        self._columns = {key: column_of(source, key) for key in keys}
        self._table = comparable(self._columns).combine_chunks()
        self._single = self._table.column(0).combine_chunks() if len(self._columns) == 1 else None
        # In Arrow's join null equals nothing, which only matters if the source has nulls.
        self._nullable = [name for name in self._table.column_names if self._table[name].null_count]
        self._placeholders = {name: _any_value(self._table[name]) for name in self._nullable}
        self._joined = numbered(self._without_nulls(self._table), _SOURCE)

    def lookup(self, target: pa.Table) -> pa.Table:
        """Return the pairs of row numbers, in the source and in the target, whose keys are equal."""
        same_types = {key: column_of(target, key).cast(values.type) for key, values in self._columns.items()}
        columns = comparable(same_types)
        if self._single is not None:
            found = pc.index_in(columns.column(0), value_set=self._single).combine_chunks()
            at = pc.indices_nonzero(found.is_valid())
            return pa.table({_SOURCE: found.take(at).cast(pa.int64()), _TARGET: at.cast(pa.int64())})
        columns = self._without_nulls(columns)
        joined = self._joined.join(
            numbered(columns, _TARGET), keys=columns.column_names, join_type="inner", use_threads=True
        )
        return joined.select([_SOURCE, _TARGET]).combine_chunks()

    def _without_nulls(self, columns: pa.Table) -> pa.Table:
        """Split each nullable column in two: whether it has a value, and the value or a placeholder."""
        for name in self._nullable:
            values, placeholder = columns[name], self._placeholders[name]
            columns = columns.drop_columns([name]).append_column(f"{name} is there", values.is_valid())
            if placeholder is not None:
                columns = columns.append_column(name, pc.fill_null(values, placeholder))
        return columns


def _any_value(values: pa.ChunkedArray) -> pa.Scalar | None:
    known = values.drop_null()
    return known[0] if len(known) else None


def _without(rows: pa.Table, numbers: pa.Array | pa.ChunkedArray) -> pa.Table:
    mask = np.ones(rows.num_rows, dtype=bool)
    mask[numbers.to_numpy()] = False
    return rows.filter(pa.array(mask))


def _same_rows(left: pa.Table, right: pa.Table) -> bool:
    """Whether all rows are equal; NaN and null equal themselves, 0.0 and -0.0 differ, nested values always differ."""
    return all(_same_values(left[name], right[name]) for name in left.column_names)


def _same_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if types.is_nested(left.type):
        return False
    if isinstance(left.type, pa.BaseExtensionType):
        left, right = left.cast(left.type.storage_type), right.cast(left.type.storage_type)
    right = right.cast(left.type)
    if types.is_floating(left.type):
        left, right = (pa.chunked_array([float_bits.distinct(values)]) for values in (left, right))
    equal = pc.fill_null(pc.equal(left, right), fill_value=False)
    return bool(pc.all(pc.or_(equal, pc.and_(left.is_null(), right.is_null()))).as_py())
