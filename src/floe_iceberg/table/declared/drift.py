"""Compares a declared table with the actual table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import VoidTransform

from floe_core.declaration.drift import DriftItem, DriftKind, DriftRemedy, DriftReport, DriftSeverity
from floe_core.errors import ConfigurationError, TableNotFoundError
from floe_iceberg.context import identifier_of
from floe_iceberg.read.integrity import load_table
from floe_iceberg.table.declared.column_drift import column_differences
from floe_iceberg.table.declared.target_schema import target_schema
from floe_iceberg.table.keys.dependent_properties import renamed_column
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, NULL_KEYS_PROPERTY
from floe_iceberg.table.keys.owned_properties import FORMAT_VERSION, change_risk, reserved_reason
from floe_iceberg.table.keys.row_keys import format_keys, recorded_keys, recorded_null_keys, same_keys
from floe_iceberg.table.lifecycle import declared_properties
from floe_iceberg.table.specs import partition_spec, sort_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder

    from floe_core.dataplane import NullKeys
    from floe_core.schemas import TableConfig
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.manager import IcebergTableManager

_ORDER = (DriftSeverity.BREAKING, DriftSeverity.WARNING, DriftSeverity.INFO)


class DriftDetector:
    """Detects differences between tables and floe.yaml, without changing anything."""

    def __init__(self, source: ManagerContext | IcebergTableManager) -> None:
        """Use the tables of a manager or of a manager's context."""
        self._context: ManagerContext = getattr(source, "context", source)  # type: ignore[arg-type]  # one of the two

    def detect(self, target: TableTarget, declared: TableConfig) -> DriftReport:
        """Compare one table with its declaration."""
        name = str(identifier_of(target))
        with self._context.operation("iceberg.detect_drift", target) as operation:
            try:
                table = load_table(self._context, target)
            except TableNotFoundError:
                items: tuple[DriftItem, ...] = (missing_table(name, declared),)
            else:
                items = differences(table, declared)
            operation.set(differences=len(items))
            return DriftReport(table=name, items=items)


def missing_table(name: str, declared: TableConfig) -> DriftItem:
    """Describe a table that does not exist."""
    return DriftItem(
        kind=DriftKind.TABLE,
        path=name,
        declared="a table",
        actual=None,
        severity=DriftSeverity.BREAKING,
        fix=f"floe apply or the next run creates it, or: floe tables create {name}"
        if declared.columns
        else "No columns are declared: the first run that writes to it creates it.",
        remedy=DriftRemedy.RUN,
    )


def differences(table: Table, declared: TableConfig) -> tuple[DriftItem, ...]:
    """Compare a loaded table with its declaration, most severe difference first; undeclared settings are ignored."""
    # Terms and keys use the declared column names, so they are compared on the resulting schema.
    schema = target_schema(table.metadata, declared.columns)
    items = [
        *column_differences(table, declared.columns),
        *_partitioning(declared, table, schema),
        *_sort_order(declared, table.sort_order(), schema),
        *key_differences(table, declared.keys, declared.null_keys, schema=schema),
        *_properties(declared, table),
        *_location(declared, table),
    ]
    return tuple(sorted(items, key=lambda item: _ORDER.index(item.severity)))


def key_differences(
    table: Table, keys: Sequence[str], null_keys: NullKeys | None, *, schema: Schema | None = None
) -> Iterator[DriftItem]:
    """Compare declared keys with those that a table records; undeclared settings are ignored.

    Args:
        table: The table.
        keys: The declared keys.
        null_keys: The declared treatment of null in a key.
        schema: The schema with the declared column names, if renames are pending.
    """
    recorded, nulls = recorded_keys(table), recorded_null_keys(table)
    before = table.schema()
    recorded = tuple(renamed_column(key, before, schema or before) or key for key in recorded)
    fix = "floe apply or the next upsert records the declared keys if rows are unique by them, and fails otherwise."
    if keys and not same_keys(recorded, keys):
        yield DriftItem(
            kind=DriftKind.KEYS,
            path="keys",
            declared=format_keys(keys),
            actual=format_keys(recorded) if recorded else None,
            severity=DriftSeverity.WARNING,
            fix=fix,
            remedy=DriftRemedy.APPLY,
        )
    if null_keys is not None and null_keys is not nulls:
        yield DriftItem(
            kind=DriftKind.KEYS,
            path="null_keys",
            declared=null_keys.value,
            actual=nulls.value,
            severity=DriftSeverity.WARNING,
            fix=fix,
            remedy=DriftRemedy.APPLY,
        )


