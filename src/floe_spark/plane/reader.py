"""Reads a table version as a lazy frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from floe_spark.plane.filters import condition_sql, filter_sql
from floe_spark.plane.sql import column_path, quoted_path, table_name, timestamp_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from floe_core.dataplane import ReadRequest


def read_frame(session: SparkSession, catalog: str, request: ReadRequest) -> DataFrame:
    """Return a lazy frame over the requested version, rows and columns."""
    frame = filtered(version_frame(session, catalog, request), request)
    if request.columns is not None:
        paths = (column_path(frame.schema, name) or [name] for name in request.columns)
        frame = frame.select(*(sf.col(quoted_path(path)) for path in paths))
    return frame if request.limit is None else frame.limit(request.limit)


def version_frame(session: SparkSession, catalog: str, request: ReadRequest) -> DataFrame:
    """Return a lazy frame over all rows and columns of the requested version."""
    reader = session.read
    for key, value in _version_options(request).items():
        reader = reader.option(key, value)
    branch = request.ref if request.ref is not None and request.ref.isdigit() else None
    return reader.table(table_name(catalog, request.table, branch=branch))


def filtered(frame: DataFrame, request: ReadRequest) -> DataFrame:
    """Return the rows of a frame that match the filters of a request."""
    if rows := filter_sql(request.row_filter):
        frame = frame.filter(rows)
    return frame.filter(condition_sql(request.where)) if request.where else frame


def _version_options(request: ReadRequest) -> dict[str, str]:
    if request.start_snapshot_id is not None:
        return _increment(request)
    if request.snapshot_id is not None:
        return {"versionAsOf": str(request.snapshot_id)}
    if request.as_of is not None:
        return {"timestampAsOf": timestamp_text(request.as_of)}
    if request.ref is not None and not request.ref.isdigit():
        return {"versionAsOf": request.ref}
    return {}


def _increment(request: ReadRequest) -> dict[str, str]:
    options = {"start-snapshot-id": str(request.start_snapshot_id)}
    if request.snapshot_id is not None:
        options["end-snapshot-id"] = str(request.snapshot_id)
    return options
