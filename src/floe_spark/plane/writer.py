"""Writes: frames in the session they live in, SQL and Arrow data in a private one.

A write of a frame carries its snapshot properties as options. MERGE and DELETE take no options; theirs are in the
configuration of a session that nobody else uses, where they cannot end up on another write.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from floe_core.dataplane import OPERATION_ID_PROPERTY, SOURCE_ROWS_PROPERTY, NullKeys, WriteKind, WriteRequest
from floe_core.errors import CapabilityError, InvalidDataError
from floe_iceberg.write.upsert import null_in_keys
from floe_spark.plane.arrow_input import ArrowInput
from floe_spark.plane.filters import filter_sql
from floe_spark.plane.sql import quoted, table_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrameWriterV2, SparkSession

PRIVATE_CONF = {
    # Columns that differ only in case are different columns, as they are in process.
    "spark.sql.caseSensitive": "true",
    # Names and values are what they are: ${…} in one is not replaced by a setting or an environment variable.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
}
# One open file per partition and task ran a 2 GB heap out of memory at 84 partitions; a sort within the task does not.
_WRITE_OPTIONS = {"fanout-enabled": "false"}
_NOT_IN_ONE_STEP = (
    "Cannot delete file where some, but not all, rows match filter",
    # Iceberg has no expression for it, isnan and most patterns among them; a DELETE evaluates it row by row.
    "cannot translate expression to source filter",
    "Cannot convert Spark predicate to Iceberg expression",
)
_ROWS = "floe rows of a key"
# Where Spark's schema carries the write default of a column.
_DEFAULT = "CURRENT_DEFAULT"
_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
_SOURCE_ROWS = f"{_SNAPSHOT_PROPERTY}{SOURCE_ROWS_PROPERTY}"


class PartsOfFilesError(Exception):
    """A filter matches some rows of a file only, or rows must be read to tell: Spark does not replace in one step."""


def operation_id_of(request: WriteRequest) -> str:
    """Return the write's operation id, or a fresh one for a write without."""
    return request.snapshot_properties.get(OPERATION_ID_PROPERTY) or uuid.uuid4().hex


def snapshot_conf(request: WriteRequest) -> dict[str, str]:
    """Return the configuration that carries the snapshot properties of a write by SQL."""
    return {f"{_SNAPSHOT_PROPERTY}{key}": value for key, value in request.snapshot_properties.items()}


def writes_frame_directly(request: WriteRequest) -> bool:
    """Whether the write is one that a frame's own writer can do."""
    return isinstance(request.data, DataFrame) and request.kind not in {WriteKind.UPSERT, WriteKind.DELETE}


def in_two_steps(request: WriteRequest) -> tuple[WriteRequest, WriteRequest]:
    """Return the delete and the append that replace parts of files.

    Raises:
        CapabilityError: Without a branch, readers would see the state in between.
    """
    if request.branch is None:
        msg = f"The filter matches parts of files of '{request.table}', which Spark replaces in two steps."
        hint = "Write to a branch and publish it, so that readers see both steps at once."
        raise CapabilityError(msg, hint=hint, table=request.table)
    return (
        replace(request, kind=WriteKind.DELETE, data=None),
        replace(request, kind=WriteKind.APPEND, row_filter=None),
    )


