"""Commits through the engine, for changes that PyIceberg cannot write.

PyIceberg reads format version 3 but does not write it. A REST catalog applies metadata changes on the server, so those
need no engine. On all other catalogs, and for all row changes, the engine changes tables of version 3. The engine's
statements accept no requirements. floe therefore checks the requirements on the current table just before, and uses
statements with their own checks where a race must not lose data: creating a ref and fast-forwarding a branch.
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
from floe_iceberg.names import name_of
from floe_iceberg.read.capabilities import NEWEST_WRITABLE_VERSION
from floe_iceberg.read.versions import ancestors

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_core.dataplane import ColumnRequest, DataPlane
    from floe_iceberg.context import ManagerContext


def engine_only(metadata: TableMetadata) -> bool:
    """Whether only an engine can write rows of the table."""
    return metadata.format_version > NEWEST_WRITABLE_VERSION


def commits_by_engine(context: ManagerContext, table: Table) -> bool:
    """Whether even metadata changes need an engine because no server applies them."""
    return engine_only(table.metadata) and isinstance(_inner_catalog(context), MetastoreCatalog)


def required_plane(context: ManagerContext, table: Table, engine: Engine | str | None = None) -> DataPlane:
    """Return the engine for a table that only an engine can change.

    Raises:
        CapabilityError: Another engine is requested, or none is installed; nothing was written.
    """
    name, version = name_of(table), table.metadata.format_version
    if Engine(engine or context.config.engine) is Engine.ARROW:
        msg = f"Table '{name}' has format version {version}, which the arrow engine cannot write."
        raise CapabilityError(msg, hint="Remove engine=arrow to write with Spark.", table=name)
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
    """Commit a metadata change, through the engine if necessary, and return the updated table.

    Args:
        context: The manager's context.
        table: The table as it was loaded.
        requirements: Requirements that must still be met.
        updates: Updates to commit.
        columns: The schema change contained in the updates, as column requests for an engine.

    Raises:
        CommitFailedException: Another writer committed first.
        CommitStateUnknownException: It is unknown whether the commit landed.
        CapabilityError: The table needs an engine, and none is available or it does not support the change.
    """
    if commits_by_engine(context, table):
        _EngineCommit(context, table, requirements, updates, columns).run()
        return context.load(table)
    response = context.catalog.commit_table(table, requirements, updates)
    changed = copy(table)
    changed.metadata, changed.metadata_location = response.metadata, response.metadata_location
    return changed


def first_snapshot_by_engine(context: ManagerContext, table: Table) -> None:
    """Create an empty first snapshot on main; the engine creates one when it adds a branch to an empty table."""
    plane, name = required_plane(context, table, Engine.SPARK), name_of(table)
    branch = first_branch(uuid.uuid4().hex)
    plane.set_ref(name, RefRequest(branch, "branch", None))
    try:
        plane.fast_forward(name, MAIN_BRANCH, to=branch)
    finally:
        plane.remove_ref(name, branch, kind="branch")


def _inner_catalog(context: ManagerContext) -> object:
    catalog = context.catalog
    return catalog.inner if isinstance(catalog, ReconcilingCatalog) else catalog


class _EngineCommit:
    """One metadata change, run as engine statements."""

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
        # Several updates describe one schema change; the engine runs it once, as a list of columns.
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
            # The engine may have committed the change before it failed.
            if self._landed():
                return
            if isinstance(err, ConcurrencyConflictError) or not isinstance(err, FloeStorageError):
                msg = f"The engine failed to change table '{self._name}': {err}"
                raise CommitFailedException(msg) from err
            raise

    def _load(self) -> TableMetadata:
        return self._context.load(self._name).metadata

    def _landed(self) -> bool:
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
                # The next expiry removes snapshots without a ref.
                pass
            case _:
                msg = f"Table '{self._name}' has format version {metadata.format_version}: {update.action} needs Spark."
                raise CapabilityError(msg, hint="Make the change with Spark SQL.", table=self._name)

    def _set_ref(self, plane: DataPlane, metadata: TableMetadata, update: SetSnapshotRefUpdate) -> None:
        name, snapshot_id = update.ref_name, update.snapshot_id
        current = metadata.refs.get(name)
        if current is not None and current.snapshot_id == snapshot_id:
            return
        if update.type is SnapshotRefType.BRANCH and (current is not None or name == MAIN_BRANCH):
            self._move_branch(plane, metadata, name, snapshot_id)
            return
        asserted = {r.ref: r.snapshot_id for r in self._requirements if isinstance(r, AssertRefSnapshotId)}
        plane.set_ref(
            self._name,
            RefRequest(
                name=name,
                kind=update.type.value,
                snapshot_id=snapshot_id,
                replace=current is not None and asserted.get(name) is not None,
                max_ref_age_ms=update.max_ref_age_ms,
                max_snapshot_age_ms=update.max_snapshot_age_ms,
                min_snapshots_to_keep=update.min_snapshots_to_keep,
            ),
        )

    def _move_branch(self, plane: DataPlane, metadata: TableMetadata, name: str, snapshot_id: int) -> None:
        head = metadata.refs[name].snapshot_id if name in metadata.refs else None
        is_fast_forward = head is None or any(
            snapshot.snapshot_id == head for snapshot in ancestors(metadata, snapshot_id)
        )
        other = next((ref for ref, at in metadata.refs.items() if at.snapshot_id == snapshot_id), None)
        if is_fast_forward and other is not None:
            # The engine checks again that the branch has not moved.
            plane.fast_forward(self._name, name, to=other)
        elif name == MAIN_BRANCH:
            plane.roll_back(self._name, snapshot_id)
        else:
            plane.set_ref(self._name, RefRequest(name, "branch", snapshot_id, replace=True))
