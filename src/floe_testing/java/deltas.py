"""Commits row deltas through Iceberg's Java library, to test tables that other engines have changed.

Spark writes position deletes and deletion vectors only in its own row-level plans, and never writes equality deletes;
Flink and other engines do. These functions commit such files through Java, in a classic Spark session.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from floe_testing.java.pyspark_internals import array_of_ints, java_session_of, jvm_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession


def add_position_deletes(spark: SparkSession, table_name: str, positions: Mapping[str, Sequence[int]]) -> int:
    """Commit Parquet position deletes, one delete file per data file; for format version 2.

    Args:
        spark: A classic session with access to the table.
        table_name: Name of the table with its catalog.
        positions: Positions of the rows to delete, by data file.

    Returns:
        The snapshot id.
    """
    delta = JavaDelta(spark, table_name)
    factory = delta.writers().build()
    change = delta.table.newRowDelta()
    for path, places in positions.items():
        spec, partition = delta.place_of(path)
        output = delta.output(spec, partition)
        writer = factory.newPositionDeleteWriter(output, spec, partition)
        for place in sorted(places):
            writer.write(delta.iceberg.deletes.PositionDelete.create().set(path, place))
        writer.close()
        change.addDeletes(writer.toDeleteFile())
    return delta.commit(change)


def add_equality_deletes(
    spark: SparkSession, table_name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> int:
    """Commit Parquet equality deletes that apply to all current rows of the table.

    Args:
        spark: A classic session with access to the table.
        table_name: Name of the table with its catalog.
        columns: Top-level columns to compare.
        rows: Values of these columns, one sequence per row to delete; None matches null.

    Returns:
        The snapshot id.
    """
    delta = JavaDelta(spark, table_name)
    schema = delta.table.schema().select(delta.java_list(columns))
    ids = [delta.table.schema().findField(name).fieldId() for name in columns]
    factory = delta.writers().equalityFieldIds(delta.java_ints(ids)).equalityDeleteRowSchema(schema).build()
    change = delta.table.newRowDelta()
    # An equality delete file with a partition applies to that partition only, so every partition with files gets one.
    for spec, partition in delta.places():
        output = delta.output(spec, partition)
        writer = factory.newEqualityDeleteWriter(output, spec, partition)
        for row in rows:
            writer.write(delta.record(schema, dict(zip(ids, row, strict=True))))
        writer.close()
        change.addDeletes(writer.toDeleteFile())
    return delta.commit(change)


def add_deletion_vectors(spark: SparkSession, table_name: str, positions: Mapping[str, Sequence[int]]) -> int:
    """Commit deletion vectors, merged with existing deletes of the data files; for format version 3.

    Args:
        spark: A classic session with access to the table.
        table_name: Name of the table with its catalog.
        positions: Positions of the rows to delete, by data file.

    Returns:
        The snapshot id.
    """
    delta = JavaDelta(spark, table_name)
    functions = delta.jvm.com.google.common.base.Functions
    previous = delta.jvm.java.util.HashMap()
    for path in positions:
        if (known := delta.position_deletes_of(path, functions)) is not None:
            previous.put(path, known)
    writer = delta.iceberg.deletes.BaseDVFileWriter(delta.outputs("PUFFIN"), functions.forMap(previous, None))
    for path, places in positions.items():
        spec, partition = delta.place_of(path)
        for place in places:
            writer.delete(path, place, spec, partition)
    writer.close()
    change = delta.table.newRowDelta()
    for file in writer.result().deleteFiles():
        change.addDeletes(file)
    for file in writer.result().rewrittenDeleteFiles():
        change.removeDeletes(file)
    return delta.commit(change)


def java_table(spark: SparkSession, name: str) -> Any:
    """Load a table as a Java object.

    Java looks up catalogs in the active session regardless of the session passed in, and an earlier test may have left
    an active session whose catalog is closed.
    """
    jvm, session = jvm_of(spark), java_session_of(spark)
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, name)


class JavaDelta:
    """A table as a Java object, and the building blocks of a row delta."""

    def __init__(self, spark: SparkSession, table_name: str) -> None:
        self._spark = spark
        self.jvm = jvm_of(spark)
        self.iceberg: Any = self.jvm.org.apache.iceberg
        self.table: Any = java_table(spark, table_name)
        self._planned_on = self.table.currentSnapshot().snapshotId()
        planned = self.table.newScan().planFiles()
        self._tasks = {str(task.file().location()): task for task in planned.iterator()}
        planned.close()

    def place_of(self, path: str) -> tuple[Any, Any]:
        """Return the spec and the partition of a data file."""
        file = self._tasks[path].file()
        return self.table.specs().get(file.specId()), file.partition()

    def places(self) -> Iterator[tuple[Any, Any]]:
        """Yield each spec and partition that has data files, once."""
        seen = set()
        for path in self._tasks:
            spec, partition = self.place_of(path)
            key = (spec.specId(), partition.toString())
            if key not in seen:
                seen.add(key)
                yield spec, partition

    def position_deletes_of(self, path: str, functions: Any) -> Any | None:
        """Return the positions already deleted in a data file."""
        deletes, inputs = self.jvm.java.util.ArrayList(), self.jvm.java.util.HashMap()
        for file in self._tasks[path].deletes():
            # Equality deletes contain values, not positions.
            if file.content() == self.iceberg.FileContent.POSITION_DELETES:
                deletes.add(file)
                inputs.put(file, self.table.io().newInputFile(file.location()))
        if deletes.isEmpty():
            return None
        return self.iceberg.data.BaseDeleteLoader(functions.forMap(inputs)).loadPositionDeletes(deletes, path)

    def writers(self) -> Any:
        """Return a builder of file writers."""
        parquet = self.iceberg.FileFormat.PARQUET
        builder = self.iceberg.data.GenericFileWriterFactory.Builder(self.table)
        return builder.dataFileFormat(parquet).deleteFileFormat(parquet)

    def outputs(self, file_format: str) -> Any:
        """Return a factory of uniquely named files in the table's data location."""
        builder = self.iceberg.io.OutputFileFactory.builderFor(self.table, 1, 1)
        return builder.format(getattr(self.iceberg.FileFormat, file_format)).operationId(str(uuid.uuid4())).build()

    def output(self, spec: Any, partition: Any) -> Any:
        """Return a new Parquet file in a partition's folder."""
        outputs = self.outputs("PARQUET")
        # An empty partition would produce an empty folder name, which some object stores refuse.
        return outputs.newOutputFile() if spec.isUnpartitioned() else outputs.newOutputFile(spec, partition)

    def record(self, schema: Any, values: Mapping[int, object]) -> Any:
        """Return a record; parsing from the spec's JSON form gives each number the Java type of its column."""
        text = json.dumps({str(field_id): _json_value(value) for field_id, value in values.items()})
        record = self.iceberg.SingleValueParser.fromJson(schema.asStruct(), text)
        # Dates and times are parsed to numbers, but record writers expect java.time types.
        for field_id, value in values.items():
            if isinstance(value, dt.date | dt.time):
                record.setField(schema.findColumnName(field_id), self._java_time(value))
        return record

    def _java_time(self, value: dt.date | dt.time) -> Any:
        times = self.jvm.java.time
        if isinstance(value, dt.datetime):
            return (times.OffsetDateTime if value.tzinfo else times.LocalDateTime).parse(value.isoformat())
        return (times.LocalDate if isinstance(value, dt.date) else times.LocalTime).parse(value.isoformat())

    def java_list(self, values: Sequence[object]) -> Any:
        """Return a Java list."""
        found = self.jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found

    def java_ints(self, values: Sequence[int]) -> Any:
        """Return a Java array of int."""
        return array_of_ints(self._spark, values)

    def commit(self, change: Any) -> int:
        """Commit a row delta and return its snapshot's id."""
        change.validateFromSnapshot(self._planned_on).commit()
        self.table.refresh()
        return int(self.table.currentSnapshot().snapshotId())


def _json_value(value: object) -> object:
    match value:
        case bytes():
            return base64.b16encode(value).decode()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case Decimal() | uuid.UUID():
            return str(value)
        case _:
            return value
