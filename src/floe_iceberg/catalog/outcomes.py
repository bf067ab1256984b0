"""Determines from a catalog's state whether a call took effect, after an ambiguous reply."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from pyiceberg import exceptions as pyiceberg_errors
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertRefSnapshotId,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogUnavailableError,
    CircuitOpenError,
    ConfigurationError,
    NamespaceNotEmptyError,
    RateLimitedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

T = TypeVar("T")

# Errors that mean the server rejected the call or never received it: if its effect is not visible, do not wait for it.
DEFINITE = (
    pyiceberg_errors.CommitFailedException,
    pyiceberg_errors.ValidationException,
    pyiceberg_errors.ValidationError,
    pyiceberg_errors.TableAlreadyExistsError,
    pyiceberg_errors.NamespaceAlreadyExistsError,
    pyiceberg_errors.NamespaceNotEmptyError,
    pyiceberg_errors.NoSuchTableError,
    pyiceberg_errors.NoSuchNamespaceError,
    pyiceberg_errors.BadRequestError,
    pyiceberg_errors.UnauthorizedError,
    pyiceberg_errors.ForbiddenError,
    pyiceberg_errors.OAuthError,
    pyiceberg_errors.TooManyRequestsError,
    pyiceberg_errors.NotInstalledError,
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CircuitOpenError,
    ConfigurationError,
    NamespaceNotEmptyError,
    RateLimitedError,
    NotImplementedError,
    TypeError,
)
# The catalog is unavailable and may be restarting.
_UNAVAILABLE = (CatalogUnavailableError, CircuitOpenError)
# A reply can be lost while the server is still processing the call; these are the pauses before each read.
PAUSES = (0.0, 0.2, 0.8)
# Seconds to wait for an unavailable catalog that has answered before.
PATIENCE_SECONDS = 60.0
_LONGEST_PAUSE = 5.0


class OutcomeProbe:
    """Reads a catalog repeatedly to determine the outcome of a call after an ambiguous reply.

    Attributes:
        recovered: Whether the catalog was unavailable and is responding again.
    """

    def __init__(self, pauses: tuple[float, ...] = PAUSES, *, patience: float = PATIENCE_SECONDS) -> None:
        """Read once after each pause; wait up to ``patience`` seconds for an unavailable catalog."""
        self._pauses = pauses
        self._until = time.monotonic() + patience
        self.recovered = False

    def __iter__(self) -> Iterator[None]:
        """Pause, then yield for a read."""
        for pause in self._pauses:
            time.sleep(pause)
            yield

    def read(self, call: Callable[[], T]) -> T:
        """Call a function that reads the catalog, and wait while the catalog is unavailable."""
        pause = 0.2
        unavailable = False
        while True:
            try:
                result = call()
            except _UNAVAILABLE:
                if time.monotonic() + pause > self._until:
                    raise
            else:
                self.recovered = self.recovered or unavailable
                return result
            unavailable = True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def landed(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> bool:
    """Whether a table already contains the effects of a list of updates."""
    if snapshots := [update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)]:
        return all(metadata.snapshot_by_id(snapshot.snapshot_id) is not None for snapshot in snapshots)
    if created := [update for update in updates if isinstance(update, AssignUUIDUpdate)]:
        return all(update.uuid == metadata.table_uuid for update in created)
    return bool(updates) and all(_is_applied(metadata, update) for update in updates)


def _is_applied(metadata: TableMetadata, update: TableUpdate) -> bool:  # noqa: C901, PLR0911 - one case per kind of update
    match update:
        case AddSchemaUpdate():
            return any(schema == update.schema_ for schema in metadata.schemas)
        case SetCurrentSchemaUpdate():
            newest = max(schema.schema_id for schema in metadata.schemas)
            return metadata.current_schema_id == (newest if update.schema_id == -1 else update.schema_id)
        case AddPartitionSpecUpdate():
            return any(spec.compatible_with(update.spec) for spec in metadata.partition_specs)
        case SetDefaultSpecUpdate():
            newest = max(spec.spec_id for spec in metadata.partition_specs)
            return metadata.default_spec_id == (newest if update.spec_id == -1 else update.spec_id)
        case AddSortOrderUpdate():
            return any(order.fields == update.sort_order.fields for order in metadata.sort_orders)
        case SetDefaultSortOrderUpdate():
            newest = max(order.order_id for order in metadata.sort_orders)
            return metadata.default_sort_order_id == (newest if update.sort_order_id == -1 else update.sort_order_id)
        case SetSnapshotRefUpdate():
            ref = metadata.refs.get(update.ref_name)
            return ref is not None and ref.snapshot_id == update.snapshot_id
        case RemoveSnapshotRefUpdate():
            return update.ref_name not in metadata.refs
        case RemoveSnapshotsUpdate():
            return all(metadata.snapshot_by_id(snapshot_id) is None for snapshot_id in update.snapshot_ids)
        case SetPropertiesUpdate():
            return all(metadata.properties.get(key) == value for key, value in update.updates.items())
        case RemovePropertiesUpdate():
            return not any(key in metadata.properties for key in update.removals)
        case _:
            return False


def sequence_number_guards(
    metadata: TableMetadata, updates: tuple[TableUpdate, ...]
) -> tuple[AssertRefSnapshotId, ...]:
    """Return requirements which ensure that no commit to another branch takes a new snapshot's sequence number.

    Catalogs reject a snapshot with a used sequence number, except a snapshot without a parent, the first of a branch.
    """
    added = [update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)]
    if metadata.format_version == 1 or all(snapshot.parent_snapshot_id is not None for snapshot in added):
        return ()
    return tuple(AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in metadata.refs.items())


def sequence_number_taken(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> bool:
    """Whether a snapshot's sequence number has been used, so no catalog can add the snapshot any more."""
    added = [update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)]
    last = getattr(metadata, "last_sequence_number", 0)
    return metadata.format_version > 1 and any(
        snapshot.parent_snapshot_id is not None and (snapshot.sequence_number or 0) <= last for snapshot in added
    )