def _partitioning(declared: TableConfig, table: Table, schema: Schema) -> Iterator[DriftItem]:
    if declared.partition_by is None:
        return
    actual = [field for field in table.spec().fields if not isinstance(field.transform, VoidTransform)]
    fix, remedy = "floe apply or the next run changes it for new files; old files stay unchanged.", DriftRemedy.RUN
    wanted = ", ".join(declared.partition_by)
    try:
        spec = partition_spec(declared.partition_by, schema)
    except ConfigurationError as err:
        fix, remedy = f"Correct it in floe.yaml: {err.message}", DriftRemedy.NONE
    else:
        # The order of the fields does not affect which rows share a file.
        if {(field.source_id, str(field.transform)) for field in spec.fields} == {
            (field.source_id, str(field.transform)) for field in actual
        }:
            return
        wanted = _spec_text(spec, schema)
    yield DriftItem(
        kind=DriftKind.PARTITIONING,
        path="partition_by",
        declared=wanted or None,
        actual=_spec_text(table.spec(), schema) or None,
        severity=DriftSeverity.WARNING,
        fix=fix,
        remedy=remedy,
    )


def _sort_order(declared: TableConfig, order: SortOrder, schema: Schema) -> Iterator[DriftItem]:
    if declared.sort_by is None:
        return
    actual = _order_text(order, schema)
    fix, remedy = "floe apply or the next run changes it for new files.", DriftRemedy.RUN
    try:
        wanted = _order_text(sort_order(declared.sort_by, schema), schema)
    except ConfigurationError as err:
        wanted, fix, remedy = ", ".join(declared.sort_by), f"Correct it in floe.yaml: {err.message}", DriftRemedy.NONE
    if wanted != actual:
        yield DriftItem(
            kind=DriftKind.SORT_ORDER,
            path="sort_by",
            declared=wanted or None,
            actual=actual or None,
            severity=DriftSeverity.INFO,
            fix=fix,
            remedy=remedy,
        )


def _properties(declared: TableConfig, table: Table) -> Iterator[DriftItem]:
    for key, value in sorted(declared_properties(declared).items()):
        actual = str(table.format_version) if key == FORMAT_VERSION else table.properties.get(key)
        if key in {KEYS_PROPERTY, NULL_KEYS_PROPERTY} or actual == value:
            continue
        fix, remedy = "floe apply or the next run sets it.", DriftRemedy.RUN
        if reason := reserved_reason(key):
            fix, remedy = f"{reason} Remove it from floe.yaml.", DriftRemedy.NONE
        elif risk := change_risk(key, table.properties, value):
            fix, remedy = f"floe apply sets it after confirmation. {risk}.", DriftRemedy.CONFIRM
        yield DriftItem(
            kind=DriftKind.PROPERTY,
            path=key,
            declared=value,
            actual=actual,
            severity=DriftSeverity.WARNING,
            fix=fix,
            remedy=remedy,
        )


def _location(declared: TableConfig, table: Table) -> Iterator[DriftItem]:
    if declared.location is not None and declared.location.rstrip("/") != table.location().rstrip("/"):
        yield DriftItem(
            kind=DriftKind.LOCATION,
            path="location",
            declared=declared.location,
            actual=table.location(),
            severity=DriftSeverity.WARNING,
            fix="The location of a table cannot change: correct it in floe.yaml, or recreate the table.",
        )


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
