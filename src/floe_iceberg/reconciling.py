"""A catalog whose commits never lie about their outcome.

A commit that landed can still be answered with a conflict, a server error or silence. PyIceberg then deletes the
files the new snapshot refers to. This wrapper looks before it believes: the list of updates says what the table would
hold, so after a doubtful answer the table is loaded and asked.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from pyiceberg import exceptions as pyiceberg_errors
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CircuitOpenError,
    ConfigurationError,
    RateLimitedError,
)
from floe_iceberg.manifest_lists import ManifestLists
from floe_iceberg.metastore import SqlMetastore, sql_metastore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import CreateTableTransaction, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

# The server said no, or was never asked: once the table shows nothing of the commit, there is nothing to wait for.
_DEFINITE = (
    pyiceberg_errors.CommitFailedException,
    pyiceberg_errors.ValidationException,
    pyiceberg_errors.ValidationError,
    pyiceberg_errors.TableAlreadyExistsError,
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
    RateLimitedError,
    NotImplementedError,
    TypeError,
)
# Tells a creation of ours from somebody else's when the answer was lost.
CREATION_ID_PROPERTY = "floe.creation-id"
# A reply can be lost while the server still works; these are the pauses before each look.
_LOOKS = (0.0, 0.2, 0.8)


def landed(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> bool:
    """Whether a table already holds what a list of updates asks for."""
    if snapshots := [update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)]:
        return all(metadata.snapshot_by_id(snapshot.snapshot_id) is not None for snapshot in snapshots)
    if created := [update for update in updates if isinstance(update, AssignUUIDUpdate)]:
        return all(update.uuid == metadata.table_uuid for update in created)
    return bool(updates) and all(_holds(metadata, update) for update in updates)


def _holds(metadata: TableMetadata, update: TableUpdate) -> bool:  # noqa: PLR0911 - one answer a kind of update
    match update:
        case AddSchemaUpdate():
            return any(schema == update.schema_ for schema in metadata.schemas)
        case SetCurrentSchemaUpdate():
            newest = max(schema.schema_id for schema in metadata.schemas)
            return metadata.current_schema_id == (newest if update.schema_id == -1 else update.schema_id)
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


def _overtaken(metadata: TableMetadata, updates: tuple[TableUpdate, ...]) -> bool:
    """Whether a snapshot's sequence number is taken, so that no catalog can add it any more."""
    added = [update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)]
    last = getattr(metadata, "last_sequence_number", 0)
    return metadata.format_version > 1 and any(
        snapshot.parent_snapshot_id is not None and (snapshot.sequence_number or 0) <= last for snapshot in added
    )


