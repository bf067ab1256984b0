"""Writes: DuckDB computes the rows, and floe commits them in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyRelation
from floe_core.dataplane import OPERATION_ID_PROPERTY, SOURCE_ROWS_PROPERTY, WriteKind
from floe_core.errors import CapabilityError, EngineError, InvalidDataError, InvalidScanError
from floe_iceberg import Engine, WriteMode
from floe_iceberg.read.capabilities import NEWEST_WRITABLE_VERSION

from floe_duckdb.relations import arrow_table
from floe_duckdb.sql import reason

if TYPE_CHECKING:
    from floe_core.dataplane import WriteRequest
    from floe_iceberg import IcebergTableManager

_MODES = {WriteKind.OVERWRITE_FILTER: WriteMode.OVERWRITE}


def write(manager: IcebergTableManager, request: WriteRequest) -> None:
    """Execute one write in one commit with the request's operation id.

    Raises:
        CapabilityError: The table has a format version that floe cannot write in process.
        EngineError: DuckDB cannot compute a relation.
        InvalidDataError: The rows do not match the schema; ``nulls`` is true if a required column contains null.
    """
    if (version := manager.load_table(request.table).metadata.format_version) > NEWEST_WRITABLE_VERSION:
        msg = f"Table '{request.table}' has format version {version}, which DuckDB cannot write."
        raise CapabilityError(msg, hint="Use a project with compute.type spark.", table=request.table)
    properties = {key: str(value) for key, value in request.snapshot_properties.items()}
    operation_id = properties.pop(OPERATION_ID_PROPERTY, None)
    if request.kind is WriteKind.DELETE:
        manager.delete(
            request.table,
            _row_filter(request),
            snapshot_properties=properties,
            operation_id=operation_id,
            branch=request.branch,
            engine=Engine.ARROW,
        )
        return
    rows, upsert = _rows(request), request.kind is WriteKind.UPSERT
    if upsert:
        properties[SOURCE_ROWS_PROPERTY] = str(rows.num_rows)
    try:
        manager.write_data(
            request.table,
            rows,
            mode=_MODES.get(request.kind) or WriteMode(request.kind.value),
            keys=request.keys if upsert else None,
            null_keys=request.null_keys if upsert else None,
            overwrite_filter=_row_filter(request) if request.kind is WriteKind.OVERWRITE_FILTER else None,
            # The calling manager has already evolved the schema.
            evolve_schema=False,
            snapshot_properties=properties,
            operation_id=operation_id,
            branch=request.branch,
            engine=Engine.ARROW,
        )
    except InvalidDataError as err:
        fields = manager.load_table(request.table).schema().fields
        required = {field.name for field in fields if field.required}
        err.nulls = any(rows[name].null_count for name in required.intersection(rows.column_names))
        raise


def _row_filter(request: WriteRequest) -> Any:  # noqa: ANN401 - a row filter of floe
    if request.row_filter is None:
        msg = f"Write '{request.kind.value}' to table '{request.table}' requires a row filter."
        raise InvalidScanError(msg, table=request.table)
    return request.row_filter


def _rows(request: WriteRequest) -> pa.Table:
    data = request.data
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if not isinstance(data, DuckDBPyRelation):
        return data
    try:
        rows = arrow_table(data)
    except duckdb.Error as err:
        msg = f"DuckDB cannot compute the rows for table '{request.table}': {reason(str(err))}"
        raise EngineError(msg, table=request.table) from err
    for field in rows.schema:
        if _is_infinite(rows[field.name]):
            msg = f"Column '{field.name}' has infinite dates or timestamps, which Iceberg does not have."
            raise InvalidDataError(msg, hint="Replace them with null, or with a date.", table=request.table)
    return rows


def _is_infinite(values: pa.ChunkedArray) -> bool:
    """Whether dates or timestamps are infinite, which are the largest and least numbers in DuckDB."""
    if not (pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type)):
        return False
    found = pc.min_max(values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64()))
    most = 2 ** (values.type.bit_width - 1) - 1
    return most in {found["max"].as_py(), -(found["min"].as_py() or 0)}
