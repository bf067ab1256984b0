"""Compares a declared table with the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import promote
from pyiceberg.types import ListType, MapType, NestedField, StructType

from floe_core.drift import DriftItem, DriftKind, DriftReport, DriftSeverity
from floe_core.errors import ConfigurationError, TableNotFoundError
from floe_iceberg.context import identifier_of
from floe_iceberg.corruption import load_table
from floe_iceberg.row_keys import (
    KEYS_PROPERTY,
    NULL_KEYS_PROPERTY,
    keys_shown,
    recorded_keys,
    recorded_null_keys,
    same_keys,
)
from floe_iceberg.schema import declared_schema
from floe_iceberg.spec_terms import partition_spec, sort_order
from floe_iceberg.tables import declared_properties
from floe_iceberg.type_text import type_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.types import IcebergType

    from floe_core.dataplane import NullKeys
    from floe_core.schemas import TableConfig
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.manager import IcebergTableManager

_ORDER = (DriftSeverity.BREAKING, DriftSeverity.WARNING, DriftSeverity.INFO)
_IN_YAML = "in floe.yaml"


class DriftDetector:
    """Finds where tables differ from what floe.yaml declares; it changes nothing."""

    def __init__(self, source: ManagerContext | IcebergTableManager) -> None:
        """Look at the tables of a manager, or of a manager's context."""
        self._context: ManagerContext = getattr(source, "context", source)  # type: ignore[arg-type]  # one of the two

    def detect(self, target: TableTarget, declared: TableConfig) -> DriftReport:
        """Compare one table with its declaration."""
        name = str(identifier_of(target))
        with self._context.operation("iceberg.detect_drift", target) as operation:
            try:
                table = load_table(self._context, target)
            except TableNotFoundError:
                items = [_missing_table(name)]
            else:
                items = list(_differences(table, declared))
            items.sort(key=lambda item: _ORDER.index(item.severity))
            operation.set(differences=len(items))
            return DriftReport(table=name, items=tuple(items))


def _missing_table(name: str) -> DriftItem:
    return DriftItem(
        kind=DriftKind.TABLE,
        path=name,
        declared="a table",
        actual=None,
        severity=DriftSeverity.BREAKING,
        fix=f"Create it with: floe tables create {name}",
    )


def _differences(table: Table, declared: TableConfig) -> Iterator[DriftItem]:
    actual = table.schema()
    if declared.columns:
        wanted = declared_schema(declared.columns)
        yield from _struct(wanted.as_struct(), actual.as_struct(), "")
        yield from _column_order(wanted, actual)
    yield from _partitioning(declared, table.spec(), actual)
    yield from _sort_order(declared, table.sort_order(), actual)
    yield from key_differences(table, declared.keys, declared.null_keys)
    yield from _properties(declared, table)


def key_differences(table: Table, keys: Sequence[str], null_keys: NullKeys | None) -> Iterator[DriftItem]:
    """Compare declared keys with those that a table records; what is not declared leaves the record alone."""
    recorded, nulls = recorded_keys(table), recorded_null_keys(table)
    fix = "The next upsert records what is declared if rows are unique by it, and else stops before it writes."
    if keys and not same_keys(recorded, keys):
        yield DriftItem(
            kind=DriftKind.KEYS,
            path="keys",
            declared=keys_shown(keys),
            actual=keys_shown(recorded) if recorded else None,
            severity=DriftSeverity.WARNING,
            fix=fix,
        )
    if null_keys is not None and null_keys is not nulls:
        yield DriftItem(
            kind=DriftKind.KEYS,
            path="null_keys",
            declared=null_keys.value,
            actual=nulls.value,
            severity=DriftSeverity.WARNING,
            fix=fix,
        )


def _struct(wanted: StructType, actual: StructType, prefix: str) -> Iterator[DriftItem]:
    there = {field.name: field for field in actual.fields}
    for field in wanted.fields:
        path = prefix + field.name
        if field.name in there:
            yield from _field(field, there[field.name], path)
        else:
            yield _missing_column(field, path)
    known = {field.name for field in wanted.fields}
    for field in actual.fields:
        if field.name not in known:
            yield DriftItem(
                kind=DriftKind.EXTRA_COLUMN,
                path=prefix + field.name,
                declared=None,
                actual=_column_text(field),
                severity=DriftSeverity.WARNING,
                fix=f"Declare it {_IN_YAML}, or drop it with evolve_schema(…, allow_incompatible_changes=True).",
            )


def _missing_column(field: NestedField, path: str) -> DriftItem:
    required = field.required
    return DriftItem(
        kind=DriftKind.MISSING_COLUMN,
        path=path,
        declared=_column_text(field),
        actual=None,
        severity=DriftSeverity.BREAKING if required else DriftSeverity.WARNING,
        fix="Rows already there have no value for it: declare it optional, then add it."
        if required
        else "Add it with evolve_schema, or write data that has it.",
    )


def _field(wanted: NestedField, actual: NestedField, path: str) -> Iterator[DriftItem]:
    yield from _type(wanted.field_type, actual.field_type, path)
    yield from _nullability(path, wanted=wanted.required, actual=actual.required)
    if wanted.doc is not None and wanted.doc != actual.doc:
        yield DriftItem(
            kind=DriftKind.DOC,
            path=path,
            declared=repr(wanted.doc),
            actual=repr(actual.doc) if actual.doc else None,
            severity=DriftSeverity.INFO,
            fix="Change it with evolve_schema.",
        )