class ReconcilingCatalog(Catalog):
    """Wraps any PyIceberg catalog; the tables it hands out commit through it.

    Attributes:
        inner: The wrapped catalog.
        manifest_lists: The manifest lists read and written through it.
    """

    def __init__(self, inner: Catalog, *, looks: tuple[float, ...] = _LOOKS) -> None:
        """Wrap a connected catalog."""
        self.name = inner.name
        self.properties = inner.properties
        self.inner = inner
        self._looks = looks
        self._sql = sql_metastore(inner)
        self.manifest_lists = ManifestLists()

    @classmethod
    def around(cls, catalog: Catalog) -> ReconcilingCatalog:
        """Return the catalog wrapped, once."""
        return catalog if isinstance(catalog, cls) else cls(catalog)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, and find out what happened when the answer leaves doubt.

        Raises:
            CommitFailedException: The commit did not land; another writer was first.
            CommitStateUnknownException: Nobody can tell whether the commit landed.
        """
        try:
            if (metastore := self._metastore) is not None:
                return metastore.commit(table, requirements, updates)
            return self.inner.commit_table(table, requirements, updates)
        except Exception as err:  # noqa: BLE001 - whatever went wrong, the table itself knows the outcome
            return self._reconcile(table, updates, err)

    def _reconcile(self, table: Table, updates: tuple[TableUpdate, ...], err: Exception) -> CommitTableResponse:
        for pause in self._looks:
            time.sleep(pause)
            try:
                current = self.load_table(table.name())
            except pyiceberg_errors.NoSuchTableError:
                raise err from None
            except Exception:  # noqa: BLE001, S112 - an unreachable catalog is asked again after the next pause
                continue
            if landed(current.metadata, updates):
                return self._confirmed(current, updates)
            if _overtaken(current.metadata, updates):
                msg = f"A commit to another branch of {'.'.join(table.name())} was first"
                raise pyiceberg_errors.CommitFailedException(msg) from err
            if isinstance(err, _DEFINITE):
                raise err
        if isinstance(err, _DEFINITE) and not isinstance(err, pyiceberg_errors.CommitFailedException):
            raise err
        msg = f"No answer tells whether the commit to {'.'.join(table.name())} landed"
        raise pyiceberg_errors.CommitStateUnknownException(msg) from err

    @staticmethod
    def _confirmed(current: Table, updates: tuple[TableUpdate, ...]) -> CommitTableResponse:
        for update in updates:
            if isinstance(update, AddSnapshotUpdate):
                try:
                    update.snapshot.manifests(current.io)
                except Exception as unreadable:
                    msg = f"Snapshot {update.snapshot.snapshot_id} landed but its manifest list cannot be read"
                    raise pyiceberg_errors.CommitStateUnknownException(msg) from unreadable
        return CommitTableResponse(metadata=current.metadata, metadata_location=current.metadata_location)

    @property
    def _metastore(self) -> SqlMetastore | None:
        return self._sql if self._sql is not None and self._sql.untouched else None

    def _own(self, table: Table) -> Table:
        table.catalog = self
        return table

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table."""
        if (metastore := self._metastore) is not None:
            return self._own(metastore.load(Catalog.identifier_to_tuple(identifier)))
        return self._own(self.inner.load_table(identifier))

    def create_table(  # noqa: PLR0913, PLR0917 - PyIceberg's signature
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties | None = None,
    ) -> Table:
        """Create a table, and find out whether it was this call's doing when the answer leaves doubt.

        Raises:
            TableAlreadyExistsError: Somebody else's table is there.
        """
        creation = uuid.uuid4().hex
        marked = {**(properties or {}), CREATION_ID_PROPERTY: creation}
        try:
            table = self.inner.create_table(identifier, schema, location, partition_spec, sort_order, marked)
        except Exception as err:  # noqa: BLE001 - whatever went wrong, the table itself knows whose it is
            table = self._find_created(identifier, creation, err)
        return self._own(table)

    def _find_created(self, identifier: str | Identifier, creation: str, err: Exception) -> Table:
        for pause in self._looks:
            time.sleep(pause)
            try:
                current = self.load_table(identifier)
            except pyiceberg_errors.NoSuchTableError:
                if isinstance(err, _DEFINITE):
                    raise err from None
            except Exception:  # noqa: BLE001 - an unreachable catalog is asked again after the next pause
                if isinstance(err, _DEFINITE):
                    raise err from None
            else:
                if current.properties.get(CREATION_ID_PROPERTY) == creation:
                    return current
                if isinstance(err, pyiceberg_errors.TableAlreadyExistsError):
                    raise err
                msg = f"Table {'.'.join(Catalog.identifier_to_tuple(identifier))} already exists"
                raise pyiceberg_errors.TableAlreadyExistsError(msg) from err
        raise err

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        *args: Any,  # noqa: ANN401 - passed on as it is
        **options: Any,  # noqa: ANN401 - passed on as it is
    ) -> CreateTableTransaction:
        """Begin to create a table."""
        return self.inner.create_table_transaction(identifier, *args, **options)

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Register a table by its metadata file."""
        # REST catalogs of PyIceberg take no third argument.
        options = {"overwrite": True} if overwrite else {}
        return self._own(self.inner.register_table(identifier, metadata_location, **options))

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Rename a table."""
        return self._own(self.inner.rename_table(from_identifier, to_identifier))

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Tell whether a table exists."""
        return self.inner.table_exists(identifier)

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drop a table."""
        self.inner.drop_table(identifier)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop a table and its files."""
        self.inner.purge_table(identifier)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List the tables of a namespace."""
        return self.inner.list_tables(namespace)

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Tell whether a namespace exists."""
        return self.inner.namespace_exists(namespace)

    def create_namespace(self, namespace: str | Identifier, properties: Properties | None = None) -> None:
        """Create a namespace."""
        self.inner.create_namespace(namespace, properties or {})

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Drop a namespace."""
        self.inner.drop_namespace(namespace)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """List namespaces."""
        return self.inner.list_namespaces(namespace)

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Load a namespace's properties."""
        return self.inner.load_namespace_properties(namespace)

    def update_namespace_properties(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on as it is
        """Update a namespace's properties."""
        return self.inner.update_namespace_properties(*args, **options)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """List views."""
        return self.inner.list_views(namespace)

    def load_view(self, identifier: str | Identifier) -> Any:  # noqa: ANN401 - passed on as it is
        """Load a view."""
        return self.inner.load_view(identifier)

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Tell whether a view exists."""
        return self.inner.view_exists(identifier)

    def create_view(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on as it is
        """Create a view."""
        return self.inner.create_view(*args, **options)

    def register_view(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on as it is
        """Register a view."""
        return self.inner.register_view(*args, **options)

    def drop_view(self, identifier: str | Identifier) -> None:
        """Drop a view."""
        self.inner.drop_view(identifier)

    def supports_server_side_planning(self) -> bool:
        """Tell whether the server plans scans."""
        return self.inner.supports_server_side_planning()

    def close(self) -> None:
        """Close the wrapped catalog."""
        self.inner.close()

    def _load_file_io(self, properties: Properties | None = None, location: str | None = None) -> FileIO:
        return self.inner._load_file_io(properties or {}, location)  # noqa: SLF001 - the hook PyIceberg's tables call
