"""Dagster metadata of a materialization: the table, the snapshot and the write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster import MetadataValue, TableColumn, TableColumnConstraints, TableSchema

from floe_core.dataplane import OPERATION_ID_PROPERTY, SOURCE_ROWS_PROPERTY
from floe_core.errors import FloeStorageError
from floe_core.telemetry import get_logger
from floe_iceberg.names import name_of
from floe_iceberg.read.row_counts import RowCount

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from floe_dagster.io.outputs import Materialization, Written
    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.models import SnapshotInfo

_log = get_logger("floe.dagster")


def materialization_metadata(
    manager: IcebergTableManager, output: Materialization, written: Written
) -> dict[str, MetadataValue | Any]:
    """Return the metadata of a write, with floe's and Dagster's keys."""
    snapshot = written.snapshot
    made = output.operation_id is None or snapshot.summary.get(OPERATION_ID_PROPERTY) == output.operation_id
    figures = snapshot.summary if made else {}
    num_rows = written.num_rows
    if num_rows is None:
        num_rows = _number(figures, SOURCE_ROWS_PROPERTY if SOURCE_ROWS_PROPERTY in figures else "added-records")
    metadata: dict[str, Any] = {
        "table": output.table,
        "num_rows": num_rows,
        "snapshot_id": MetadataValue.int(snapshot.snapshot_id),
        "write_mode": written.mode.value,
        "engine": _engine(snapshot),
        "bytes": _number(figures, "added-files-size"),
        "files": _number(figures, "added-data-files"),
        "dagster/table_name": f"{manager.catalog.name}.{output.table}",
        "dagster/row_count": RowCount.of(snapshot.summary).rows,
        "dagster/column_schema": column_schema(written.table.schema()),
    }
    if snapshot.manifest_list:
        metadata["snapshot"] = MetadataValue.path(snapshot.manifest_list)
    if output.operation_id:
        metadata["operation_id"] = output.operation_id
    if written.branch is not None:
        metadata["branch"] = written.branch
    if (in_partition := _partition_rows(written)) is not None:
        metadata["dagster/partition_row_count"] = in_partition
    return metadata


def nothing_written(table: str) -> dict[str, Any]:
    """Return the metadata of an output that did not change its table."""
    return {"table": table, "num_rows": 0, "note": "The asset returned nothing, so the table is unchanged."}


def column_schema(schema: Schema) -> TableSchema:
    """Return a table's columns as a Dagster schema."""
    return TableSchema(
        columns=[
            TableColumn(
                name=field.name,
                type=str(field.field_type),
                description=field.doc,
                constraints=TableColumnConstraints(nullable=not field.required),
            )
            for field in schema.fields
        ]
    )


def _engine(snapshot: SnapshotInfo) -> str:
    return snapshot.summary.get("engine-name", "arrow")


def _number(summary: dict[str, str], key: str) -> int:
    return int(summary.get(key, 0))


def _partition_rows(written: Written) -> int | None:
    """Count the rows of the written partitions, from file statistics if possible."""
    if written.rows is None:
        return None
    table: Table = written.table
    try:
        return table.scan(row_filter=written.rows.expression, snapshot_id=written.snapshot.snapshot_id).count()
    except (FloeStorageError, ValueError, NotImplementedError, OSError) as err:
        _log.warning("partition_row_count_unknown", table=name_of(table), reason=str(err))
        return None
