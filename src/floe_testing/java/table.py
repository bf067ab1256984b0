"""Changes tables with row deltas like a streaming engine, selecting rows by SQL."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from floe_testing.java.deltas import JavaDelta, add_deletion_vectors, add_equality_deletes, add_position_deletes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    Row = Mapping[str, Any]

_DELETION_VECTORS = 3


class JavaTable:
    """A table changed through Java; values are numbers, text, booleans, and lists, maps and structs of those."""

    def __init__(self, session: SparkSession, name: str) -> None:
        """Use a table in a Spark catalog, named ``catalog.namespace.table``."""
        self._session = session
        self._name = name

    def delete_positions(self, condition: str, *, per_file: bool = True) -> int:
        """Delete the rows that match a SQL condition, by position or, in format version 3, by deletion vector.

        Args:
            condition: A SQL condition.
            per_file: Whether to write one delete file per data file; otherwise one per partition.

        Returns:
            The number of rows deleted.
        """
        found: dict[str, list[int]] = defaultdict(list)
        for row in self._session.sql(f"SELECT _file, _pos FROM {self._name} WHERE {condition}").collect():
            found[row["_file"]].append(row["_pos"])
        if not found:
            return 0
        if JavaDelta(self._session, self._name).table.operations().current().formatVersion() >= _DELETION_VECTORS:
            add_deletion_vectors(self._session, self._name, found)
        elif per_file:
            add_position_deletes(self._session, self._name, found)
        else:
            self._delete_by_partition(found)
        return sum(len(numbers) for numbers in found.values())

    def delete_equal(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Delete all current rows with the given values; null equals null."""
        add_equality_deletes(self._session, self._name, columns, rows)

    def upsert(self, keys: Sequence[str], rows: Sequence[Row]) -> None:
        """Delete by key and insert in one row delta, like a streaming upsert."""
        delta = JavaDelta(self._session, self._name)
        schema = delta.table.schema().select(delta.java_list(keys))
        ids = [delta.table.schema().findField(name).fieldId() for name in keys]
        factory = delta.writers().equalityFieldIds(delta.java_ints(ids)).equalityDeleteRowSchema(schema).build()
        change = delta.table.newRowDelta()
        for spec, partition in delta.places():
            writer = factory.newEqualityDeleteWriter(delta.output(spec, partition), spec, partition)
            for row in rows:
                writer.write(delta.record(schema, dict(zip(ids, (row[key] for key in keys), strict=True))))
            writer.close()
            change.addDeletes(writer.toDeleteFile())
        for file in _data_files(delta, rows):
            change.addRows(file)
        delta.commit(change)

    def _delete_by_partition(self, found: Mapping[str, Sequence[int]]) -> None:
        delta = JavaDelta(self._session, self._name)
        groups: dict[tuple[int, str], list[str]] = defaultdict(list)
        for path in found:
            spec, partition = delta.place_of(path)
            groups[spec.specId(), partition.toString()].append(path)
        change = delta.table.newRowDelta()
        factory = delta.writers().build()
        for paths in groups.values():
            spec, partition = delta.place_of(paths[0])
            writer = factory.newPositionDeleteWriter(delta.output(spec, partition), spec, partition)
            for path in sorted(paths):
                for number in sorted(found[path]):
                    writer.write(delta.iceberg.deletes.PositionDelete.create().set(path, number))
            writer.close()
            change.addDeletes(writer.toDeleteFile())
        delta.commit(change)


def _data_files(delta: JavaDelta, rows: Sequence[Row]) -> Iterator[Any]:
    factory = delta.writers().build()
    spec, schema = delta.table.spec(), delta.table.schema()
    wrapper = delta.iceberg.data.InternalRecordWrapper(schema.asStruct())
    writers: dict[str, Any] = {}
    for row in rows:
        record = delta.record(schema, _by_id(schema.asStruct(), row))
        key = delta.iceberg.PartitionKey(spec, schema)
        key.partition(wrapper.wrap(record))
        place = key.toString()
        if place not in writers:
            writers[place] = factory.newDataWriter(delta.output(spec, key), spec, key)
        writers[place].write(record)
    for writer in writers.values():
        writer.close()
        yield writer.toDataFile()


def _by_id(struct: Any, row: Row) -> dict[int, Any]:
    """Name a struct's values by field id, as Iceberg's text form of a value does."""
    return {field.fieldId(): _nested(field.type(), row.get(field.name())) for field in struct.fields()}


def _nested(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if kind.isStructType():
        return {str(number): item for number, item in _by_id(kind.asStructType(), value).items()}
    if kind.isListType():
        return [_nested(kind.asListType().elementType(), item) for item in value]
    if kind.isMapType():
        types = kind.asMapType()
        keys = [_nested(types.keyType(), key) for key in value]
        return {"keys": keys, "values": [_nested(types.valueType(), item) for item in value.values()]}
    return value
