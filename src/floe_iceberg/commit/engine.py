"""Changes that PyIceberg cannot write, carried out by the engine.

PyIceberg reads format version 3 and does not write it. On a REST catalog the server applies changes of metadata, so
those work from here; on every other catalog, and for every change of rows, a table of version 3 is changed by the
engine. The engine's statements take no requirements: those are checked on the table as it is just before, and what
must not be lost to a race goes by statements that check for themselves: creating a ref, moving a branch forward.
"""

from __future__ import annotations

import uuid
from copy import copy
from typing import TYPE_CHECKING

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from floe_core.dataplane import RefRequest
from floe_core.errors import CapabilityError, ConcurrencyConflictError, FloeStorageError, MissingDependencyError
from floe_core.runtime.distribution import install_hint
from floe_iceberg.catalog.outcomes import landed
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.commit.branches import first_branch
from floe_iceberg.models import Engine
from floe_iceberg.read.capabilities import NEWEST_WRITTEN
from floe_iceberg.read.versions import ancestors, name_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_core.dataplane import ColumnRequest, DataPlane
    from floe_iceberg.context import ManagerContext


def engine_only(metadata: TableMetadata) -> bool:
    """Whether only an engine can write rows of the table."""
    return metadata.format_version > NEWEST_WRITTEN


def commits_by_engine(context: ManagerContext, table: Table) -> bool:
    """Whether even changes of metadata have to go through an engine: no server applies them."""
    return engine_only(table.metadata) and isinstance(_innermost(context), MetastoreCatalog)


def required_plane(context: ManagerContext, table: Table, engine: Engine | str | None = None) -> DataPlane:
    """Return the engine for a table that nothing else can change.

    Raises:
        CapabilityError: The caller asks for another engine, or none is installed; nothing was written.
    """
    name, version = name_of(table), table.metadata.format_version
    if Engine(engine or context.config.engine) is Engine.ARROW:
        msg = f"Table '{name}' has format version {version}, which the arrow engine cannot write."
        raise CapabilityError(msg, hint="Leave engine=arrow out: Spark writes it.", table=name)
    try:
        return context.plane()
    except MissingDependencyError as err:
        msg = f"Table '{name}' has format version {version}, which only Spark can write."
        raise CapabilityError(msg, hint=install_hint(err.extra), table=name) from err


def commit_metadata(
    context: ManagerContext,
    table: Table,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    columns: tuple[ColumnRequest, ...] = (),
) -> Table:
    """Commit a change of metadata, through the engine when nothing else can, and return the table with it.

    Args:
        context: The manager's context.
        table: The table as it was loaded.
        requirements: What must still hold.
        updates: What changes.
        columns: The change of schema among the updates, in words an engine knows.

    Raises:
        CommitFailedException: Another writer was first.
        CommitStateUnknownException: Nobody can tell whether it landed.
        CapabilityError: The table needs an engine, and there is none, or it cannot do this.
    """
    if commits_by_engine(context, table):
        _EngineCommit(context, table, requirements, updates, columns).run()
        return context.load(table)
    response = context.catalog.commit_table(table, requirements, updates)
    changed = copy(table)
    changed.metadata, changed.metadata_location = response.metadata, response.metadata_location
    return changed


def first_snapshot_by_engine(context: ManagerContext, table: Table) -> None:
    """Give main an empty first snapshot: the engine makes one for a branch of a table that has none."""
    plane, name = required_plane(context, table, Engine.SPARK), name_of(table)
    branch = first_branch(uuid.uuid4().hex)
    plane.set_ref(name, RefRequest(branch, "branch", None))
    try:
        plane.fast_forward(name, MAIN_BRANCH, to=branch)
    finally:
        plane.remove_ref(name, branch, kind="branch")


def _innermost(context: ManagerContext) -> object:
    catalog = context.catalog
    return catalog.inner if isinstance(catalog, ReconcilingCatalog) else catalog


