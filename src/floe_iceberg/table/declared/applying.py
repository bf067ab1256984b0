"""Applies the declarations in floe.yaml to tables, with one commit per table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from floe_core.declaration.drift import DriftItem, DriftKind, DriftRemedy
from floe_core.errors import ConcurrencyConflictError, ConfigurationError, TableNotFoundError
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.commit.metadata import commit_change
from floe_iceberg.context import identifier_of
from floe_iceberg.read.integrity import load_table
from floe_iceberg.table.declared.changes import DeclaredChange, resolvable, unresolvable
from floe_iceberg.table.declared.drift import missing_table
from floe_iceberg.table.lifecycle import create_from_config
from floe_iceberg.table.schema import widens
from floe_iceberg.table.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from floe_core.schemas import TableConfig
    from floe_iceberg.commit.metadata import Change
    from floe_iceberg.context import ManagerContext, TableTarget


@dataclass(frozen=True)
class DeclaredPlan:
    """The planned or applied changes that make a table match its declaration.

    Attributes:
        table: The table, as ``namespace.name``.
        exists: Whether the table existed.
        items: The differences, each with its remedy.
        drop_columns: Whether undeclared columns are dropped.
        changed: Whether the table was changed or created.
    """

    table: str
    exists: bool
    items: tuple[DriftItem, ...]
    drop_columns: bool = False
    changed: bool = False

    @property
    def impossible(self) -> tuple[DriftItem, ...]:
        """Differences that cannot be resolved; if there are any, nothing is changed."""
        return unresolvable(self.items)

    @property
    def left(self) -> tuple[DriftItem, ...]:
        """Differences that remain: undeclared columns, and tables that are only created from data."""
        if self.exists:
            return tuple(item for item in self.items if item.remedy is DriftRemedy.FLAG and not self.drop_columns)
        return () if self.creates else self.items

    @property
    def made(self) -> tuple[DriftItem, ...]:
        """Differences that are resolved; for a new table these are all differences."""
        if not self.exists:
            return resolvable(self.items, drop_columns=True) if self.creates else ()
        return resolvable(self.items, drop_columns=self.drop_columns)

    @property
    def destructive(self) -> tuple[DriftItem, ...]:
        """Changes that remove something and therefore need confirmation."""
        return tuple(item for item in self.made if item.destructive)

    @property
    def creates(self) -> bool:
        """Whether the table is created."""
        return not self.exists and any(item.remedy is DriftRemedy.APPLY for item in self.items)


def plan_declaration(
    context: ManagerContext, target: TableTarget, declared: TableConfig, *, drop_columns: bool = False
) -> DeclaredPlan:
    """Return what ``apply_declaration`` would do, without changing anything.

    Raises:
        CorruptFileError: The table cannot be read.
    """
    with context.operation("iceberg.plan_declaration", target):
        try:
            table = load_table(context, target)
        except TableNotFoundError:
            return _new_table(target, declared)
        return _plan(DeclaredChange(context, table, declared, drop_columns))


def _new_table(target: TableTarget, declared: TableConfig) -> DeclaredPlan:
    name = str(identifier_of(target))
    item = missing_table(name, declared)
    if declared.columns:
        item = item.model_copy(update={"remedy": DriftRemedy.APPLY})
    return DeclaredPlan(name, exists=False, items=(item,))


def _plan(change: DeclaredChange) -> DeclaredPlan:
    refused = change.key_refusal if not change.impossible else None
    items = tuple(refused if refused and item.kind is DriftKind.KEYS else item for item in change.items)
    name = str(identifier_of(change.table))
    return DeclaredPlan(name, exists=True, items=items, drop_columns=change.drop_columns)


def apply_declaration(
    context: ManagerContext,
    target: TableTarget,
    declared: TableConfig,
    *,
    drop_columns: bool = False,
    agreed: Sequence[DriftItem] | None = None,
) -> DeclaredPlan:
    """Apply a declaration to a table in one commit, or create the table.

    Args:
        context: The manager's context.
        target: The table.
        declared: The declaration; undeclared settings stay unchanged.
        drop_columns: Whether undeclared columns are dropped.
        agreed: The confirmed destructive changes; None allows any. If the table has changed since and another
            destructive change is needed, nothing is changed.

    Returns:
        The applied changes.

    Raises:
        ConfigurationError: A declared setting cannot be applied; nothing was changed.
        ConcurrencyConflictError: Other writers committed first on every attempt, or the plan needs a new confirmation.
        CapabilityError: Only Spark SQL can make this change.
    """
    first: DeclaredPlan | None = None
    done = False

    def plan(table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        nonlocal first, done
        change = DeclaredChange(context, table, declared, drop_columns)
        found = _plan(change)
        first = first or found
        if found.impossible:
            raise _impossible(found)
        if agreed is not None and any(item not in agreed for item in found.destructive):
            msg = f"Table '{found.table}' was changed after the plan was confirmed; nothing was changed."
            raise ConcurrencyConflictError(msg, hint="Review the new plan.", table=found.table)
        update = change.change()
        done = done or update is not None
        return update

    with context.operation("iceberg.apply_declaration", target) as operation:
        created = _created(context, target, declared)
        if created is not None:
            return created
        commit_change(context, target, plan, what="the changes declared in floe.yaml")
        operation.set(changed=done)
    assert first is not None  # noqa: S101 - the plan was called at least once
    return replace(first, changed=done)


def _created(context: ManagerContext, target: TableTarget, declared: TableConfig) -> DeclaredPlan | None:
    """Create a table unless it exists; return None if it does."""
    identifier = identifier_of(target)
    if context.catalog.table_exists(identifier.parts):
        return None
    plan = _new_table(target, declared)
    if not plan.creates:
        return plan
    Namespaces(context.catalog).create(identifier.namespace)
    create_from_config(context, target, declared, if_not_exists=True)
    return replace(plan, changed=True)


def _impossible(plan: DeclaredPlan) -> ConfigurationError:
    reasons = " ".join(item.difference for item in plan.impossible)
    msg = f"The declaration of table '{plan.table}' cannot be applied; nothing was changed. {reasons}"
    return ConfigurationError(msg, hint="Correct floe.yaml, or follow the advice above.", table=plan.table)


def follow_declaration(context: ManagerContext, table: Table, declared: TableConfig) -> Table:
    """Apply the changes that a run may make before it writes, and return the updated table.

    Keys and location are ignored because they do not affect what can be written; upserts check the keys themselves.

    Raises:
        ConfigurationError: A rename is pending, which needs ``floe apply``, or a declared change is impossible.
    """
    wanted = declared.model_copy(update={"keys": (), "null_keys": None, "location": None})

    def plan(current: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        change = DeclaredChange(context, current, wanted)
        _require_writable(change, str(identifier_of(current)))
        kept = {item.path for item in change.made if item.remedy is DriftRemedy.CONFIRM}
        if kept:
            properties = {key: value for key, value in wanted.properties.items() if key not in kept}
            change = replace(change, declared=wanted.model_copy(update={"properties": properties}))
        return change.change()

    if plan(table, False) is None:  # noqa: FBT003 - the plan's signature
        return table
    with context.operation("iceberg.follow_declaration", table):
        return commit_change(context, table, plan, what="the changes declared in floe.yaml", loaded=table)


def _writable(item: DriftItem) -> bool:
    """Whether an unresolvable difference does not affect writes: a property, or a type that data has widened."""
    if item.kind is DriftKind.TYPE and item.declared and item.actual:
        return widens(parse_type(item.declared), parse_type(item.actual))
    return item.kind is DriftKind.PROPERTY


def _require_writable(change: DeclaredChange, table: str) -> None:
    for item in change.items:
        if item.kind is DriftKind.RENAME:
            msg = f"Column '{item.actual}' of table '{table}' is declared as '{item.declared}'. Nothing was written."
            raise ConfigurationError(msg, hint="Run: floe apply", table=table)
    if refused := [item for item in change.impossible if not _writable(item)]:
        reasons = " ".join(item.difference for item in refused)
        msg = f"Table '{table}' does not match floe.yaml; nothing was written. {reasons}"
        raise ConfigurationError(msg, hint="Correct floe.yaml, or follow the advice above.", table=table)
