"""Table schemas: conversion from Arrow, comparison with data, and evolution."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.schema import Schema, promote
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UUIDType,
)

from floe_core.dataplane import ColumnRequest
from floe_core.errors import ColumnMismatch, SchemaEvolutionError
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.commit.protocol import Staged, stage
from floe_iceberg.formats.arrow_types import supported_schema, supported_type, to_iceberg_fields, to_iceberg_type
from floe_iceberg.models import SchemaChange, SchemaChangeKind
from floe_iceberg.names import name_of
from floe_iceberg.table.column_names import require_data_names, require_names
from floe_iceberg.table.keys.dependent_properties import property_changes
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, parse_keys
from floe_iceberg.table.types import parse_type, type_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.update import TableRequirement
    from pyiceberg.table.update.schema import UpdateSchema

    from floe_core.schemas import ColumnConfig
    from floe_iceberg.context import ManagerContext, TableTarget

_UINT64_DECIMAL = DecimalType(20, 0)


def iceberg_schema(schema: pa.Schema | Schema) -> Schema:
    """Return an Iceberg schema with field ids for an Arrow schema; an Iceberg schema is returned unchanged."""
    if isinstance(schema, Schema):
        return schema
    require_data_names(schema)
    counter = itertools.count(1)
    return Schema(*to_iceberg_fields(list(supported_schema(schema)), lambda: next(counter)))


def declared_schema(columns: Sequence[ColumnConfig]) -> Schema:
    """Return the schema declared in floe.yaml."""
    counter = itertools.count(len(columns) + 1)
    return Schema(
        *[
            NestedField(
                field_id=position,
                name=column.name,
                field_type=parse_type(column.type, new_id=lambda: next(counter)),
                required=column.required,
                doc=column.doc,
            )
            for position, column in enumerate(columns, start=1)
        ]
    )


@dataclass(frozen=True)
class Difference:
    """Differences between the schema of a table and the schema of data.

    Attributes:
        changes: Columns to add or widen before the data is_writable_to.
        mismatches: Columns that cannot be made to fit.
    """

    changes: tuple[SchemaChange, ...]
    mismatches: tuple[ColumnMismatch, ...]


def compare(table: Schema, data: pa.Schema) -> Difference:
    """Compare a table's schema with the schema of data by column names; order does not matter."""
    require_data_names(data)
    counter = itertools.count(1)
    fields = [field for field in supported_schema(data) if not pa.types.is_null(field.type)]
    nulls = {field.name for field in data if pa.types.is_null(field.type)}
    incoming = StructType(*to_iceberg_fields(fields, lambda: next(counter)))
    changes: list[SchemaChange] = []
    mismatches: list[ColumnMismatch] = []
    for found in _struct(table.as_struct(), incoming, "", nulls):
        (changes if isinstance(found, SchemaChange) else mismatches).append(found)  # type: ignore[arg-type]  # by kind
    names = {field.name for field in table.fields}
    mismatches += [
        ColumnMismatch(name, None, "null", "all values are null, so the new column has no type")
        for name in sorted(nulls - names)
    ]
    return Difference(tuple(changes), tuple(mismatches))


def _struct(
    table: StructType, data: StructType, prefix: str, nulls: set[str] | None = None
) -> Iterator[SchemaChange | ColumnMismatch]:
    known = {field.name: field for field in table.fields}
    present = {field.name for field in data.fields}
    for field in data.fields:
        if field.name not in known:
            yield SchemaChange(
                kind=SchemaChangeKind.ADD, column=prefix + field.name, type=_optional(field.field_type), doc=field.doc
            )
        else:
            yield from _type(known[field.name].field_type, field.field_type, prefix + field.name)
    for field in table.fields:
        if field.required and field.name not in present and field.write_default is None:
            reason = "required column has only nulls" if nulls and field.name in nulls else "required column is missing"
            yield ColumnMismatch(prefix + field.name, str(field.field_type), None, reason)


