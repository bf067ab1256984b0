"""Parses and checks partition and sort terms such as ``day(ts)`` and ``ts desc``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import (
    PARTITION_FIELD_ID_START,
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
)
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import FixedType

from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema

_TERM = re.compile(
    r"^\s*(?:(?P<transform>\w+)\s*\(\s*(?:(?P<number>\d+)\s*,\s*)?(?P<inner>[^(),]+?)\s*\)|(?P<column>[^(),]+?))\s*$"
)
_SORT_TERM = re.compile(
    r"^\s*(?P<term>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*$", re.IGNORECASE
)
_PLAIN: dict[str, tuple[type[Transform[Any, Any]], str]] = {
    "identity": (IdentityTransform, ""),
    "year": (YearTransform, "_year"),
    "years": (YearTransform, "_year"),
    "month": (MonthTransform, "_month"),
    "months": (MonthTransform, "_month"),
    "day": (DayTransform, "_day"),
    "days": (DayTransform, "_day"),
    "hour": (HourTransform, "_hour"),
    "hours": (HourTransform, "_hour"),
}


def partition_spec(terms: PartitionSpec | Sequence[str] | None, schema: Schema) -> PartitionSpec:
    """Return the spec for terms such as ``day(ts)``, ``bucket(16, id)`` or ``region``.

    Raises:
        ConfigurationError: A term is invalid, or its column does not exist.
    """
    if terms is None:
        return UNPARTITIONED_PARTITION_SPEC
    if isinstance(terms, PartitionSpec):
        return terms
    fields = []
    for position, term in enumerate([terms] if isinstance(terms, str) else terms):
        transform, source_id, suffix = _parse(term, schema)
        column = str(schema.find_column_name(source_id))
        fields.append(
            PartitionField(
                source_id=source_id,
                field_id=PARTITION_FIELD_ID_START + position,
                transform=transform,
                name=f"{column}{suffix}",
            )
        )
    return PartitionSpec(*fields)


def sort_order(terms: SortOrder | Sequence[str] | None, schema: Schema) -> SortOrder:
    """Return the sort order for terms such as ``ts desc nulls last``.

    Raises:
        ConfigurationError: A term is invalid, or its column does not exist.
    """
    if terms is None:
        return UNSORTED_SORT_ORDER
    if isinstance(terms, SortOrder):
        return terms
    fields = []
    for term in [terms] if isinstance(terms, str) else terms:
        match = _SORT_TERM.match(term)
        if match is None:
            msg = f"'{term}' is not a valid sort term."
            raise ConfigurationError(msg, hint="Write column [asc|desc] [nulls first|last].")
        transform, source_id, _ = _parse(match["term"], schema)
        direction = SortDirection[(match["direction"] or "asc").upper()]
        nulls = (match["nulls"] or ("first" if direction is SortDirection.ASC else "last")).upper()
        fields.append(
            SortField(
                source_id=source_id, transform=transform, direction=direction, null_order=NullOrder[f"NULLS_{nulls}"]
            )
        )
    return SortOrder(*fields) if fields else UNSORTED_SORT_ORDER


def _parse(term: str, schema: Schema) -> tuple[Transform[Any, Any], int, str]:
    # A column name may contain any character, including term syntax and leading or trailing blanks.
    for column in (term, term.strip()):
        if column in schema.column_names:
            return _checked(term, column, "identity", 0, schema)
    match = _TERM.match(term)
    name = match["transform"].lower() if match and match["transform"] else "identity"
    if match is None or name not in {*_PLAIN, "bucket", "truncate"} or (name in _PLAIN) == bool(match["number"]):
        msg = f"'{term}' is not a valid partition term."
        hint = "Write a column, day(c), month(c), year(c), hour(c), bucket(n, c) or truncate(n, c)."
        raise ConfigurationError(msg, hint=hint)
    return _checked(term, (match["inner"] or match["column"]).strip(), name, int(match["number"] or 0), schema)


def _checked(term: str, column: str, name: str, number: int, schema: Schema) -> tuple[Transform[Any, Any], int, str]:
    try:
        field = schema.find_field(column)
    except ValueError as err:
        msg = f"The column in '{term}' does not exist."
        raise ConfigurationError(msg, hint=f"Existing columns: {', '.join(schema.column_names)}.") from err
    if name in {"bucket", "truncate"} and number < 1:
        msg = f"'{term}' has width {number}; it must be at least 1."
        raise ConfigurationError(msg)
    transform, suffix = _transform(name, number)
    if not transform.can_transform(field.field_type):
        msg = f"'{term}' is not supported for a column of type {field.field_type}."
        raise ConfigurationError(msg)
    return transform, field.field_id, suffix


def _transform(name: str, number: int) -> tuple[Transform[Any, Any], str]:
    if name == "bucket":
        return BucketTransform(num_buckets=number), f"_bucket_{number}"
    if name == "truncate":
        return TruncateTransform(width=number), f"_trunc_{number}"
    transform, suffix = _PLAIN[name]
    return transform(), suffix


def check_spec(spec: PartitionSpec, schema: Schema) -> PartitionSpec:
    """Require a partition spec that every engine can use.

    Raises:
        ConfigurationError: A field has no source column, an unsupported type or a duplicate name.
    """
    names: set[str] = set()
    for term in spec.fields:
        try:
            source = schema.find_field(term.source_id)
        except ValueError as err:
            msg = f"No column has the source id {term.source_id} of partition field '{term.name}'."
            raise ConfigurationError(msg, hint=f"Existing columns: {', '.join(schema.column_names)}.") from err
        if not term.transform.can_transform(source.field_type):
            msg = f"The transform {term.transform} of '{term.name}' does not support type {source.field_type}."
            raise ConfigurationError(msg)
        if _width(term.transform) < 1:
            msg = f"The transform {term.transform} of '{term.name}' must have a width of at least 1."
            raise ConfigurationError(msg)
        if isinstance(term.transform, IdentityTransform) and isinstance(source.field_type, FixedType):
            # Iceberg's Java implementation expects a length in manifests, which Avro's fixed type does not have.
            msg = f"Cannot partition by '{source.name}': Java engines cannot read {source.field_type} partition values."
            raise ConfigurationError(msg, hint="Partition by bucket(n, column), or make the column binary.")
        _check_name(term, names, schema)
    return spec


def _check_name(term: PartitionField, names: set[str], schema: Schema) -> None:
    if term.name in names:
        msg = f"Duplicate partition field '{term.name}'."
        raise ConfigurationError(msg, hint="List each partition term once.")
    names.add(term.name)
    same = isinstance(term.transform, IdentityTransform | VoidTransform)
    if term.name in schema.column_names and not (same and schema.find_field(term.name).field_id == term.source_id):
        msg = f"The partition field '{term.name}' has the same name as another column."
        raise ConfigurationError(msg, hint="Rename the column, or give the partition field another name.")


def _width(transform: Transform[Any, Any]) -> int:
    if isinstance(transform, BucketTransform):
        return transform.num_buckets
    return transform.width if isinstance(transform, TruncateTransform) else 1
