"""Plans the commit that makes a table match floe.yaml, and the differences that cannot be resolved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.partitioning import validate_partition_name
from pyiceberg.schema import Schema
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.transforms import VoidTransform

from floe_core.declaration.drift import DriftItem, DriftKind, DriftRemedy, DriftSeverity
from floe_core.errors import CapabilityError, ConfigurationError, FloeStorageError, LegalHoldError
from floe_iceberg.commit.branches import STAGING_PREFIX
from floe_iceberg.commit.engine import commits_by_engine
from floe_iceberg.commit.metadata import Change
from floe_iceberg.names import name_of
from floe_iceberg.table.column_names import require_names
from floe_iceberg.table.declared.drift import differences
from floe_iceberg.table.declared.layout import evolved_spec, sort_updates, spec_updates
from floe_iceberg.table.declared.target_schema import target_schema
from floe_iceberg.table.history.legal_hold import require_no_hold
from floe_iceberg.table.keys.dependent_properties import (
    NAME_MAPPING,
    property_changes,
    renamed_column,
    updated_name_mapping,
)
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, NULL_KEYS_PROPERTY, keys_text
from floe_iceberg.table.keys.row_keys import (
    UNIQUE_HINT,
    describe_duplicates,
    identifiers_of,
    recorded_keys,
    recorded_null_keys,
)
from floe_iceberg.table.lifecycle import declared_properties
from floe_iceberg.table.schema import assert_branch_heads, partitions_files
from floe_iceberg.table.specs import check_spec, partition_spec, sort_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_core.schemas import TableConfig
    from floe_iceberg.context import ManagerContext

# Changes whose feasibility depends on the existing rows.
_ROW_DEPENDENT = {DriftKind.MISSING_COLUMN, DriftKind.EXTRA_COLUMN, DriftKind.NULLABILITY, DriftKind.KEYS}


def unresolvable(items: Iterable[DriftItem]) -> tuple[DriftItem, ...]:
    """Return the differences that cannot be resolved."""
    return tuple(item for item in items if item.remedy is DriftRemedy.NONE)


def resolvable(items: Iterable[DriftItem], *, drop_columns: bool) -> tuple[DriftItem, ...]:
    """Return the differences that are resolved; undeclared columns stay unless ``drop_columns`` is set."""
    left = {DriftRemedy.NONE} if drop_columns else {DriftRemedy.NONE, DriftRemedy.FLAG}
    return tuple(item for item in items if item.remedy not in left)


@dataclass(frozen=True)
class DeclaredChange:
    """The changes that make one table match its declaration.

    Attributes:
        context: The manager's context.
        table: The table as it was loaded.
        declared: Its declaration.
        drop_columns: Whether undeclared columns are dropped.
    """

    context: ManagerContext
    table: Table
    declared: TableConfig
    drop_columns: bool = False

    @cached_property
    def items(self) -> tuple[DriftItem, ...]:
        """All differences, each with its remedy."""
        found = [self._with_remedy(item) for item in differences(self.table, self.declared)]
        refused = any(item.remedy is DriftRemedy.NONE for item in found)
        return tuple(found) if refused else (*found, *self._layout_conflicts(found))

    @property
    def impossible(self) -> tuple[DriftItem, ...]:
        """Differences that cannot be resolved; if there are any, nothing is changed."""
        return unresolvable(self.items)

    @property
    def made(self) -> tuple[DriftItem, ...]:
        """Differences that the commit resolves."""
        return resolvable(self.items, drop_columns=self.drop_columns)

    @cached_property
    def key_refusal(self) -> DriftItem | None:
        """Why the table's rows rule out the declared keys; None if they do not."""
        item = next((item for item in self.items if item.kind is DriftKind.KEYS), None)
        if item is None or not self._keys:
            return None
        before = self.table.schema()
        present = [renamed_column(key, self._schema, before) for key in self._keys]
        new = [key for key, name in zip(self._keys, present, strict=True) if name is None]
        why: str | None
        if new and self.table.metadata.snapshots:
            why, hint = f"Existing rows have no value in {', '.join(new)}.", "Fill the column first."
        else:
            nulls = self.declared.null_keys or recorded_null_keys(self.table)
            names = [name for name in present if name is not None]
            why, hint = None if new else describe_duplicates(self.context, self.table, names, nulls), UNIQUE_HINT
        return item.model_copy(update={"remedy": DriftRemedy.NONE, "fix": f"{why} {hint}"}) if why else None

    def change(self) -> Change | None:
        """Return all changes as one commit; None if there are none.

        Raises:
            CapabilityError: Only Spark SQL can make this change.
        """
        updates = (*self._schema_updates(), *self._layout_updates(), *self._property_updates())
        if not updates:
            return None
        by_property = all(isinstance(update, SetPropertiesUpdate | RemovePropertiesUpdate) for update in updates)
        if not by_property and commits_by_engine(self.context, self.table):
            name = name_of(self.table)
            msg = f"Table '{name}' has format version {self.table.format_version}, and clients of this catalog write"
            msg += " the metadata themselves: only Spark SQL can change its columns and layout."
            raise CapabilityError(msg, hint=f"Change it with Spark SQL: ALTER TABLE {name} …", table=name)
        return Change(updates, self._requirements())

    def _with_remedy(self, item: DriftItem) -> DriftItem:
        """Return a difference with the remedy that is possible on this table."""
        drops = item.remedy is DriftRemedy.FLAG and self.drop_columns
        if not drops and item.kind is not DriftKind.RENAME:
            return item
        why = self._drop_refusal(item.path) if drops else None
        if staged := sorted(name for name in self.table.metadata.refs if name.startswith(STAGING_PREFIX)):
            why = (
                f"Branch {staged[0]} has a staged write: publish or discard it first with floe publish or floe discard."
            )
        return item.model_copy(update={"remedy": DriftRemedy.NONE, "fix": why}) if why else item

    def _drop_refusal(self, column: str) -> str | None:
        """Return why a column cannot be dropped; None if it can."""
        gone = target_schema(self.table.metadata, self.declared.columns).find_field(column).field_id
        role = None
        if used := [field for field in self._spec.fields if field.source_id == gone]:
            former = all(isinstance(field.transform, VoidTransform) for field in used)
            role = "is used by the partitioning: change partition_by first"
            if former:
                role = "is used by a former partitioning: upgrade the table to format version 2 with Spark SQL"
        elif any(field.source_id == gone for field in self._order.fields):
            role = "is used by the sort order: change sort_by first"
        elif partitions_files(self.table, gone):
            role = "is used by files of a former partitioning: replace all rows and expire the old snapshots first"
        elif any(key == column or key.startswith(f"{column}.") for key in self._keys):
            role = "is a key: change keys first"
        if role:
            return f"The column {role}."
        try:
            require_no_hold(self.context, self.table, what="Dropping a column")
        except LegalHoldError as err:
            return str(err)
        return None

    def _layout_conflicts(self, found: list[DriftItem]) -> Iterator[DriftItem]:
        """Yield conflicts between the declared columns and the partitioning."""
        changed = {item.kind for item in found}
        try:
            require_names(self._schema, before=self.table.schema())
            for spec in self.table.metadata.partition_specs:
                for field in spec.fields:
                    validate_partition_name(field.name, field.transform, field.source_id, self._schema, set())
            if DriftKind.PARTITIONING in changed:
                check_spec(self._spec, self._schema)
        except (FloeStorageError, ValueError) as err:
            yield DriftItem(
                kind=DriftKind.TABLE,
                path="columns",
                declared="conflicting columns and partitioning",
                actual=None,
                severity=DriftSeverity.BREAKING,
                fix=f"{err} Correct floe.yaml.",
            )

    @cached_property
    def _schema(self) -> Schema:
        """The new schema of the table."""
        return target_schema(self.table.metadata, self.declared.columns, drop_columns=self.drop_columns)

    @cached_property
    def _spec(self) -> PartitionSpec:
        metadata, terms = self.table.metadata, self.declared.partition_by
        try:
            return metadata.spec() if terms is None else evolved_spec(metadata, partition_spec(terms, self._schema))
        except ConfigurationError:
            # Invalid terms are reported as a difference.
            return metadata.spec()

    @cached_property
    def _order(self) -> SortOrder:
        current, terms = self.table.sort_order(), self.declared.sort_by
        try:
            return current if terms is None else sort_order(terms, self._schema)
        except ConfigurationError:
            return current

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        """The keys that the table will record, with the new column names."""
        before = self.table.schema()
        return self.declared.keys or tuple(
            renamed_column(key, before, self._schema) or key for key in recorded_keys(self.table)
        )

    def _changes(self, kind: DriftKind) -> bool:
        return any(item.kind is kind for item in self.made)

    def _schema_updates(self) -> tuple[TableUpdate, ...]:
        metadata, schema = self.table.metadata, self._schema
        if self._changes(DriftKind.KEYS) and (names := identifiers_of(schema, self._keys)) is not None:
            schema = Schema(*schema.fields, identifier_field_ids=[schema.find_field(name).field_id for name in names])
        if schema == metadata.schema():
            return ()
        known = next((one.schema_id for one in metadata.schemas if one == schema), None)
        if known is not None:
            return (SetCurrentSchemaUpdate(schema_id=known),)
        number = 1 + max(one.schema_id for one in metadata.schemas)
        added = Schema(*schema.fields, schema_id=number, identifier_field_ids=schema.identifier_field_ids)
        return AddSchemaUpdate(schema_=added), SetCurrentSchemaUpdate(schema_id=-1)

    def _layout_updates(self) -> tuple[TableUpdate, ...]:
        metadata = self.table.metadata
        updates: tuple[TableUpdate, ...] = ()
        if self._changes(DriftKind.PARTITIONING):
            updates += spec_updates(metadata, self._spec)
        if self._changes(DriftKind.SORT_ORDER):
            updates += sort_updates(metadata, self._order)
        return updates

    def _property_updates(self) -> tuple[TableUpdate, ...]:
        before, after, properties = self.table.schema(), self._schema, self.table.properties
        dependent = property_changes(before, after, properties)
        updates = dict(dependent.updates)
        if NAME_MAPPING in properties and before != after:
            updates[NAME_MAPPING] = updated_name_mapping(before, after, properties[NAME_MAPPING])
        for item in self.made:
            if item.kind is DriftKind.PROPERTY and item.declared is not None:
                updates[item.path] = item.declared
            elif item.kind is DriftKind.KEYS and item.path == "keys":
                updates[KEYS_PROPERTY] = keys_text(self._keys)
            elif item.kind is DriftKind.KEYS and item.declared is not None:
                updates[NULL_KEYS_PROPERTY] = item.declared
        updates = {key: value for key, value in updates.items() if properties.get(key) != value}
        removals = [key for key in dependent.removals if key not in declared_properties(self.declared)]
        changes: tuple[TableUpdate, ...] = (SetPropertiesUpdate(updates=updates),) if updates else ()
        return (*changes, RemovePropertiesUpdate(removals=removals)) if removals else changes

    def _requirements(self) -> tuple[TableRequirement, ...]:
        metadata = self.table.metadata
        found: list[TableRequirement] = [
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
            AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
            AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id),
        ]
        if self._changes(DriftKind.PARTITIONING):
            found.append(AssertLastAssignedPartitionId(last_assigned_partition_id=metadata.last_partition_id))
        if any(item.kind in _ROW_DEPENDENT and _depends_on_rows(item) for item in self.made):
            found += assert_branch_heads(self.table)
        return tuple(found)


def _depends_on_rows(item: DriftItem) -> bool:
    """Whether a change is possible only because of the existing rows, or because there are none."""
    return item.kind in {DriftKind.KEYS, DriftKind.EXTRA_COLUMN} or item.severity is DriftSeverity.BREAKING