def _type(wanted: IcebergType, actual: IcebergType, path: str) -> Iterator[DriftItem]:
    if isinstance(wanted, StructType) and isinstance(actual, StructType):
        yield from _struct(wanted, actual, f"{path}.")
    elif isinstance(wanted, ListType) and isinstance(actual, ListType):
        yield from _type(wanted.element_type, actual.element_type, f"{path}.element")
        yield from _nullability(f"{path}.element", wanted=wanted.element_required, actual=actual.element_required)
    elif isinstance(wanted, MapType) and isinstance(actual, MapType):
        yield from _type(wanted.key_type, actual.key_type, f"{path}.key")
        yield from _type(wanted.value_type, actual.value_type, f"{path}.value")
        yield from _nullability(f"{path}.value", wanted=wanted.value_required, actual=actual.value_required)
    elif wanted != actual:
        widens = _can_widen(actual, wanted)
        yield DriftItem(
            kind=DriftKind.TYPE,
            path=path,
            declared=type_text(wanted),
            actual=type_text(actual),
            severity=DriftSeverity.WARNING if widens else DriftSeverity.BREAKING,
            fix="Widen it with evolve_schema."
            if widens
            else f"The table's type cannot become the declared one: correct it {_IN_YAML}, or write a new column.",
        )


def _can_widen(actual: IcebergType, wanted: IcebergType) -> bool:
    try:
        return promote(actual, wanted) == wanted
    except ResolveError:
        return False


def _nullability(path: str, *, wanted: bool, actual: bool) -> Iterator[DriftItem]:
    if wanted != actual:
        yield DriftItem(
            kind=DriftKind.NULLABILITY,
            path=path,
            declared="required" if wanted else "optional",
            actual="required" if actual else "optional",
            severity=DriftSeverity.BREAKING if wanted else DriftSeverity.WARNING,
            fix="Rows may hold null: make it required with evolve_schema(…, allow_incompatible_changes=True), "
            f"or declare it optional {_IN_YAML}."
            if wanted
            else "Make it optional with evolve_schema.",
        )


def _column_order(wanted: Schema, actual: Schema) -> Iterator[DriftItem]:
    shared = {field.name for field in wanted.fields} & {field.name for field in actual.fields}
    declared = [field.name for field in wanted.fields if field.name in shared]
    found = [field.name for field in actual.fields if field.name in shared]
    if declared != found:
        yield DriftItem(
            kind=DriftKind.COLUMN_ORDER,
            path="columns",
            declared=", ".join(declared),
            actual=", ".join(found),
            severity=DriftSeverity.INFO,
            fix="Reorder them with evolve_schema.",
        )


def _partitioning(declared: TableConfig, spec: PartitionSpec, schema: Schema) -> Iterator[DriftItem]:
    actual = _spec_text(spec, schema)
    try:
        wanted = _spec_text(partition_spec(declared.partition_by, schema), schema)
    except ConfigurationError:
        # A declared column that the table lacks is reported with the columns.
        wanted = ", ".join(declared.partition_by)
    if wanted != actual:
        yield DriftItem(
            kind=DriftKind.PARTITIONING,
            path="partition_by",
            declared=wanted or None,
            actual=actual or None,
            severity=DriftSeverity.WARNING,
            fix=f"Change it {_IN_YAML}, or evolve the table's partitioning and compact it.",
        )


def _sort_order(declared: TableConfig, order: SortOrder, schema: Schema) -> Iterator[DriftItem]:
    actual = _order_text(order, schema)
    try:
        wanted = _order_text(sort_order(declared.sort_by, schema), schema)
    except ConfigurationError:
        wanted = ", ".join(declared.sort_by)
    if wanted != actual:
        yield DriftItem(
            kind=DriftKind.SORT_ORDER,
            path="sort_by",
            declared=wanted or None,
            actual=actual or None,
            severity=DriftSeverity.INFO,
            fix=f"Change it {_IN_YAML}, or the table's sort order.",
        )


def _properties(declared: TableConfig, table: Table) -> Iterator[DriftItem]:
    for key, value in sorted(declared_properties(declared).items()):
        if key not in {KEYS_PROPERTY, NULL_KEYS_PROPERTY} and table.properties.get(key) != value:
            yield DriftItem(
                kind=DriftKind.PROPERTY,
                path=key,
                declared=value,
                actual=table.properties.get(key),
                severity=DriftSeverity.WARNING,
                fix="Set it on the table.",
            )
    if declared.location is not None and declared.location.rstrip("/") != table.location().rstrip("/"):
        yield DriftItem(
            kind=DriftKind.LOCATION,
            path="location",
            declared=declared.location,
            actual=table.location(),
            severity=DriftSeverity.WARNING,
            fix=f"A table cannot move: correct it {_IN_YAML}, or create the table anew.",
        )


def _column_text(field: NestedField) -> str:
    return f"{type_text(field.field_type)}{' required' if field.required else ''}"


def _spec_text(spec: PartitionSpec, schema: Schema) -> str:
    terms = (_term_text(str(field.transform), field.source_id, schema) for field in spec.fields)
    return ", ".join(term for term in terms if not term.startswith("void("))


def _order_text(order: SortOrder, schema: Schema) -> str:
    return ", ".join(
        f"{_term_text(str(field.transform), field.source_id, schema)} {field.direction.value} "
        f"{field.null_order.value.replace('-', ' ')}"
        for field in order.fields
    )


def _term_text(transform: str, source_id: int, schema: Schema) -> str:
    column = schema.find_column_name(source_id) or f"column {source_id}"
    if transform == "identity":
        return column
    name, _, number = transform.rstrip("]").partition("[")
    return f"{name}({number}, {column})" if number else f"{name}({column})"
