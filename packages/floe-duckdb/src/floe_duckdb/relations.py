"""DuckDB relations: conversion to Arrow, column names, and errors caused by users' conditions."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyRelation
from floe_core.errors import InvalidScanError

from floe_duckdb.sql import quoted, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from floe_core.dataplane import ColumnPath

# A relation has at least one column.
NO_COLUMN = "floe_no_column"
_MISTAKES = (duckdb.ProgrammingError, duckdb.DataError, duckdb.NotSupportedError)


@contextmanager
def judged(table: str) -> Iterator[None]:
    """Raise ``InvalidScanError`` if DuckDB cannot evaluate a user's condition."""
    try:
        yield
    except _MISTAKES as err:
        raise InvalidScanError(reason(str(err)), table=table) from err


def relation_of(data: object) -> DuckDBPyRelation:
    """Return the data, which must be a relation.

    Raises:
        TypeError: The data is not a relation.
    """
    if not isinstance(data, DuckDBPyRelation):
        msg = f"{type(data).__name__} is not a DuckDB relation"
        raise TypeError(msg)
    return data


def arrow_table(rows: DuckDBPyRelation) -> pa.Table:
    """Compute a relation; UUIDs, which DuckDB returns as strings, become Arrow UUIDs."""
    table = rows.to_arrow_table()
    for index, (name, kind) in enumerate(zip(rows.columns, rows.types, strict=True)):
        if str(kind) == "UUID":
            values = [uuid.UUID(value).bytes if value else None for value in table.column(index).to_pylist()]
            table = table.set_column(index, name, pa.array(values, pa.uuid()))
    return table.drop_columns([NO_COLUMN]) if NO_COLUMN in table.column_names else table


def numbered(paths: Sequence[ColumnPath]) -> str:
    """Return a projection that renames columns to k0, k1, and so on."""
    return ", ".join(f"{quoted(path)} AS k{number}" for number, path in enumerate(paths))
