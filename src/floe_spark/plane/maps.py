"""Maps as sorted lists of entries: Spark does not compare maps, and has no set operations for frames with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from floe_spark.plane.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def without_maps(frame: DataFrame) -> DataFrame:
    """Return a frame whose maps are lists of their entries, sorted by key; nested ones as well."""
    return _converted(frame, frame.schema, back=False)


def with_maps(frame: DataFrame, schema: StructType) -> DataFrame:
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
