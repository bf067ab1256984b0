"""Maps Dagster partition keys to table partitioning and row selections.

==================================  ======================================================
partitions definition               table partitioned by
==================================  ======================================================
hourly                              ``hour(column)``
daily, weekly, any other cron       ``day(column)``
monthly                             ``month(column)``
static, dynamic                     ``column``
multi                               one term per dimension
time windows on a text column       ``column``, which contains the partition keys
==================================  ======================================================

Rows are always selected by the key's time window, never by the partition value. Weekly windows and windows in another
time zone overlap partition values, but are still replaced and read exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from dagster import MultiPartitionsDefinition, TimeWindowPartitionsDefinition
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import DateType, IcebergType, StringType, TimestampType, TimestamptzType

from floe_core.errors import ConfigurationError
from floe_dagster.assets.row_ranges import KeySet, Ranges, RowSelection, any_of, nothing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagster import MultiPartitionKey, PartitionsDefinition
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

_TIME_TYPES = (DateType, TimestampType, TimestamptzType)
_TIME_TRANSFORMS = (DayTransform, HourTransform, MonthTransform, YearTransform)
_TERMS = {"HOURLY": "hour", "MONTHLY": "month"}


@dataclass(frozen=True)
class Dimension:
    """One dimension of a partitions definition, bound to a column.

    Attributes:
        name: Name of the dimension, empty when there is only one.
        partitions_def: Its partitions definition.
        column: Column that the partition keys select rows by.
        column_type: The column's type.
    """

    name: str
    partitions_def: PartitionsDefinition
    column: str
    column_type: IcebergType

    @property
    def by_window(self) -> bool:
        """Whether the keys are time windows of the column."""
        return _is_time(self.partitions_def) and not isinstance(self.column_type, StringType)

    @property
    def term(self) -> str:
        """The partition term for a new table."""
        if not self.by_window:
            return self.column
        schedule = getattr(self.partitions_def, "schedule_type", None)
        unit = _TERMS.get(schedule.name, "day") if schedule else "day"
        return f"{unit}({self.column})"

    def rows(self, keys: Sequence[str]) -> RowSelection:
        """Select the rows of the given keys."""
        if not self.by_window or not isinstance(self.partitions_def, TimeWindowPartitionsDefinition):
            return KeySet.of(self.column, self.column_type, keys)
        windows = [self.partitions_def.time_window_for_partition_key(key) for key in keys]
        return Ranges.of(self.column, self.column_type, [(window.start, window.end) for window in windows])


@dataclass(frozen=True)
class PartitionedTable:
    """A partitions definition bound to the columns of a table."""

    dimensions: tuple[Dimension, ...]
    multi: MultiPartitionsDefinition | None = None

    @property
    def terms(self) -> list[str]:
        """Partition terms for a new table."""
        return [dimension.term for dimension in self.dimensions]

    def rows(self, keys: Sequence[str]) -> RowSelection:
        """Select the rows of the given partition keys."""
        if self.multi is None:
            return self.dimensions[0].rows(keys)
        if not keys:
            return nothing(self.dimensions[0].column)
        return any_of([self._rows_of_multi_key(self.multi.get_partition_key_from_str(key)) for key in keys])

    def _rows_of_multi_key(self, key: MultiPartitionKey) -> RowSelection:
        parts = [dimension.rows([key.keys_by_dimension[dimension.name]]) for dimension in self.dimensions]
        return reduce(RowSelection.and_, parts)


@dataclass(frozen=True)
class ColumnChoice:
    """Where to look for the column of a dimension.

    Attributes:
        asset: Name of the asset, for messages.
        chosen: Column by dimension from the asset's metadata; the key ``""`` is used for a single dimension.
        default: Column configured for the IO manager; used for the dimension whose type it fits.
        spec: Partition spec of the table; None if the table does not exist yet.
    """

    asset: str
    chosen: Mapping[str, str]
    default: str | None = None
    spec: PartitionSpec | None = None


def bind_partitions(partitions_def: PartitionsDefinition, schema: Schema, choice: ColumnChoice) -> PartitionedTable:
    """Bind a partitions definition to the columns of a table.

    Raises:
        ConfigurationError: A dimension's column is unknown or does not fit; the error lists the candidates.
    """
    if not isinstance(partitions_def, MultiPartitionsDefinition):
        return PartitionedTable((_bind_dimension("", partitions_def, schema, choice),))
    own = {dimension.name: dimension.partitions_def for dimension in partitions_def.partitions_defs}
    chosen = {**_assigned(own, schema, choice), **choice.chosen}
    dimensions = [_bind_dimension(name, keys, schema, replace(choice, chosen=chosen)) for name, keys in own.items()]
    return PartitionedTable(tuple(dimensions), partitions_def)


def _assigned(own: Mapping[str, PartitionsDefinition], schema: Schema, choice: ColumnChoice) -> dict[str, str]:
    """Assign a column that is configured without a dimension, if exactly one dimension fits."""
    column = choice.chosen.get("") or choice.default
    kind = _type_of(column, schema)
    if column is None or kind is None:
        return {}
    free = {name: keys for name, keys in own.items() if name not in choice.chosen and _is_compatible(kind, keys)}
    if not isinstance(kind, _TIME_TYPES):
        # A text column can contain time keys too, but other dimensions come first.
        others = [name for name, keys in free.items() if not _is_time(keys) and name not in schema.column_names]
        named = [name for name in free if name == column]
        times = [name for name, keys in free.items() if _is_time(keys)]
        found = named or others or times
    else:
        found = [name for name, keys in free.items() if _is_time(keys)]
    return {found[0]: column} if len(found) == 1 else {}


def _bind_dimension(name: str, partitions_def: PartitionsDefinition, schema: Schema, choice: ColumnChoice) -> Dimension:
    column = _column(name, partitions_def, schema, choice)
    try:
        column_type = schema.find_field(column).field_type
    except ValueError:
        msg = f"Asset '{choice.asset}' is partitioned by '{column}', but its data has no such column."
        raise ConfigurationError(msg, hint=f"Columns: {', '.join(schema.column_names)}.") from None
    dimension = Dimension(name, partitions_def, column, column_type)
    _require_fit(dimension, choice)
    return dimension


def _column(name: str, partitions_def: PartitionsDefinition, schema: Schema, choice: ColumnChoice) -> str:
    if column := choice.chosen.get(name):
        return column
    if not name and choice.default:
        kind = _type_of(choice.default, schema)
        if kind is None or _is_compatible(kind, partitions_def):
            return choice.default
    if name and name in schema.column_names:
        return name
    time = _is_time(partitions_def)
    transforms = _TIME_TRANSFORMS if time else (IdentityTransform,)
    in_spec = [
        str(schema.find_column_name(field.source_id))
        for field in (choice.spec.fields if choice.spec else ())
        if isinstance(field.transform, transforms)
    ]
    candidates = [field.name for field in schema.fields if isinstance(field.field_type, _TIME_TYPES) is time]
    # Keys other than times could be values of any column, so their column is never inferred from types alone.
    for guess in (in_spec, candidates if time else []):
        if len(guess) == 1:
            return guess[0]
    raise _no_column(name, choice, in_spec or candidates or list(schema.column_names))


def _no_column(name: str, choice: ColumnChoice, candidates: Sequence[str]) -> ConfigurationError:
    what = f"dimension '{name}' of asset" if name else "asset"
    how = {name: "column"} if name else "column"
    msg = f"Cannot determine the partition column for {what} '{choice.asset}'."
    hint = f"Set metadata={{'partition_column': {how!r}}}. Candidates: {', '.join(candidates)}."
    return ConfigurationError(msg, hint=hint)


def _require_fit(dimension: Dimension, choice: ColumnChoice) -> None:
    time, kind = _is_time(dimension.partitions_def), dimension.column_type
    if time and not isinstance(kind, (*_TIME_TYPES, StringType)):
        msg = f"Asset '{choice.asset}' has time partitions, but its column '{dimension.column}' is of type {kind}."
        raise ConfigurationError(msg, hint="Use a date or timestamp column, or a text column with the partition keys.")
    if time and isinstance(kind, DateType) and dimension.term.startswith("hour("):
        msg = f"Asset '{choice.asset}' has hourly partitions, but its column '{dimension.column}' is a date."
        raise ConfigurationError(msg, hint="Use a timestamp column.")
    if not kind.is_primitive:
        msg = f"Asset '{choice.asset}' cannot be partitioned by '{dimension.column}' of type {kind}."
        raise ConfigurationError(msg, hint="Use a column of a primitive type.")


def _type_of(column: str | None, schema: Schema) -> IcebergType | None:
    try:
        return schema.find_type(column) if column else None
    except ValueError:
        return None


def _is_compatible(kind: IcebergType, partitions_def: PartitionsDefinition) -> bool:
    """Whether a column of this type can be selected by the partition keys."""
    if _is_time(partitions_def):
        return isinstance(kind, (*_TIME_TYPES, StringType))
    return kind.is_primitive and not isinstance(kind, TimestampType | TimestamptzType)


def _is_time(partitions_def: PartitionsDefinition) -> bool:
    return isinstance(partitions_def, TimeWindowPartitionsDefinition)
