"""Upserts in process: rows found by key, only the files that hold them written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    LessThanOrEqual,
    Reference,
)
from pyiceberg.expressions.literals import literal

from floe_core.errors import InvalidDataError
from floe_iceberg.data_files import Layout, write_rows
from floe_iceberg.fitting import fit
from floe_iceberg.partitioning import column_of
from floe_iceberg.rewrites import Branch, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask

_FEW_KEYS = 200
_SHOWN = 3
_SOURCE, _TARGET = "__floe_source", "__floe_target"


def require_unique(rows: pa.Table, keys: Sequence[str], *, table: str) -> None:
    """Refuse data that has two rows for one key; null is equal to nothing, so it may repeat.

    Raises:
        InvalidDataError: Names the keys that repeat.
    """
    columns = pa.table({key: column_of(rows, key) for key in keys}).drop_null()
    counts = (
        columns.append_column(_SOURCE, pa.nulls(columns.num_rows, pa.bool_()))
        .group_by(list(keys))
        .aggregate([(_SOURCE, "count", pc.CountOptions(mode="all"))])
    )
    if counts.num_rows == columns.num_rows:
        return
    repeated = counts.filter(pc.field(f"{_SOURCE}_count") > 1)
    shown = ", ".join(str({key: row[key] for key in keys}) for row in repeated.slice(0, _SHOWN).to_pylist())
    msg = f"The data has several rows for {repeated.num_rows} of its keys ({', '.join(keys)}), such as {shown}."
    raise InvalidDataError(msg, hint="Keep one row a key before the upsert.", table=table)


def key_filter(rows: pa.Table, keys: Sequence[str]) -> BooleanExpression:
    """Return a filter that every row with one of the keys matches, for leaving files out by their statistics."""
    terms = [term for key in keys for term in _key_terms(column_of(rows, key), key)]
    expression: BooleanExpression = AlwaysTrue()
    for term in terms:
        expression = And(expression, term)
    return expression


def _key_terms(values: pa.ChunkedArray, key: str) -> list[BooleanExpression]:
    # Only types whose statistics are exact; NaN, for one, is in no range.
    if not (types.is_integer(values.type) or types.is_string(values.type) or types.is_temporal(values.type)):
        return []
    if types.is_time(values.type):
        return []
    if len(values) <= _FEW_KEYS:
        distinct = pc.unique(values).drop_null().to_pylist()
        return [In(term=Reference(key), literals={literal(value) for value in distinct})] if distinct else []
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is None:
        return []
    low, high = literal(bounds["min"]), literal(bounds["max"])
    return [GreaterThanOrEqual(term=Reference(key), value=low), LessThanOrEqual(term=Reference(key), value=high)]


def upsert_rows(
    branch: Branch, tasks: Iterable[FileScanTask], rows: pa.Table, keys: Sequence[str], layout: Layout
) -> Rewrite:
    """Update the rows whose keys match and add the others.

    Columns that the data lacks keep their values in updated rows and are null in new ones. A file none of whose rows
    would change is left alone.
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
    held = [table for table in written if table.num_rows]
    added = write_rows(layout, pa.concat_tables(held)) if held else []
    return Rewrite(tuple(removed), tuple(added))


class KeyIndex:
    """Finds rows of the source by key; null is equal to nothing."""

    def __init__(self, source: pa.Table, keys: Sequence[str]) -> None:
        """Index the source by its keys."""
        self._keys = list(keys)
        self._columns = {key: column_of(source, key) for key in keys}
        self._single = self._columns[self._keys[0]].combine_chunks() if len(self._keys) == 1 else None

    def lookup(self, target: pa.Table) -> pa.Table:
        """Return the pairs of row numbers, in the source and in the target, whose keys are equal."""
        columns = {key: column_of(target, key).cast(self._columns[key].type) for key in self._keys}
        if self._single is not None:
            found = pc.index_in(columns[self._keys[0]], value_set=self._single, skip_nulls=True).combine_chunks()
            at = pc.indices_nonzero(found.is_valid())
            return pa.table({_SOURCE: found.take(at).cast(pa.int64()), _TARGET: at.cast(pa.int64())})
        left = self._numbered(self._columns, _SOURCE)
        right = self._numbered(columns, _TARGET)
        joined = left.join(right, keys=self._keys, join_type="inner", use_threads=True)
        return joined.select([_SOURCE, _TARGET]).combine_chunks()

    @staticmethod
    def _numbered(columns: dict[str, pa.ChunkedArray], name: str) -> pa.Table:
        table = pa.table(columns)
        return table.append_column(name, pa.array(np.arange(table.num_rows)))


def _without(rows: pa.Table, numbers: pa.Array | pa.ChunkedArray) -> pa.Table:
    mask = np.ones(rows.num_rows, dtype=bool)
    mask[numbers.to_numpy()] = False
    return rows.filter(pa.array(mask))


def _same_rows(left: pa.Table, right: pa.Table) -> bool:
    """Whether every row equals its counterpart; null equals null, NaN equals NaN, nested values count as different."""
    return all(_same_values(left[name], right[name]) for name in left.column_names)


def _same_values(left: pa.ChunkedArray, right: pa.ChunkedArray) -> bool:
    if types.is_nested(left.type):
        return False
    if isinstance(left.type, pa.BaseExtensionType):
        left, right = left.cast(left.type.storage_type), right.cast(left.type.storage_type)
    equal = pc.fill_null(pc.equal(left, right.cast(left.type)), fill_value=False)
    equal = pc.or_(equal, pc.and_(left.is_null(), right.is_null()))
    if types.is_floating(left.type):
        equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), fill_value=False))
    return bool(pc.all(equal).as_py())