def _type(table: IcebergType, data: IcebergType, column: str) -> Iterator[SchemaChange | ColumnMismatch]:
    match table, data:
        case StructType(), StructType():
            yield from _struct(table, data, f"{column}.")
        case ListType(), ListType():
            yield from _type(table.element_type, data.element_type, f"{column}.element")
        case MapType(), MapType():
            yield from _type(table.key_type, data.key_type, f"{column}.key")
            yield from _type(table.value_type, data.value_type, f"{column}.value")
        case _ if is_writable_to(data, table):
            return
        case _ if widens(table, data):
            yield SchemaChange(kind=SchemaChangeKind.WIDEN, column=column, type=data)
        case _:
            yield ColumnMismatch(column, str(table), str(data), "incompatible types")


def widens(narrow: IcebergType, wide: IcebergType) -> bool:
    """Whether a column can change from one type to the other without losing values."""
    if not isinstance(narrow, PrimitiveType) or not isinstance(wide, PrimitiveType):
        return False
    if isinstance(narrow, StringType | BinaryType | FixedType):  # PyIceberg promotes these, Iceberg does not
        return narrow == wide
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType) and narrow.scale != wide.scale:
        return False
    try:
        promote(narrow, wide)
    except ResolveError:
        return False
    return True


def is_writable_to(data: IcebergType, table: IcebergType) -> bool:
    """Whether data of one type can be written to a column of the other."""
    if data == table or widens(data, table):
        return True
    if data == _UINT64_DECIMAL and isinstance(table, LongType):
        return True
    if isinstance(data, DecimalType) and isinstance(table, DecimalType):
        # The table has at least as many digits on both sides of the decimal point; values are rescaled on write.
        return table.scale >= data.scale and table.precision - table.scale >= data.precision - data.scale
    if isinstance(data, BinaryType) and isinstance(table, FixedType):
        # Engines without a binary type of a fixed length give binary; the write requires the length of each value.
        return True
    return data == FixedType(16) and isinstance(table, UUIDType)


def _optional(field_type: IcebergType) -> IcebergType:
    """Return a type for a new column, with all nested fields optional."""
    match field_type:
        case StructType():
            return StructType(
                *[
                    field.model_copy(update={"required": False, "field_type": _optional(field.field_type)})
                    for field in field_type.fields
                ]
            )
        case ListType():
            return ListType(field_type.element_id, _optional(field_type.element_type), element_required=False)
        case MapType():
            return MapType(
                key_id=field_type.key_id,
                key_type=field_type.key_type,
                value_id=field_type.value_id,
                value_type=_optional(field_type.value_type),
                value_required=False,
            )
        case _:
            return field_type


def require_compatible(
    table: Table, data: pa.Schema, *, evolve: bool, name: str, relaxed: Sequence[SchemaChange] = ()
) -> tuple[SchemaChange, ...]:
    """Return the schema changes that data needs; ``relaxed`` contains the changes that make columns optional.

    Raises:
        SchemaEvolutionError: A column cannot fit, or columns would have to change and ``evolve`` is False.
    """
    difference = compare(table.schema(), data)
    if relaxed:
        relaxed_columns = {change.column for change in relaxed}
        remaining = [found for found in difference.mismatches if found.data_type or found.column not in relaxed_columns]
        difference = Difference((*difference.changes, *relaxed), tuple(remaining))
    mismatches = list(difference.mismatches)
    if not evolve:
        mismatches += [_not_allowed(change, table.schema()) for change in difference.changes]
    if mismatches:
        msg = f"The data does not fit table '{name}'."
        hint = "Pass evolve_schema=True to evolve the table's schema." if not difference.mismatches else None
        raise SchemaEvolutionError(msg, mismatches=mismatches, hint=hint, table=name)
    return difference.changes