class _EngineCommit:
    """One change of metadata, statement by statement."""

    def __init__(
        self,
        context: ManagerContext,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
        columns: tuple[ColumnRequest, ...],
    ) -> None:
        self._context = context
        self._table = table
        self._name = name_of(table)
        self._requirements = requirements
        self._updates = updates
        self._columns = columns
        # Schema changes come as several updates and go as one list of columns.
        self._schema_done = False

    def run(self) -> None:
        plane = required_plane(self._context, self._table, Engine.SPARK)
        metadata = self._load()
        for requirement in self._requirements:
            requirement.validate(metadata)
        try:
            for update in self._updates:
                self._apply(plane, metadata, update)
        except CapabilityError:
            raise
        except Exception as err:
            # The engine may have done it and failed afterwards.
            if self._has_landed():
                return
            if isinstance(err, ConcurrencyConflictError) or not isinstance(err, FloeStorageError):
                msg = f"The engine did not change {self._name}: {err}"
                raise CommitFailedException(msg) from err
            raise

    def _load(self) -> TableMetadata:
        return self._context.load(self._name).metadata

    def _has_landed(self) -> bool:
        wanted = tuple(update for update in self._updates if not isinstance(update, RemoveSnapshotsUpdate))
        return landed(self._load(), wanted)

    def _apply(self, plane: DataPlane, metadata: TableMetadata, update: TableUpdate) -> None:
        match update:
            case SetSnapshotRefUpdate():
                self._set_ref(plane, metadata, update)
            case RemoveSnapshotRefUpdate():
                if ref := metadata.refs.get(update.ref_name):
                    plane.remove_ref(self._name, update.ref_name, kind=ref.snapshot_ref_type.value)
            case SetPropertiesUpdate():
                plane.set_properties(self._name, updates=update.updates)
            case RemovePropertiesUpdate():
                plane.set_properties(self._name, updates={}, removals=update.removals)
            case AddSchemaUpdate() | SetCurrentSchemaUpdate() if self._columns:
                if not self._schema_done:
                    plane.change_columns(self._name, self._columns)
                    self._schema_done = True
            case RemoveSnapshotsUpdate():
                # Without a ref they go with the next expiry.
                pass
            case _:
                msg = f"Table '{self._name}' has format version {metadata.format_version}: {update.action} needs Spark."
                raise CapabilityError(msg, hint="Make the change with Spark SQL.", table=self._name)

    def _set_ref(self, plane: DataPlane, metadata: TableMetadata, update: SetSnapshotRefUpdate) -> None:
        name, goal = update.ref_name, update.snapshot_id
        current = metadata.refs.get(name)
        if current is not None and current.snapshot_id == goal:
            return
        if update.type is SnapshotRefType.BRANCH and (current is not None or name == MAIN_BRANCH):
            self._move_branch(plane, metadata, name, goal)
            return
        asserted = {r.ref: r.snapshot_id for r in self._requirements if isinstance(r, AssertRefSnapshotId)}
        plane.set_ref(
            self._name,
            RefRequest(
                name=name,
                kind=update.type.value,
                snapshot_id=goal,
                replace=current is not None and asserted.get(name) is not None,
                max_ref_age_ms=update.max_ref_age_ms,
                max_snapshot_age_ms=update.max_snapshot_age_ms,
                min_snapshots_to_keep=update.min_snapshots_to_keep,
            ),
        )

    def _move_branch(self, plane: DataPlane, metadata: TableMetadata, name: str, goal: int) -> None:
        head = metadata.refs[name].snapshot_id if name in metadata.refs else None
        grown = head is None or any(snapshot.snapshot_id == head for snapshot in ancestors(metadata, goal))
        other = next((ref for ref, at in metadata.refs.items() if at.snapshot_id == goal), None)
        if grown and other is not None:
            # The engine checks once more that nobody moved the branch.
            plane.fast_forward(self._name, name, to=other)
        elif name == MAIN_BRANCH:
            plane.roll_back(self._name, goal)
        else:
            plane.set_ref(self._name, RefRequest(name, "branch", goal, replace=True))
