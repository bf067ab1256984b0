"""Parse partition specs and sort orders from table metadata and manifests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floe_audit.spec.schemas import MalformedError
from floe_audit.spec.transforms import Transform, parse_transform

FIRST_PARTITION_ID = 1000


@dataclass(frozen=True)
class PartitionField:
    """One field of a partition spec."""

    id: int
    name: str
    source_id: int | None
    transform: Transform


@dataclass(frozen=True)
class Spec:
    """A partition spec."""

    id: int
    fields: tuple[PartitionField, ...]


@dataclass(frozen=True)
class SortField:
    """One field of a sort order."""

    source_id: int | None
    transform: Transform
    descending: bool
    nulls_first: bool


def parse_spec(document: Any) -> Spec:
    """Parse a partition spec.

    Raises:
        MalformedError: The document is not a partition spec.
    """
    if not isinstance(document, dict) or not isinstance(document.get("spec-id"), int):
        msg = "The partition spec has no spec-id"
        raise MalformedError(msg)
    return Spec(document["spec-id"], parse_partition_fields(document.get("fields")))


def parse_partition_fields(documents: Any) -> tuple[PartitionField, ...]:
    """Parse the fields of a partition spec.

    Raises:
        MalformedError: A document is not a partition field, or a name or id is used twice.
    """
    if not isinstance(documents, list):
        msg = "The partition spec has no list of fields"
        raise MalformedError(msg)
    fields: list[PartitionField] = []
    for place, one in enumerate(documents):
        if not isinstance(one, dict):
            msg = "A partition field is not an object"
            raise MalformedError(msg)
        name, identity = one.get("name"), one.get("field-id", FIRST_PARTITION_ID + place)
        source = one.get("source-id")
        if source is None and isinstance(one.get("source-ids"), list) and len(one["source-ids"]) == 1:
            source = one["source-ids"][0]
        if not isinstance(name, str) or not isinstance(identity, int):
            msg = "A partition field has no name or id"
            raise MalformedError(msg)
        if not isinstance(source, int) and "source-ids" not in one:
            msg = f"Partition field {name!r} has no source column"
            raise MalformedError(msg)
        fields.append(PartitionField(identity, name, source, parse_transform(one.get("transform"))))
    for values in ([one.name for one in fields], [one.id for one in fields]):
        if len(set(values)) != len(values):
            msg = f"A partition field name or id is used twice: {values}"
            raise MalformedError(msg)
    return tuple(fields)


def parse_order(document: Any) -> tuple[int, tuple[SortField, ...]]:
    """Parse the id and the fields of a sort order.

    Raises:
        MalformedError: The document is not a sort order.
    """
    if not isinstance(document, dict) or not isinstance(document.get("order-id"), int):
        msg = "The sort order has no order-id"
        raise MalformedError(msg)
    fields: list[SortField] = []
    members = document.get("fields")
    if not isinstance(members, list):
        msg = "The sort order has no list of fields"
        raise MalformedError(msg)
    for one in members:
        direction, nulls = one.get("direction"), one.get("null-order")
        if direction not in {"asc", "desc"} or nulls not in {"nulls-first", "nulls-last"}:
            msg = f"{direction!r}, {nulls!r} is not a valid direction and null order"
            raise MalformedError(msg)
        source = one.get("source-id")
        if not isinstance(source, int) and "source-ids" not in one:
            msg = "A sort field has no source column"
            raise MalformedError(msg)
        transform = parse_transform(one.get("transform"))
        fields.append(SortField(source, transform, direction == "desc", nulls == "nulls-first"))
    return document["order-id"], tuple(fields)
