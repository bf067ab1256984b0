"""Metadata updates that change a table's partition spec and sort order to the declared ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSortOrderUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import VoidTransform

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

_NEWEST = -1


def evolved_spec(metadata: TableMetadata, wanted: PartitionSpec) -> PartitionSpec:
    """Return the spec that evolves a table to the wanted partitioning.

    As in Iceberg's partition evolution, remaining fields keep their ids and order, and a field that the table had
    before returns with its old id and name. Format version 1 identifies fields by position, so a removed field becomes
    a void transform.
    """
    by_position = metadata.format_version == 1
    terms = {_term(field): field for field in wanted.fields}
    fields = []
    for field in metadata.spec().fields:
        if _term(field) in terms:
            fields.append(field)
        elif by_position:
            fields.append(PartitionField(field.source_id, field.field_id, VoidTransform(), field.name))
    existing = {_term(field) for field in fields}
    former = {} if by_position else {_term(field): field for spec in metadata.partition_specs for field in spec.fields}
    last = metadata.last_partition_id or PARTITION_FIELD_ID_START - 1
    for term, field in terms.items():
        if term in existing:
            continue
        known = former.get(term)
        last = last if known else last + 1
        number, name = (known.field_id, known.name) if known else (last, field.name)
        fields = [_renamed(other, name) for other in fields]
        fields.append(PartitionField(field.source_id, number, field.transform, name))
    return PartitionSpec(*fields, spec_id=1 + max(spec.spec_id for spec in metadata.partition_specs))


def _term(field: PartitionField) -> tuple[int, str]:
    return field.source_id, str(field.transform)


def _renamed(field: PartitionField, taken: str) -> PartitionField:
    """Rename a void field if a new field uses its name."""
    if field.name != taken or not isinstance(field.transform, VoidTransform):
        return field
    return PartitionField(field.source_id, field.field_id, field.transform, f"{field.name}_{field.field_id}")


def spec_updates(metadata: TableMetadata, spec: PartitionSpec) -> tuple[TableUpdate, ...]:
    """Return the updates that make a spec current; an equal spec of the table is reused."""
    known = next((one.spec_id for one in metadata.partition_specs if one.compatible_with(spec)), None)
    if known is not None:
        return (SetDefaultSpecUpdate(spec_id=known),)
    return AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=_NEWEST)


def sort_updates(metadata: TableMetadata, order: SortOrder) -> tuple[TableUpdate, ...]:
    """Return the updates that make a sort order current; an equal order of the table is reused."""
    known = next((one.order_id for one in metadata.sort_orders if one.fields == order.fields), None)
    if known is not None:
        return (SetDefaultSortOrderUpdate(sort_order_id=known),)
    if not order.fields:
        unsorted = UNSORTED_SORT_ORDER
        return AddSortOrderUpdate(sort_order=unsorted), SetDefaultSortOrderUpdate(sort_order_id=unsorted.order_id)
    number = 1 + max((one.order_id for one in metadata.sort_orders), default=0)
    added = SortOrder(*order.fields, order_id=number)
    return AddSortOrderUpdate(sort_order=added), SetDefaultSortOrderUpdate(sort_order_id=_NEWEST)
