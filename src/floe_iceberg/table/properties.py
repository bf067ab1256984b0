"""Sets and removes table properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertTableUUID, RemovePropertiesUpdate, SetPropertiesUpdate

from floe_core.errors import ConfigurationError
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.table.keys.owned_properties import reserved_reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from floe_iceberg.context import ManagerContext, TableTarget


def set_properties(
    context: ManagerContext, target: TableTarget, updates: Mapping[str, str], removals: Sequence[str] = ()
) -> Table:
    """Set and remove properties of a table in one commit; without changes there is no commit.

    Raises:
        ConfigurationError: floe or Iceberg manages a property, or a property is both set and removed.
    """
    require_settable(updates, removals)

    def plan(table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        changed = {key: value for key, value in updates.items() if table.properties.get(key) != value}
        removed = [key for key in removals if key in table.properties]
        changes: tuple[TableUpdate, ...] = (SetPropertiesUpdate(updates=changed),) if changed else ()
        changes = (*changes, RemovePropertiesUpdate(removals=removed)) if removed else changes
        return Change(changes, (AssertTableUUID(uuid=table.metadata.table_uuid),)) if changes else None

    with context.operation("iceberg.set_properties", target, properties=len(updates) + len(removals)):
        return commit_change(context, target, plan, what="the property change")


def require_settable(updates: Mapping[str, str], removals: Sequence[str]) -> None:
    """Require that users may change the given properties.

    Raises:
        ConfigurationError: floe or Iceberg manages a property, or a property is both set and removed.
    """
    if both := sorted(set(updates) & set(removals)):
        msg = f"Properties are both set and removed: {', '.join(both)}."
        raise ConfigurationError(msg)
    for key in (*updates, *removals):
        if not key.strip():
            msg = "A property name is empty."
            raise ConfigurationError(msg)
        if reason := reserved_reason(key):
            msg = f"The property '{key}' cannot be set manually."
            raise ConfigurationError(msg, hint=reason)