class SparkWrite:
    """One write in one session."""

    def __init__(self, session: SparkSession, catalog: str, request: WriteRequest, *, shares_files: bool) -> None:
        """Prepare the write; nothing happens yet."""
        self._session = session
        self._request = request
        self._shares_files = shares_files
        self._target = table_name(catalog, request.table, branch=request.branch)

    def run(self) -> None:
        """Carry out the write.

        Raises:
            InvalidDataError: The data does not fit the table, or a key is not unique.
            PartsOfFilesError: An overwrite by filter needs two steps.
        """
        with ExitStack() as stack:
            match self._request.kind:
                case WriteKind.DELETE:
                    # The filter is floe's own text, written anew from what its parser understood.
                    self._session.sql(f"DELETE FROM {self._target} WHERE {self._filter}")  # noqa: S608 - as above
                case WriteKind.UPSERT:
                    self._upsert(self._source(stack))
                case _:
                    self._write(self._conformed(self._source(stack)))

    @property
    def _filter(self) -> str:
        found = filter_sql(self._request.row_filter)
        if not found:
            msg = f"{self._request.kind} on '{self._request.table}' needs a row filter."
            raise InvalidDataError(msg, table=self._request.table)
        return found

    def _source(self, stack: ExitStack) -> DataFrame:
        data = self._request.data
        if isinstance(data, DataFrame):
            return data if data.sparkSession is self._session else self._shared(data, stack)
        if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            arrow = stack.enter_context(ArrowInput(self._session, shares_files=self._shares_files))
            return arrow.frame(data, self._session.table(self._target).schema)
        msg = f"Spark cannot write data of type {type(data).__name__}."
        raise InvalidDataError(msg, hint="Give a PySpark DataFrame or Arrow data.", table=self._request.table)

    def _shared(self, data: DataFrame, stack: ExitStack) -> DataFrame:
        """Bring a frame into this session; a global view is what two sessions share."""
        view = f"floe_{uuid.uuid4().hex}"
        data.createGlobalTempView(view)
        stack.callback(self._session.catalog.dropGlobalTempView, view)
        # Spark 4.1 cannot plan a write from a view over a table, so the rows are read here, and only once.
        return self._session.table(f"global_temp.{view}").localCheckpoint()

    def _conformed(self, source: DataFrame) -> DataFrame:
        """Fill in the optional columns that the data lacks; those with a write default are left to Spark."""
        present = set(source.columns)
        absent = [
            sf.lit(None).cast(field.dataType).alias(field.name)
            for field in self._session.table(self._target).schema.fields
            if field.name not in present and field.nullable and _DEFAULT not in field.metadata
        ]
        return source.select(*(sf.col(quoted(name)) for name in source.columns), *absent) if absent else source

    def _write(self, source: DataFrame) -> None:
        match self._request.kind:
            case WriteKind.APPEND:
                self._writer(source).append()
            case WriteKind.OVERWRITE:
                self._writer(source).overwrite(sf.lit(True))  # noqa: FBT003 - a column, not a flag
            case WriteKind.OVERWRITE_PARTITIONS:
                self._writer(source).overwritePartitions()
            case _:
                self._replace(source)

    def _writer(self, source: DataFrame) -> DataFrameWriterV2:
        properties = {f"snapshot-property.{key}": value for key, value in self._request.snapshot_properties.items()}
        return source.writeTo(self._target).options(**{**_WRITE_OPTIONS, **properties, **self._request.options})

    def _replace(self, source: DataFrame) -> None:
        """Replace the rows that match the filter, in one commit."""
        condition = sf.expr(self._filter)
        try:
            self._writer(source).overwrite(condition)
        except Exception as err:
            if any(reason in str(err) for reason in _NOT_IN_ONE_STEP):
                raise PartsOfFilesError from err
            raise

    def _upsert(self, source: DataFrame) -> None:
        keys = {key: _column_path(source.schema, key) for key in self._request.keys}
        if not keys or not all(keys.values()):
            missing = ", ".join(key for key, path in keys.items() if not path) or "none given"
            msg = f"An upsert into '{self._request.table}' needs key columns of the data: {missing}."
            raise InvalidDataError(msg, table=self._request.table)
        paths = {key: ".".join(quoted(part) for part in path or ()) for key, path in keys.items()}
        rows = self._counted(source, paths)
        view = f"floe_{uuid.uuid4().hex}"
        source.createTempView(view)
        # The snapshot of a MERGE counts the rows of every file it had to copy as well.
        self._session.conf.set(_SOURCE_ROWS, str(rows))
        try:
            self._session.sql(self._merge_sql(source.columns, list(paths.values()), view))
        finally:
            self._session.conf.unset(_SOURCE_ROWS)
            self._session.catalog.dropTempView(view)

    def _merge_sql(self, columns: list[str], keys: list[str], view: str) -> str:
        equals = "<=>" if self._request.null_keys is NullKeys.MATCH else "="
        matched = " AND ".join(f"target.{key} {equals} source.{key}" for key in keys)
        changes = ", ".join(
            f"target.{quoted(name)} = source.{quoted(name)}" for name in columns if name not in self._request.keys
        )
        names = ", ".join(quoted(name) for name in columns)
        values = ", ".join(f"source.{quoted(name)}" for name in columns)
        update = f"WHEN MATCHED THEN UPDATE SET {changes} " if changes else ""
        return (
            f"MERGE INTO {self._target} AS target USING {view} AS source ON {matched} "  # noqa: S608 - names are quoted
            f"{update}WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        )

    def _counted(self, source: DataFrame, paths: dict[str, str]) -> int:
        """Count the rows, and refuse a key that repeats, or holds null unless null equals null.

        MERGE itself notices a repeated key only when the table already holds it, and else inserts both rows. Where null
        is equal to nothing, every rerun would add such a row again.
        """
        names = [f"{_ROWS} {number}" for number in range(len(paths))]
        keys = [sf.col(path).alias(name) for path, name in zip(paths.values(), names, strict=True)]
        counted = source.groupBy(*keys).agg(sf.count("*").alias(_ROWS))
        missing = [sf.col(quoted(name)).isNull() for name in names]
        compared = sf.col(_ROWS) if self._request.null_keys is NullKeys.MATCH else _unless(missing, sf.col(_ROWS))
        found = counted.agg(
            sf.sum(_ROWS),
            sf.max(compared),
            sf.max_by(sf.struct(*(quoted(name) for name in names)), compared),
            *(sf.sum(sf.when(null, sf.col(_ROWS))) for null in missing),
        ).head()
        if found is None:
            return 0
        rows, most, key, *empty = found
        nulls = {name: count for name, count in zip(paths, empty, strict=True) if count}
        if nulls and self._request.null_keys is NullKeys.REFUSE:
            raise null_in_keys(nulls, table=self._request.table)
        if most is not None and most > 1:
            msg = f"The data has several rows for keys such as {dict(zip(paths, key, strict=True))}."
            raise InvalidDataError(msg, hint="Keep one row per key before the upsert.", table=self._request.table)
        return int(rows or 0)


def _unless(conditions: list[Column], value: Column) -> Column:
    return sf.when(~reduce(or_, conditions), value)


def _column_path(schema: StructType, name: str) -> list[str] | None:
    """Split a full name into the names that lead to it; a dot in a name is no separator."""
    fields = {field.name: field.dataType for field in schema.fields}
    parts = name.split(".")
    for taken in range(len(parts), 0, -1):
        head = ".".join(parts[:taken])
        if head not in fields:
            continue
        if taken == len(parts):
            return [head]
        kind = fields[head]
        rest = _column_path(kind, ".".join(parts[taken:])) if isinstance(kind, StructType) else None
        if rest is not None:
            return [head, *rest]
    return None
