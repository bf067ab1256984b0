"""Writes: each in a private session that carries its snapshot properties."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from floe_core.dataplane import OPERATION_ID_PROPERTY, WriteKind, WriteRequest
from floe_core.errors import CapabilityError, InvalidDataError
from floe_spark.arrow_input import ArrowInput
from floe_spark.errors import translated
from floe_spark.sql import quoted, table_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrameWriterV2, SparkSession

_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
# Of every session that writes: columns that differ only in case are different columns, as they are in process.
WRITE_CONF = {"spark.sql.caseSensitive": "true"}
# One open file per partition and task ran a 2 GB heap out of memory at 84 partitions; a sort within the task does not.
_WRITE_OPTIONS = {"fanout-enabled": "false"}
_ROWS = "floe rows of a key"
_NOT_WHOLE_FILES = "Cannot delete file where some, but not all, rows match filter"


def operation_id_of(request: WriteRequest) -> str:
    """Return the write's operation id, or a fresh one for a write without."""
    return request.snapshot_properties.get(OPERATION_ID_PROPERTY) or uuid.uuid4().hex


def snapshot_conf(request: WriteRequest) -> dict[str, str]:
    """Return the configuration that carries the write's snapshot properties."""
    return {_SNAPSHOT_PROPERTY + key: value for key, value in request.snapshot_properties.items()}


class SparkWrite:
    """One write in its private session."""

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
            ConcurrencyConflictError: Another writer won.
            CapabilityError: Spark cannot hold the table or do this without a branch.
        """
        with translated(self._request.table, operation_id=operation_id_of(self._request)), ExitStack() as stack:
            if self._request.kind is WriteKind.DELETE:
                self._delete()
                return
            source = self._conformed(self._source(stack))
            match self._request.kind:
                case WriteKind.APPEND:
                    self._writer(source).append()
                case WriteKind.OVERWRITE:
                    self._writer(source).overwrite(sf.lit(True))  # noqa: FBT003 - a column, not a flag
                case WriteKind.OVERWRITE_PARTITIONS:
                    self._writer(source).overwritePartitions()
                case WriteKind.OVERWRITE_FILTER:
                    self._replace(source)
                case WriteKind.UPSERT:
                    self._upsert(source)

    @property
    def _filter(self) -> str:
        if not self._request.row_filter:
            msg = f"{self._request.kind} on '{self._request.table}' needs a row filter."
            raise InvalidDataError(msg, table=self._request.table)
        return self._request.row_filter

    def _source(self, stack: ExitStack) -> DataFrame:
        data = self._request.data
        if isinstance(data, DataFrame):
            view = f"floe_{uuid.uuid4().hex}"
            # The frame lives in the user's session; a global view is what two sessions share.
            data.createGlobalTempView(view)
            stack.callback(self._session.catalog.dropGlobalTempView, view)
            return self._session.table(f"global_temp.{view}")
        if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            arrow = stack.enter_context(ArrowInput(self._session, shares_files=self._shares_files))
            return arrow.frame(data, self._session.table(self._target).schema)
        msg = f"Spark cannot write data of type {type(data).__name__}."
        raise InvalidDataError(msg, hint="Give a PySpark DataFrame or Arrow data.", table=self._request.table)

    def _conformed(self, source: DataFrame) -> DataFrame:
        """Fill in the optional columns that the data lacks."""
        present = set(source.columns)
        absent = [
            sf.lit(None).cast(field.dataType).alias(field.name)
            for field in self._session.table(self._target).schema.fields
            if field.name not in present and field.nullable
        ]
        if not absent or self._request.kind is WriteKind.UPSERT:
            return source
        return source.select(*(sf.col(quoted(name)) for name in source.columns), *absent)

    def _writer(self, source: DataFrame) -> DataFrameWriterV2:
        return source.writeTo(self._target).options(**_merged(_WRITE_OPTIONS, self._request.options))

    def _replace(self, source: DataFrame) -> None:
        """Replace the rows that match the filter, in one commit when they fill whole files."""
        try:
            self._writer(source).overwrite(sf.expr(self._filter))
        except Exception as err:
            if _NOT_WHOLE_FILES not in str(err):
                raise
            if self._request.branch is None:
                msg = (
                    f"The filter matches parts of files of '{self._request.table}', which Spark replaces in two steps."
                )
                hint = "Write to a branch and publish it, so that readers see both steps at once."
                raise CapabilityError(msg, hint=hint, table=self._request.table) from err
            self._delete()
            self._writer(source).append()

    def _upsert(self, source: DataFrame) -> None:
        keys = self._request.keys
        if not keys or (unknown := set(keys) - set(source.columns)):
            missing = ", ".join(sorted(unknown)) if keys else "none given"
            msg = f"An upsert into '{self._request.table}' needs key columns of the data: {missing}."
            raise InvalidDataError(msg, table=self._request.table)
        # Read once: MERGE would run the frame several times, and cannot be planned from a view over a table.
        source = source.localCheckpoint()
        self._refuse_repeated_keys(source)
        view = f"floe_{uuid.uuid4().hex}"
        source.createTempView(view)
        try:
            self._session.sql(self._merge_sql(source.columns, view))
        finally:
            self._session.catalog.dropTempView(view)

    def _merge_sql(self, columns: list[str], view: str) -> str:
        # Null is equal to nothing, in process as here: a row without its key is always a new one.
        matched = " AND ".join(f"target.{quoted(key)} = source.{quoted(key)}" for key in self._request.keys)
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

    def _refuse_repeated_keys(self, source: DataFrame) -> None:
        """MERGE itself notices a repeated key only when the table already holds it, and else inserts both rows."""
        keys = [sf.col(quoted(key)) for key in self._request.keys]
        known = source.filter(reduce(and_, (key.isNotNull() for key in keys)))
        counted = known.groupBy(*keys).agg(sf.count("*").alias(_ROWS))
        repeated = counted.filter(sf.col(_ROWS) > 1).drop(_ROWS).head()
        if repeated is not None:
            msg = f"The data holds more than one row for the key {repeated.asDict()}."
            raise InvalidDataError(msg, hint="Keep one row a key before the upsert.", table=self._request.table)

    def _delete(self) -> None:
        self._session.sql(f"DELETE FROM {self._target} WHERE {self._filter}")  # noqa: S608 - the filter is the request


def _merged(defaults: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    return {**defaults, **chosen}
