"""Runs SQL queries over frames, so SQL models read the same rows as Python assets, and compares frames."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from floe_spark.plane.filters import filter_sql
from floe_spark.plane.reader import filtered, version_frame
from floe_spark.plane.sql import quoted, quoted_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from floe_core.dataplane import ColumnPath, ReadRequest

__all__ = ["DataFrame", "guarded", "query_frames", "rows_added", "rows_differ", "version_rows"]

_KEY = "floe key of a row"


def query_frames(
    session: SparkSession, frames: Mapping[str, DataFrame], text: Callable[[Mapping[str, str]], str]
) -> DataFrame:
    """Run a query whose tables are frames.

    Args:
        session: Session for a query without frames.
        frames: Frame by table name.
        text: Builds the query from the view name of each table.
    """
    views = {table: f"floe_model_{uuid.uuid4().hex}" for table in frames}
    for table, frame in frames.items():
        frame.createTempView(views[table])
        session = frame.sparkSession
    try:
        # A writer uses the parsed plan of a query; a projection resolves the views before they are dropped.
        result = session.sql(text(views)).select("*")
    finally:
        # Spark Connect analyzes a plan again on every execution, so its views are kept until the session ends.
        for table, frame in frames.items():
            if not isinstance(frame, ConnectDataFrame):
                session.catalog.dropTempView(views[table])
    return result


def guarded(data: DataFrame, row_filter: object, *, column: str, message: str) -> DataFrame:
    """Return a frame with the same rows; computing a row that does not match a filter fails with a message."""
    rows = sf.expr(filter_sql(row_filter) or "true")
    guarded_columns = {column, column.split(".", maxsplit=1)[0]}

    def selected(name: str) -> Column:
        # A column, not a SQL expression, in which Spark would substitute ${…}.
        value = sf.col("`" + name.replace("`", "``") + "`")
        if name not in guarded_columns:
            return value
        return sf.when(rows, value).otherwise(sf.raise_error(sf.lit(message))).alias(name)

    return data.select(*(selected(name) for name in data.columns))


def version_rows(session: SparkSession, catalog: str, request: ReadRequest, columns: Sequence[str]) -> DataFrame:
    """Return the filtered rows of a table version with the given columns; missing columns are null."""
    frame = version_frame(session, catalog, replace(request, columns=None))
    existing = set(frame.columns)
    shown = (sf.col(quoted(name)) if name in existing else sf.lit(None).alias(name) for name in columns)
    return filtered(frame.select(*shown), request)


def rows_added(before: DataFrame, after: DataFrame) -> DataFrame:
    """Return the rows of the second frame that the first does not contain; duplicates count individually."""
    return _with_maps(_without_maps(after).exceptAll(_without_maps(before)), after.schema)


def rows_differ(
    before: DataFrame, after: DataFrame, *, keys: Sequence[ColumnPath] = (), keyed: DataFrame | None = None
) -> bool:
    """Whether two frames differ; duplicates count individually.

    Args:
        before: The first frame.
        after: The second frame.
        keys: The key columns, for a comparison of some rows only.
        keyed: A frame with the keys of the rows to compare; None compares all rows.
    """
    if keyed is not None:
        # In a struct, null equals null, so keys that contain null are compared as well.
        parts = ", ".join(f"{quoted_path(path)} as k{number}" for number, path in enumerate(keys))
        struct = f"struct({parts}) as `{_KEY}`"
        wanted = keyed.selectExpr(struct).distinct()
        before, after = (
            frame.selectExpr("*", struct).join(wanted, on=_KEY, how="left_semi").drop(_KEY) for frame in (before, after)
        )
    before, after = _without_maps(before), _without_maps(after)
    return not (before.exceptAll(after).isEmpty() and after.exceptAll(before).isEmpty())


def _without_maps(frame: DataFrame) -> DataFrame:
    """Return a frame whose maps are lists of their entries, sorted by key; nested ones as well.

    Spark does not compare maps, and has no set operations for frames with them.
    """
    return _converted(frame, frame.schema, back=False)


def _with_maps(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a frame whose lists of entries are maps again, where a schema has maps."""
    return _converted(frame, schema, back=True)


def _converted(frame: DataFrame, schema: StructType, *, back: bool) -> DataFrame:
    if not _has_map(schema):
        return frame
    fields = ((field.name, field.dataType) for field in schema.fields)
    return frame.select(*(_value(sf.col(quoted(name)), kind, back=back).alias(name) for name, kind in fields))


def _value(value: Column, kind: DataType, *, back: bool) -> Column:
    if not _has_map(kind):
        return value
    if isinstance(kind, ArrayType):
        return sf.transform(value, lambda one: _value(one, kind.elementType, back=back))
    if isinstance(kind, StructType):
        fields = (_value(value.getField(one.name), one.dataType, back=back).alias(one.name) for one in kind.fields)
        return sf.when(value.isNotNull(), sf.struct(*fields))
    held: DataType = kind.valueType if isinstance(kind, MapType) else kind

    def entry(one: Column) -> Column:
        return sf.struct(
            one.getField("key").alias("key"), _value(one.getField("value"), held, back=back).alias("value")
        )

    entries = sf.transform(value if back else sf.map_entries(value), entry)
    return sf.map_from_entries(entries) if back else sf.array_sort(entries)


def _has_map(kind: DataType) -> bool:
    match kind:
        case MapType():
            return True
        case ArrayType():
            return _has_map(kind.elementType)
        case StructType():
            return any(_has_map(field.dataType) for field in kind.fields)
        case _:
            return False
