"""DuckDB relations: conversion to Arrow, column names, and errors caused by users' conditions."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyRelation
from duckdb.sqltypes import DuckDBPyType
from floe_core.errors import EngineError, InvalidDataError, InvalidScanError

from floe_duckdb.sql import quoted, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection
    from floe_core.dataplane import ColumnPath

# A relation has at least one column.
NO_COLUMN = "floe: no column"
_MISTAKES = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError)
# Types that Arrow gets as bytes of DuckDB's own, or without their zone.
_NOT_IN_ICEBERG = frozenset({"time with time zone", "bit", "bignum", "geometry", "variant"})
_WIDEST, _WIDEST_DECIMAL = frozenset({"hugeint", "uhugeint"}), "DECIMAL(38,0)"


@contextmanager
def judged(table: str) -> Iterator[None]:
    """Report users' conditions that DuckDB cannot evaluate.

    Raises:
        InvalidScanError: A condition does not fit the table or its values.
        EngineError: DuckDB failed for another reason, such as its memory limit.
    """
    try:
        yield
    except _MISTAKES as err:
        raise InvalidScanError(reason(str(err)), table=table) from err
    except duckdb.Error as err:
        msg = f"DuckDB failed to query '{table}': {reason(str(err))}"
        raise EngineError(msg, table=table) from err


def relation_of(data: object) -> DuckDBPyRelation:
    """Return the data, which must be a relation.

    Raises:
        TypeError: The data is not a relation.
        InvalidDataError: DuckDB cannot distinguish its columns.
    """
    if not isinstance(data, DuckDBPyRelation):
        msg = f"{type(data).__name__} is not a DuckDB relation"
        raise TypeError(msg)
    if same := same_but_for_case(data.columns):
        msg = f"The relation has columns that DuckDB cannot distinguish: {', '.join(same)}."
        raise InvalidDataError(msg, hint="Rename one.")
    return data


def same_but_for_case(names: Sequence[str]) -> list[str]:
    """Return the names that differ only in case from another, or not at all."""
    uses = Counter(name.casefold() for name in names)
    return [name for name in names if uses[name.casefold()] > 1]


def relation(session: DuckDBPyConnection, rows: pa.Table) -> DuckDBPyRelation:
    """Return a relation over Arrow rows."""
    return session.from_arrow(visible(rows))


def visible(rows: pa.Table) -> pa.Table:
    """Return Arrow rows as DuckDB can see them: rows without columns get one."""
    return rows if rows.num_columns else pa.table({NO_COLUMN: pa.nulls(0)})


def arrow_table(rows: DuckDBPyRelation) -> pa.Table:
    """Compute a relation; UUIDs, which DuckDB returns as strings, become Arrow UUIDs.

    Raises:
        InvalidDataError: A column has a type that Iceberg does not have.
    """
    table = _without_foreign_types(rows).to_arrow_table()
    for index, (name, kind) in enumerate(zip(rows.columns, rows.types, strict=True)):
        if str(kind) == "UUID":
            values = [uuid.UUID(value).bytes if value else None for value in table.column(index).to_pylist()]
            table = table.set_column(index, name, pa.array(values, pa.uuid()))
    return table.drop_columns([NO_COLUMN]) if NO_COLUMN in table.column_names else table


def numbered(paths: Sequence[ColumnPath]) -> str:
    """Return a projection that renames columns to k0, k1, and so on."""
    return ", ".join(f"{quoted(path)} AS k{number}" for number, path in enumerate(paths))


def is_float(rows: DuckDBPyRelation, path: ColumnPath) -> bool:
    """Whether a column is a float of 32 bits."""
    [kind] = rows.project(quoted(path)).types
    return str(kind) == "FLOAT"


def _without_foreign_types(rows: DuckDBPyRelation) -> DuckDBPyRelation:
    columns: list[str] = []
    for name, kind in zip(rows.columns, rows.types, strict=True):
        column, parts = quoted([name]), list(_parts(kind))
        if foreign := [one for one in parts if one.id in _NOT_IN_ICEBERG]:
            msg = f"Column '{name}' has type {foreign[0]}, which Iceberg does not have."
            raise InvalidDataError(msg, hint=f"Cast it to another type, such as {column}::VARCHAR.")
        # Arrow would get the last digits of larger numbers, or none of them.
        wide = any(one.id in _WIDEST for one in parts)
        columns.append(f"CAST({column} AS {_target(kind)}) AS {column}" if wide else column)
    return rows.project(", ".join(columns)) if any(one.startswith("CAST(") for one in columns) else rows


def _parts(kind: DuckDBPyType) -> Iterator[DuckDBPyType]:
    yield kind
    for child in _children(kind).values():
        yield from _parts(child)


def _children(kind: DuckDBPyType) -> dict[str, DuckDBPyType]:
    if kind.id not in {"list", "array", "struct", "map", "union"}:
        return {}
    return {name: child for name, child in kind.children if isinstance(child, DuckDBPyType)}


def _target(kind: DuckDBPyType) -> str:
    """Return a type with decimals in the place of the widest integers."""
    if kind.id in _WIDEST:
        return _WIDEST_DECIMAL
    parts = {name: _target(child) for name, child in _children(kind).items()}
    match kind.id:
        case "list":
            return f"{parts['child']}[]"
        case "array":
            return f"{parts['child']}[{dict(kind.children)['size']}]"
        case "map":
            return f"MAP({parts['key']}, {parts['value']})"
        case "struct":
            return f"STRUCT({', '.join(f'{quoted([name])} {part}' for name, part in parts.items())})"
        case _:
            return str(kind)
