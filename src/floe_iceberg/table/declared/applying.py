"""Brings tables to what floe.yaml declares, each in one commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from floe_core.declaration.drift import DriftItem, DriftKind, DriftRemedy
from floe_core.errors import ConcurrencyConflictError, ConfigurationError, TableNotFoundError
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.commit.metadata import commit_change
from floe_iceberg.context import identifier_of
from floe_iceberg.read.integrity import load_table
from floe_iceberg.table.declared.changes import DeclaredChange, impossible_of, made_of
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
    """What it takes to bring a table to its declaration, or what was done.

    Attributes:
        table: The table, as ``namespace.name``.
        exists: Whether it was there.
        items: Where it differs, with what is done about each difference.
        drop_columns: Whether columns that are not declared go.
        changed: Whether something was changed, or made.
    """

    table: str
    exists: bool
    items: tuple[DriftItem, ...]
    drop_columns: bool = False
    changed: bool = False

    @property
    def impossible(self) -> tuple[DriftItem, ...]:
        """What cannot be done; nothing of the table is changed then."""
        return impossible_of(self.items)

    @property
    def left(self) -> tuple[DriftItem, ...]:
        """What stays as it is: columns that are not declared, and tables that only data can make."""
        if self.exists:
            return tuple(item for item in self.items if item.remedy is DriftRemedy.FLAG and not self.drop_columns)
        return () if self.creates else self.items

    @property
    def made(self) -> tuple[DriftItem, ...]:
        """What is changed; a table that is made has nothing that could be left."""
        if not self.exists:
            return made_of(self.items, drop_columns=True) if self.creates else ()
        return made_of(self.items, drop_columns=self.drop_columns)

    @property
    def destructive(self) -> tuple[DriftItem, ...]:
        """What takes something away, so that somebody has to agree first."""
        return tuple(item for item in self.made if item.destructive)

    @property
    def creates(self) -> bool:
        """Whether the table is made."""
        return not self.exists and any(item.remedy is DriftRemedy.APPLY for item in self.items)


def plan_declaration(
    context: ManagerContext, target: TableTarget, declared: TableConfig, *, drop_columns: bool = False
) -> DeclaredPlan:
    """Return what ``apply_declaration`` would do; nothing is changed.

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
    refused = change.unique if not change.impossible else None
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
    """Bring a table to its declaration in one commit, or make it.

    Args:
        context: The manager's context.
        target: The table.
        declared: What it should be; what is not declared stays as it is.
        drop_columns: Whether columns that are not declared go.
        agreed: The destructive changes that somebody agreed to; None for any. Should another one turn out to be
            needed, because the table has changed meanwhile, nothing is changed.

    Returns:
        What was done.

    Raises:
        ConfigurationError: Something declared cannot be; nothing was changed.
        ConcurrencyConflictError: Others won every race, or the table changed so that somebody has to look again.
        CapabilityError: Only Spark SQL can change the table that way.
    """
    first: DeclaredPlan | None = None
    done = False

    def plan(table: Table, _doubtful: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        nonlocal first, done
        change = DeclaredChange(context, table, declared, drop_columns)
        found = _plan(change)
        first = first or found
        if found.impossible:
            raise _impossible(found)
        if agreed is not None and any(item not in agreed for item in found.destructive):
            msg = f"Table '{found.table}' has changed meanwhile; nothing was changed."
            raise ConcurrencyConflictError(msg, hint="Look at the changes again.", table=found.table)
        update = change.change()
        done = done or update is not None
        return update

    with context.operation("iceberg.apply_declaration", target) as operation:
        created = _created(context, target, declared)
        if created is not None:
            return created
        commit_change(context, target, plan, what="the change to what floe.yaml declares")
        operation.set(changed=done)
    assert first is not None  # noqa: S101 - the plan was asked at least once
    return replace(first, changed=done)


def _created(context: ManagerContext, target: TableTarget, declared: TableConfig) -> DeclaredPlan | None:
    """Make a table that does not exist; None when it does."""
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
    whys = " ".join(difference_text(item) for item in plan.impossible)
    msg = f"Table '{plan.table}' cannot become what floe.yaml declares, and nothing was changed: {whys}"
    return ConfigurationError(msg, hint="Correct floe.yaml, or do what is said there.", table=plan.table)


def difference_text(item: DriftItem) -> str:
    """Describe a difference in one sentence, with the way out."""
    declared, actual = item.declared or "nothing", item.actual or "nothing"
    return f"{item.path} declared {declared}, the table has {actual}. {item.fix}"


def follow_declaration(context: ManagerContext, table: Table, declared: TableConfig) -> Table:
    """Make the changes that a run may make before it writes, and return the table with them.

    Keys are left to upserts, which check them, and a location to the eye: both say nothing about what can be written.

    Raises:
        ConfigurationError: A column is to be renamed, which is for ``floe apply``, or cannot become what is declared.
    """
    wanted = declared.model_copy(update={"keys": (), "null_keys": None, "location": None})

    def plan(current: Table, _doubtful: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
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
        return commit_change(context, table, plan, what="the change to what floe.yaml declares", loaded=table)


def _writable(item: DriftItem) -> bool:
    """Whether a difference that cannot be changed keeps no row out: a property, or a type that data has widened."""
    if item.kind is DriftKind.TYPE and item.declared and item.actual:
        return widens(parse_type(item.declared), parse_type(item.actual))
    return item.kind is DriftKind.PROPERTY


def _require_writable(change: DeclaredChange, table: str) -> None:
    for item in change.items:
        if item.kind is DriftKind.RENAME:
            msg = f"Column '{item.actual}' of table '{table}' is declared as '{item.declared}'. Nothing was written."
            raise ConfigurationError(msg, hint="Run: floe apply", table=table)
    if refused := [item for item in change.impossible if not _writable(item)]:
        whys = " ".join(difference_text(item) for item in refused)
        msg = f"Table '{table}' is not what floe.yaml declares, and nothing was written: {whys}"
        raise ConfigurationError(msg, hint="Correct floe.yaml, or do what is said there.", table=table)
