"""Loads the requested version, columns and rows of a table as the type of the input's annotation."""

from __future__ import annotations

import types
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import pyarrow as pa
from dagster import DagsterType, MetadataValue, TableSchema

from floe_core.errors import ConfigurationError, FloeStorageError, InvalidScanError
from floe_dagster.assets.metadata_keys import INPUT_KEYS, mistyped_keys
from floe_dagster.io.contexts import type_of_input
from floe_dagster.io.frames import is_engine_annotation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dagster import InputContext

    from floe_dagster.assets.row_ranges import RowSelection
    from floe_dagster.io.increments import Increment
    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.options import IncrementOptions

COLUMNS_METADATA = "floe/columns"
_COLUMN_SCHEMAS = ("dagster/column_schema", "schema")
_VERSIONS = ("snapshot_id", "as_of", "branch")


def columns(frame_type: type, *names: str) -> DagsterType:
    """Create a type hint for an input that reads only the given columns.

    ``def report(orders: columns(pa.Table, "id", "total")): …``
    """
    if not names:
        msg = "columns() requires at least one column name."
        raise ConfigurationError(msg, hint="For example: columns(pa.Table, 'id')")
    return DagsterType(
        type_check_fn=lambda _context, _value: True,
        name=f"{frame_type.__name__}_of_{'_'.join(name.replace('.', '_') for name in names)}",
        typing_type=frame_type,
        metadata={COLUMNS_METADATA: MetadataValue.json(list(names))},
    )


@dataclass(frozen=True)
class InputSelection:
    """The rows and columns of a table that an input reads.

    Attributes:
        columns: Columns to read; None for all.
        row_filter: Predicate as text.
        snapshot_id: Snapshot to read.
        as_of: Time to read at.
        branch: Branch or tag to read.
        incremental: Whether to read only rows that the asset has not read yet.
        increment: The rows to read incrementally, once determined.
    """

    columns: tuple[str, ...] | None = None
    row_filter: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | int | None = None
    branch: str | None = None
    incremental: bool = False
    increment: Increment | None = None

    @property
    def version(self) -> dict[str, Any]:
        """The version, as options of the table manager."""
        if self.increment is not None:
            return {"snapshot_id": self.increment.end}
        return {"snapshot_id": self.snapshot_id, "as_of": self.as_of, "ref": self.branch}


def selection_of(context: InputContext, *, projection: bool = True) -> InputSelection:
    """Return the selection in an input's metadata and type hint.

    Raises:
        ConfigurationError: A setting has an invalid value, or a key is probably misspelled.
    """
    metadata = context.definition_metadata
    where = f"input '{context.name}'" if context.has_input_name else "the input"
    for key, meant in mistyped_keys(metadata, INPUT_KEYS).items():
        msg = f"Unknown metadata key '{key}' on {where}."
        raise ConfigurationError(msg, hint=f"Did you mean '{meant}'?")
    return selection_from(metadata, type_of_input(context), where=where, projection=projection)


def selection_from(
    metadata: Mapping[str, Any], dagster_type: DagsterType, *, where: str, projection: bool = True
) -> InputSelection:
    """Return the selection in metadata and a type hint.

    Args:
        metadata: Metadata of the input.
        dagster_type: Its type.
        where: The input, for messages.
        projection: Whether columns can be selected.

    Raises:
        ConfigurationError: A setting has an invalid value.
    """
    plain = {key: _plain(value) for key, value in metadata.items()}
    chosen = (_columns(plain, where) or _columns_of_type(dagster_type)) if projection else None
    return InputSelection(
        columns=chosen,
        row_filter=_text(plain, "row_filter", where),
        snapshot_id=_snapshot_id(plain, where),
        as_of=_moment(plain, where),
        branch=_text(plain, "branch", where),
        incremental=_incremental(plain, where),
    )


def load(
    manager: IcebergTableManager, table: str, kind: object, selection: InputSelection, rows: RowSelection | None
) -> object:
    """Read a table as the type of an annotation.

    Raises:
        TableNotFoundError: The table does not exist.
        InvalidScanError: A column, filter, version or annotation is not valid.
    """
    annotation = bare(kind)
    form = _FORMS.get(_name(annotation))
    if form is None:
        _require_engine_frame(manager, table, annotation)
        return _frame(manager, table, selection, rows)
    if _name(annotation) == _READER and selection.increment is None:
        return _batches(manager, table, selection, rows)
    return form(_scan(manager, table, selection, rows))


def load_nothing(manager: IcebergTableManager, table: str, kind: object) -> object:
    """Return no rows as the type of an annotation, for a table that does not exist.

    Raises:
        InvalidScanError: The annotation is not valid.
    """
    annotation = bare(kind)
    form = _FORMS.get(_name(annotation))
    if form is not None:
        return form(pa.table({}))
    _require_engine_frame(manager, table, annotation)
    frame: object = manager.context.plane().empty_frame()
    return frame


def _require_engine_frame(manager: IcebergTableManager, table: str, annotation: object) -> None:
    unavailable: FloeStorageError | None = None
    engine = "a frame of the engine"
    try:
        if is_engine_annotation(manager, annotation):
            return
    except FloeStorageError as err:
        unavailable, engine = err, f"a frame of the engine, which is not available ({err.message.rstrip('.')})"
    msg = f"floe cannot load inputs as {_name(annotation)}."
    forms = ", ".join(name for name in _FORMS if "." in name)
    raise InvalidScanError(
        msg, hint=f"Use one of these annotations: {forms}, or {engine}.", table=table
    ) from unavailable