def _not_allowed(change: SchemaChange, schema: Schema) -> ColumnMismatch:
    if change.kind is SchemaChangeKind.ADD:
        return ColumnMismatch(change.column, None, str(change.type), "new column, but evolve_schema is False")
    current = schema.find_field(change.column).field_type
    return ColumnMismatch(change.column, str(current), str(change.type), "wider type, but evolve_schema is False")


def plan_evolution(
    context: ManagerContext,
    target: TableTarget,
    changes: Sequence[SchemaChange],
    *,
    allow_incompatible_changes: bool = False,
) -> Schema:
    """Return the schema that a table would have after changes, without changing it.

    Raises:
        SchemaEvolutionError: A change is refused; the error lists all refused changes.
    """
    with context.operation("iceberg.plan_evolution", target, changes=len(changes)):
        table = context.load(target)
        return stage_changes(table, changes, allow_incompatible=allow_incompatible_changes).metadata.schema()


def evolve_schema(
    context: ManagerContext,
    target: TableTarget,
    changes: Sequence[SchemaChange],
    *,
    allow_incompatible_changes: bool = False,
) -> Schema:
    """Change a table's schema in one commit and return the new one.

    Raises:
        SchemaEvolutionError: A change is refused; the error lists all refused changes.
    """
    with context.operation("iceberg.evolve_schema", target, changes=len(changes)) as operation:
        wanted: Schema | None = None

        def plan(table: Table, uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
            nonlocal wanted
            if uncertain and table.schema() == wanted:
                return None
            staged = stage_changes(table, changes, allow_incompatible=allow_incompatible_changes)
            wanted = staged.metadata.schema()
            columns = column_requests(table, changes)
            requirements = (*staged.requirements, *_row_requirements(table, changes))
            dependent = property_changes(table.schema(), wanted, table.properties).table_updates()
            return Change((*staged.updates, *dependent), requirements, columns) if staged.updates else None

        table = commit_change(context, target, plan, what="the schema change")
        operation.set(schema_id=table.metadata.current_schema_id)
        return table.schema()


def stage_changes(table: Table, changes: Sequence[SchemaChange], *, allow_incompatible: bool = False) -> Staged:
    """Return the updates for schema changes on the current table.

    Raises:
        SchemaEvolutionError: A change is refused; the error lists all refused changes.
    """
    name = name_of(table)
    added = {change.column for change in changes if change.kind is SchemaChangeKind.ADD}
    refused = [
        why
        for change in changes
        # The changes that add a column may also move it.
        if not (change.kind is SchemaChangeKind.REORDER and change.column in added)
        and (why := _refusal(change, table, allow_incompatible=allow_incompatible))
    ]
    if refused:
        msg = f"Unsupported schema changes for table '{name}'."
        hint = None if allow_incompatible else "Pass allow_incompatible_changes=True if readers can handle them."
        raise SchemaEvolutionError(msg, mismatches=refused, hint=hint, table=name)

    def edit(transaction: Transaction) -> None:
        with transaction.update_schema(allow_incompatible_changes=allow_incompatible) as update:
            if _relaxes_identifiers(changes, table.schema()):
                update.set_identifier_fields()
            for change in changes:
                _apply(update, change, table.schema())

    try:
        staged = stage(table, edit)
    except (ValueError, ValidationError, ResolveError) as err:
        msg = f"Unsupported schema changes for table '{name}': {err}"
        raise SchemaEvolutionError(msg, table=name) from err
    require_names(staged.metadata.schema(), before=table.schema())
    return staged


def _relaxes_identifiers(changes: Sequence[SchemaChange], schema: Schema) -> bool:
    """Whether an identifier field becomes optional, which is not allowed: the keys are then stored as a property."""
    relaxed = {change.column for change in changes if change.kind is SchemaChangeKind.MAKE_OPTIONAL}
    return bool(relaxed & schema.identifier_field_names())


def _refusal(change: SchemaChange, table: Table, *, allow_incompatible: bool) -> ColumnMismatch | None:
    """Return why a change is refused; None if it is allowed."""
    column = change.column
    schema = table.schema()
    current = _find(schema, column)
    wanted = _wanted_type(change)
    new_text = str(wanted) if wanted else None
    if change.kind is SchemaChangeKind.ADD:
        return _addition_refusal(change, table, current, allow_incompatible=allow_incompatible)
    if current is None:
        return ColumnMismatch(column, None, new_text, "column does not exist")
    current_text = str(current.field_type)
    if change.kind is SchemaChangeKind.WIDEN and wanted and not widens(current.field_type, wanted):
        return ColumnMismatch(column, current_text, new_text, "not a wider type")
    if change.kind is SchemaChangeKind.CHANGE_TYPE and wanted and widens(current.field_type, wanted):
        return None
    if change.incompatible and not allow_incompatible:
        return ColumnMismatch(column, current_text, new_text, f"{change.kind.value} is an incompatible change")
    return _row_refusal(change, table, current, new_text)


def _addition_refusal(
    change: SchemaChange, table: Table, current: NestedField | None, *, allow_incompatible: bool
) -> ColumnMismatch | None:
    text = str(_wanted_type(change))
    if current is not None:
        return ColumnMismatch(change.column, str(current.field_type), text, "column already exists")
    if change.required and not allow_incompatible:
        return ColumnMismatch(change.column, None, text, "a new required column is an incompatible change")
    if change.required and table.metadata.snapshots:
        return ColumnMismatch(change.column, None, text, "existing rows would have no value")
    return None


def _row_refusal(
    change: SchemaChange, table: Table, current: NestedField, new_text: str | None
) -> ColumnMismatch | None:
    """Return why a change would make existing rows unreadable; None if it would not."""
    text = str(current.field_type)
    if change.kind is SchemaChangeKind.CHANGE_TYPE and table.metadata.snapshots:
        reason = "stored values cannot be read as the new type; add a column, copy the values, drop the old one"
        return ColumnMismatch(change.column, text, new_text, reason)
    if change.kind is SchemaChangeKind.MAKE_REQUIRED and may_contain_nulls(table, current.field_id):
        return ColumnMismatch(change.column, text, text, "existing rows may contain nulls")
    if change.kind is SchemaChangeKind.DROP and (role := _role(table, current.field_id)):
        return ColumnMismatch(change.column, text, None, f"used by the table's {role}")
    return None


def may_contain_nulls(table: Table, field_id: int) -> bool:
    """Whether a column may contain nulls on any branch, according to the manifests."""
    # Nested fields have no counts, so a missing count proves nothing.
    heads = {ref.snapshot_id for ref in _branches(table).values()}
    files = (task.file for head in heads for task in table.scan(snapshot_id=head).plan_files())
    return any((file.null_value_counts or {}).get(field_id, 1) > 0 for file in files)


def _row_requirements(table: Table, changes: Sequence[SchemaChange]) -> tuple[TableRequirement, ...]:
    """Return the requirements of changes that depend on the rows: no branch may have moved since."""
    if not any(change.kind is SchemaChangeKind.MAKE_REQUIRED for change in changes):
        return ()
    return assert_branch_heads(table)


def assert_branch_heads(table: Table) -> tuple[TableRequirement, ...]:
    """Return the requirements that no branch has moved since the table was loaded."""
    heads = {MAIN_BRANCH: None} | {name: ref.snapshot_id for name, ref in _branches(table).items()}
    return tuple(AssertRefSnapshotId(ref=name, snapshot_id=head) for name, head in heads.items())


def _branches(table: Table) -> dict[str, SnapshotRef]:
    # A branch is read with the table's schema, a tag with the schema of its snapshot.
    return {name: ref for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type is SnapshotRefType.BRANCH}


def _role(table: Table, field_id: int) -> str | None:
    if any(field.source_id == field_id for field in table.spec().fields):
        return "partitioning"
    if any(field.source_id == field_id for field in table.sort_order().fields):
        return "sort order"
    if partitions_files(table, field_id):
        return "former partitioning"
    keys = parse_keys(table.properties.get(KEYS_PROPERTY, ""))
    return "key" if field_id in table.schema().identifier_field_ids or _within(keys, field_id, table.schema()) else None


def partitions_files(table: Table, field_id: int) -> bool:
    """Whether files are partitioned by a column, in the current or a former partition spec.

    After the column is dropped, Iceberg's Java implementation writes nulls for the partition values of such files.
    """
    specs = {
        spec.spec_id
        for spec in table.metadata.partition_specs
        if any(field.source_id == field_id for field in spec.fields)
    }
    snapshots = table.metadata.snapshots if specs else []
    return any(
        manifest.partition_spec_id in specs for snapshot in snapshots for manifest in snapshot.manifests(table.io)
    )


def _within(keys: Sequence[str], field_id: int, schema: Schema) -> bool:
    """Whether a column is a key, or a struct that contains a key."""
    name = str(schema.find_column_name(field_id))
    return any(key == name or key.startswith(f"{name}.") for key in keys)


def _find(schema: Schema, column: str) -> NestedField | None:
    try:
        return schema.find_field(column)
    except ValueError:
        return None


def _wanted_type(change: SchemaChange) -> IcebergType | None:
    if isinstance(change.type, pa.DataType):
        return to_iceberg_type(supported_type(change.type, change.column), change.column, itertools.count(1).__next__)
    return parse_type(change.type) if isinstance(change.type, str) else cast("IcebergType | None", change.type)


def _apply(update: UpdateSchema, change: SchemaChange, schema: Schema) -> None:
    path = column_parts(change.column, schema)
    wanted = _wanted_type(change)
    match change.kind:
        case SchemaChangeKind.ADD:
            update.add_column(path, cast("IcebergType", wanted), doc=change.doc, required=change.required)
            if change.after:
                update.move_after(path, change.after)
        case SchemaChangeKind.WIDEN | SchemaChangeKind.CHANGE_TYPE:
            update.update_column(path, field_type=wanted, doc=change.doc)
        case SchemaChangeKind.MAKE_OPTIONAL:
            update.make_column_optional(path)
        case SchemaChangeKind.MAKE_REQUIRED:
            update.update_column(path, required=True)
        case SchemaChangeKind.RENAME:
            update.rename_column(path, str(change.new_name))
        case SchemaChangeKind.REORDER:
            update.move_after(path, change.after) if change.after else update.move_first(path)
        case SchemaChangeKind.DOC:
            update.update_column(path, doc=change.doc or "")
        case SchemaChangeKind.DROP:
            update.delete_column(path)


def column_requests(table: Table, changes: Sequence[SchemaChange]) -> tuple[ColumnRequest, ...]:
    """Return schema changes as column requests for an engine."""
    schema = table.schema()

    def request(change: SchemaChange) -> ColumnRequest:
        wanted = _wanted_type(change)
        return ColumnRequest(
            # Engines cannot add a required column directly.
            kind="add required" if change.kind is SchemaChangeKind.ADD and change.required else change.kind.value,
            path=column_parts(change.column, schema),
            type=type_text(wanted) if wanted is not None else None,
            new_name=change.new_name,
            doc=change.doc,
            after=change.after,
        )

    return tuple(request(change) for change in changes)


def column_parts(column: str, schema: Schema) -> tuple[str, ...]:
    """Split a dotted name, unless the dots are part of a column's name."""
    if _find(schema, column) is not None and any(field.name == column for field in schema.fields):
        return (column,)
    parent, _, name = column.rpartition(".")
    if parent and _find(schema, parent) is not None:
        return (*column_parts(parent, schema), name)
    return tuple(column.split(".")) if parent and _find(schema, column) is not None else (column,)
