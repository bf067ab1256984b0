"""Checks of column names: no empty names, no duplicates, and no names that differ only in case, as Spark requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.types import ListType, MapType, StructType

from floe_core.errors import InvalidDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType


def require_data_names(schema: pa.Schema) -> None:
    """Require that every column of the data has a unique, non-empty name.

    Raises:
        InvalidDataError: A column has no name, or several columns share one.
    """
    names = schema.names
    if len(set(names)) == len(names) and all(name.strip() for name in names):
        return
    if any(not name.strip() for name in names):
        position = next(position for position, name in enumerate(names, 1) if not name.strip())
        msg = f"Column {position} of the data has no name."
        raise InvalidDataError(msg, hint="Give every column a name.")
    duplicates = sorted({name for name in names if names.count(name) > 1})
    msg = f"The data has duplicate column names: {', '.join(duplicates)}."
    raise InvalidDataError(msg, hint="Give each column a unique name.")


def require_names(schema: Schema, *, before: Schema | None = None) -> None:
    """Require column names that every engine can distinguish.

    Args:
        schema: The new schema of a table.
        before: The current schema of the table; conflicts that it already has are accepted.

    Raises:
        InvalidDataError: Columns have no name, or names that differ only in case.
    """
    known = set(_clashes(before.as_struct())) if before is not None else set()
    for clash in _clashes(schema.as_struct()):
        if clash in known:
            continue
        if len(clash) == 1:
            msg = f"A column has no name{f' ({clash[0]})' if clash[0] else ''}."
            raise InvalidDataError(msg, hint="Give every column a name.")
        msg = f"Column names differ only in case, which Spark cannot distinguish: {', '.join(clash)}."
        raise InvalidDataError(msg, hint="Rename one of them.")


def _clashes(struct: StructType, prefix: str = "") -> Iterator[tuple[str, ...]]:
    """Yield groups of columns whose names differ only in case, and each column without a name."""
    by_name: dict[str, list[str]] = {}
    for field in struct.fields:
        if not field.name.strip():
            yield (prefix + field.name,)
        by_name.setdefault(field.name.casefold(), []).append(prefix + field.name)
    yield from (tuple(sorted(names)) for names in by_name.values() if len(names) > 1)
    for field in struct.fields:
        for inner in _structs(field.field_type):
            yield from _clashes(inner, f"{prefix}{field.name}.")


def _structs(kind: IcebergType) -> Iterable[StructType]:
    if isinstance(kind, StructType):
        return (kind,)
    if isinstance(kind, ListType):
        return _structs(kind.element_type)
    if isinstance(kind, MapType):
        return (*_structs(kind.key_type), *_structs(kind.value_type))
    return ()