def bare(kind: object) -> object:
    """Unwrap ``Optional[X]``; other types are returned unchanged."""
    if get_origin(kind) in {Union, types.UnionType}:
        members = [member for member in get_args(kind) if member is not type(None)]
        return members[0] if len(members) == 1 else kind
    return kind


def _name(kind: object) -> str:
    if kind is None or kind is Any:
        return "any"
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__name__", str(kind))
    return f"{module.split('.')[0]}.{name}"


def _scan(manager: IcebergTableManager, table: str, selection: InputSelection, rows: RowSelection | None) -> pa.Table:
    row_filter = _expression(manager, table, selection, rows)
    if (bounds := _bounds(selection, row_filter)) is not None:
        return manager.incremental_scan(table, **bounds)
    return manager.scan(table, columns=selection.columns, row_filter=row_filter, **selection.version)


def _batches(
    manager: IcebergTableManager, table: str, selection: InputSelection, rows: RowSelection | None
) -> pa.RecordBatchReader:
    expression = _expression(manager, table, selection, rows)
    return manager.scan_batches(table, columns=selection.columns, row_filter=expression, **selection.version)


def _polars(rows: pa.Table) -> Any:  # noqa: ANN401 - Polars is optional
    import polars as pl

    return pl.from_arrow(rows)


def _frame(manager: IcebergTableManager, table: str, selection: InputSelection, rows: RowSelection | None) -> object:
    row_filter = _expression(manager, table, selection, rows)
    if (bounds := _bounds(selection, row_filter)) is not None:
        return manager.incremental_frame(table, **bounds)
    return manager.frame(table, columns=selection.columns, row_filter=row_filter, **selection.version)


def _bounds(selection: InputSelection, row_filter: Any) -> IncrementOptions | None:  # noqa: ANN401 - a row filter
    """Return the options of an incremental read; None to read all rows of a version."""
    increment = selection.increment
    if increment is None or increment.start is None:
        return None
    return {
        "from_snapshot": increment.start,
        "to_snapshot": increment.end,
        "columns": selection.columns,
        "row_filter": row_filter,
    }


_READER = "pyarrow.RecordBatchReader"
_FORMS: dict[str, Callable[[pa.Table], object]] = {
    "any": lambda rows: rows,
    "pyarrow.Table": lambda rows: rows,
    _READER: lambda rows: rows.to_reader(),
    "pandas.DataFrame": lambda rows: rows.to_pandas(),
    "polars.DataFrame": _polars,
    "polars.LazyFrame": lambda rows: _polars(rows).lazy(),
}


def _expression(manager: IcebergTableManager, table: str, selection: InputSelection, rows: RowSelection | None) -> Any:  # noqa: ANN401 - a row filter
    if rows is None:
        return selection.row_filter
    if selection.row_filter is None:
        return rows.expression
    from floe_iceberg.read.predicates import parse_row_filter

    schema = manager.load_table(table).schema()
    own, partitions = (parse_row_filter(part, schema, table=table) for part in (selection.row_filter, rows.expression))
    return own.and_(partitions)


def _plain(value: Any) -> Any:  # noqa: ANN401 - metadata values have any type
    return value.value if isinstance(value, MetadataValue) else value


def _columns(metadata: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    value = metadata.get("columns")
    if value is None:
        return None
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    msg = f"The metadata 'columns' of {where} must be a list of columns, not {value!r}."
    raise ConfigurationError(msg)


def _columns_of_type(dagster_type: DagsterType) -> tuple[str, ...] | None:
    metadata: Mapping[str, Any] = dagster_type.metadata or {}
    if names := _plain(metadata.get(COLUMNS_METADATA)):
        return tuple(names)
    for key in _COLUMN_SCHEMAS:
        schema = getattr(metadata.get(key), "schema", None)
        if isinstance(schema, TableSchema) and schema.columns:
            return tuple(column.name for column in schema.columns)
    return None


def _incremental(metadata: Mapping[str, Any], where: str) -> bool:
    value = metadata.get("incremental", False)
    if not isinstance(value, bool):
        msg = f"The metadata 'incremental' of {where} must be True or False, not {value!r}."
        raise ConfigurationError(msg)
    if value and any(metadata.get(key) is not None for key in _VERSIONS):
        msg = (
            f"{where[0].upper()}{where[1:]} sets both 'incremental' and a version of the table, but an incremental "
            "input reads the rows added since the last run."
        )
        raise ConfigurationError(msg, hint="Remove one of the two.")
    return value


def _text(metadata: Mapping[str, Any], key: str, where: str) -> str | None:
    value = metadata.get(key)
    if value is None or isinstance(value, str):
        return value
    msg = f"The metadata '{key}' of {where} must be text, not {value!r}."
    raise ConfigurationError(msg)


def _snapshot_id(metadata: Mapping[str, Any], where: str) -> int | None:
    value = metadata.get("snapshot_id")
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and value.isdigit():
        return int(value)
    msg = f"The metadata 'snapshot_id' of {where} must be a number, not {value!r}."
    raise ConfigurationError(msg)


def _moment(metadata: Mapping[str, Any], where: str) -> datetime | int | None:
    value = metadata.get("as_of")
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass
    if value is None or (isinstance(value, datetime | int) and not isinstance(value, bool)):
        return value
    msg = f"The metadata 'as_of' of {where} must be a timestamp such as '2026-01-31T12:00:00Z', not {value!r}."
    raise ConfigurationError(msg)
