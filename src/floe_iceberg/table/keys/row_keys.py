"""Row keys: the key columns that a table records, and their update from a declaration.

A table records its keys in a property, and as Iceberg identifier fields if all of them are required. Upserts without
explicit keys use the record. A declaration takes precedence: the record follows it if the existing rows are unique by
the declared keys; otherwise the write fails before anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate

from floe_core.dataplane import NullKeys, ReadRequest
from floe_core.errors import CapabilityError, ConfigurationError, FloeStorageError
from floe_iceberg.commit.engine import commits_by_engine
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.commit.protocol import stage
from floe_iceberg.formats.keys import repeated_keys
from floe_iceberg.names import name_of
from floe_iceberg.read.scan import scan
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, NULL_KEYS_PROPERTY, keys_text, parse_keys
from floe_iceberg.table.schema import column_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_iceberg.context import ManagerContext, TableTarget

UNIQUE_HINT = "Remove the duplicate rows, or declare keys that are unique."

_MAX_EXAMPLES = 3
# Approximate memory per key during the comparison.
_BYTES_PER_KEY = 64


def recorded_null_keys(table: Table) -> NullKeys:
    """Return how an upsert into a table treats null in a key."""
    return NullKeys.MATCH if table.properties.get(NULL_KEYS_PROPERTY) == NullKeys.MATCH else NullKeys.REFUSE


def recorded_keys(table: Table) -> tuple[str, ...]:
    """Return the keys that a table records; empty if it records none."""
    if text := table.properties.get(KEYS_PROPERTY):
        return parse_keys(text)
    return tuple(sorted(table.schema().identifier_field_names()))


def records_keys(table: Table, keys: Sequence[str], null_keys: NullKeys | None = None) -> bool:
    """Whether a table records exactly these keys and, unless it is None, this treatment of null."""
    same_nulls = null_keys in {None, recorded_null_keys(table)}
    return same_nulls and same_keys(recorded_keys(table), keys) and identifiers_of(table.schema(), keys) is None


def same_keys(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two lists of keys identify the same rows."""
    return set(one) == set(other)


def format_keys(keys: Sequence[str]) -> str:
    """Format keys for display."""
    return ", ".join(keys) or "none"


def set_keys(
    context: ManagerContext, target: TableTarget, keys: Sequence[str], *, null_keys: NullKeys | None = None
) -> Table:
    """Record the key columns of a table, unless it already records them.

    Args:
        context: The manager's context.
        target: The table.
        keys: The columns, dotted for fields of structs.
        null_keys: Whether upserts refuse null in a key or match it with null; None keeps the current setting.

    Returns:
        The updated table.

    Raises:
        ConfigurationError: No key is given, a column does not exist, or several rows have the same key.
        CapabilityError: The identifier fields would change, which only Spark SQL can do.
    """
    if not keys:
        msg = f"No keys given for table '{target}'."
        raise ConfigurationError(msg, hint="Pass the columns that identify a row.")
    wanted = tuple(keys)

    def plan(table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        if records_keys(table, wanted, null_keys):
            return None
        return _KeyChange(context, table, wanted, NullKeys(null_keys or recorded_null_keys(table))).change()

    with context.operation("iceberg.set_keys", target, keys=keys_text(wanted)):
        return commit_change(context, target, plan, what="the key change")


@dataclass(frozen=True)
class _KeyChange:
    """The change of a table's recorded keys."""

    context: ManagerContext
    table: Table
    keys: tuple[str, ...]
    null_keys: NullKeys

    def change(self) -> Change:
        """Check the rows and return the change."""
        self._require_columns()
        self._require_unique()
        properties = {KEYS_PROPERTY: keys_text(self.keys), NULL_KEYS_PROPERTY: self.null_keys.value}
        if self.null_keys is recorded_null_keys(self.table):
            del properties[NULL_KEYS_PROPERTY]
        updates: tuple[TableUpdate, ...] = (SetPropertiesUpdate(updates=properties),)
        head = self.table.metadata.refs.get(MAIN_BRANCH)
        # The rows were checked at this snapshot.
        requirements: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=self.table.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id if head else None),
        )
        if (names := identifiers_of(self.table.schema(), self.keys)) is not None:
            self._require_changeable_identifiers(names)
            with_names = stage(self.table, lambda transaction: _identify(transaction, names))
            updates += with_names.updates
            requirements += with_names.requirements
        return Change(updates, requirements)

    def _require_changeable_identifiers(self, names: tuple[str, ...]) -> None:
        if not commits_by_engine(self.context, self.table):
            return
        name = name_of(self.table)
        columns = ", ".join(names or sorted(self.table.schema().identifier_field_names()))
        msg = f"The identifier fields of table '{name}' must match its keys, but only Spark SQL can change them."
        hint = f"Run: ALTER TABLE {name} {'SET' if names else 'DROP'} IDENTIFIER FIELDS {columns}"
        raise CapabilityError(msg, hint=hint, table=name)

    def _require_columns(self) -> None:
        schema = self.table.schema()
        missing = [key for key in self.keys if key not in schema.column_names]
        if missing:
            why = f"The table has no column {', '.join(missing)}."
            hint = f"Existing columns: {', '.join(field.name for field in schema.fields)}."
            raise self._refused(why, hint)

    def _require_unique(self) -> None:
        if why := describe_duplicates(self.context, self.table, self.keys, self.null_keys):
            raise self._refused(why, UNIQUE_HINT)

    def _refused(self, why: str, hint: str) -> ConfigurationError:
        name, current = name_of(self.table), recorded_keys(self.table)
        msg = (
            f"The declared keys of table '{name}' are {format_keys(self.keys)}; the table records "
            f"{format_keys(current)}. {why} Nothing was written."
        )
        return ConfigurationError(msg, hint=hint, table=name)


def describe_duplicates(context: ManagerContext, table: Table, keys: Sequence[str], null_keys: NullKeys) -> str | None:
    """Describe the duplicate keys on main; None if every key is unique."""
    found = _find_duplicates(context, table, keys, null_keys)
    if not found:
        return None
    shown = ", ".join(str(example) for example in found)
    return f"Its rows are not unique by {format_keys(keys)}; examples of duplicates: {shown}."


def identifiers_of(schema: Schema, keys: Sequence[str]) -> tuple[str, ...] | None:
    """Return the identifier fields that a table should have; None if they already match or it has none.

    Only required columns can be identifier fields; with any other key, the result is empty.
    """
    current = schema.identifier_field_names()
    if not current or current == set(keys):
        return None
    return tuple(keys) if all(_is_required(schema, key) for key in keys) else ()


def _is_required(schema: Schema, key: str) -> bool:
    """Whether a key and all its parent fields are required."""
    return key in schema.column_names and all(
        schema.find_field(".".join(parts)).required for parts in _prefixes(column_parts(key, schema))
    )


def _prefixes(parts: Sequence[str]) -> list[Sequence[str]]:
    return [parts[: number + 1] for number in range(len(parts))]


def _identify(transaction: Any, names: Sequence[str]) -> None:  # noqa: ANN401 - a PyIceberg transaction
    with transaction.update_schema() as update:
        update.set_identifier_fields(*names)


def _find_duplicates(
    context: ManagerContext, table: Table, keys: Sequence[str], null_keys: NullKeys
) -> list[dict[str, Any]]:
    """Return examples of keys with several rows on main."""
    head = table.metadata.current_snapshot()
    if head is None:
        return []
    total = head.summary.additional_properties.get("total-records") if head.summary else None
    rows = int(total) if total is not None else None
    if rows == 0:
        return []
    if rows is not None and rows * _BYTES_PER_KEY * len(keys) > context.config.spark_threshold_bytes:
        try:
            return _find_duplicates_on_engine(context, table, keys, null_keys)
        except FloeStorageError as err:
            context.logger.info("comparing keys in process", reason=str(err))
    try:
        found = scan(context, table, columns=list(keys), snapshot_id=head.snapshot_id)
    except CapabilityError:
        # Only the engine can read this table.
        return _find_duplicates_on_engine(context, table, keys, null_keys)
    repeated = repeated_keys(found, keys, null_keys=null_keys)
    return repeated.examples if repeated else []


def _find_duplicates_on_engine(
    context: ManagerContext, table: Table, keys: Sequence[str], null_keys: NullKeys
) -> list[dict[str, Any]]:
    request = ReadRequest(name_of(table), snapshot_id=table.metadata.current_snapshot_id)
    paths = [tuple(column_parts(key, table.schema())) for key in keys]
    found = context.plane().repeated_keys(request, paths, null_keys=null_keys, limit=_MAX_EXAMPLES)
    return [dict(zip(keys, row, strict=True)) for row in found]
