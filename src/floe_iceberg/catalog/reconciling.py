"""Catalog wrapper that determines the outcome of calls after ambiguous replies.

A call that took effect may still get a conflict, a server error or no reply at all. PyIceberg then deletes the files of
the new snapshot, or reports a table as missing that it has just dropped. After an ambiguous reply, this wrapper reads
the catalog to check whether the call took effect.

Drops, renames, registrations and namespace changes also read the catalog before the call, because the state afterwards
is ambiguous on its own. A missing name may have been removed by this call or may never have existed; an existing table
may be the one to drop or a new one of another client; a 404 or 409 may refer to this call, sent twice by a proxy, or to
another client's call. A wrong conclusion would make the caller repeat a drop and lose another client's table, or take
over another client's namespace. These calls are rare, so one more read each is acceptable.

The wrapper works with any PyIceberg catalog; ``floe_iceberg.catalog.traits`` lists traits that a catalog may declare.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg import exceptions as pyiceberg_errors
from pyiceberg.catalog import Catalog, MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import AddSnapshotUpdate, AssertCreate

from floe_core.errors import ConfigurationError
from floe_core.observing.metrics import timed_commit
from floe_core.telemetry import traced
from floe_iceberg.catalog.clocks import with_monotonic_timestamps
from floe_iceberg.catalog.manifest_lists import ManifestLists
from floe_iceberg.catalog.outcomes import (
    DEFINITE,
    PATIENCE_SECONDS,
    OutcomeProbe,
    landed,
    sequence_number_guards,
    sequence_number_taken,
)
from floe_iceberg.catalog.traits import answers_once, clock_offset_of, reports_outcomes
from floe_iceberg.names import name_of
from floe_iceberg.pyiceberg_internals.catalogs import FileIOHook, file_io_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import CreateTableTransaction, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

T = TypeVar("T")

# Distinguishes a table created by this call from another client's table after a lost reply.
CREATION_ID_PROPERTY = "floe.creation-id"


class ReconcilingCatalog(FileIOHook):
    """Wraps any PyIceberg catalog; the tables that it returns commit through it.

    Attributes:
        inner: The wrapped catalog.
        manifest_lists: Cache of the manifest lists read and written through it.
    """

    def __init__(self, inner: Catalog, *, patience: float = PATIENCE_SECONDS) -> None:
        """Wrap a connected catalog.

        Args:
            inner: The catalog.
            patience: Seconds to wait for an unavailable catalog that has answered before.
        """
        self.name = inner.name
        self.properties = inner.properties
        self.inner = inner
        self._patience = patience
        self._answered = False
        self.manifest_lists = ManifestLists()

    @classmethod
    def around(cls, catalog: Catalog) -> ReconcilingCatalog:
        """Wrap a catalog unless it is already wrapped.

        Raises:
            ConfigurationError: The object is not a PyIceberg catalog.
        """
        if not isinstance(catalog, Catalog):
            msg = f"A table manager requires a PyIceberg catalog or a catalog plugin, not {type(catalog).__name__}."
            raise ConfigurationError(msg)
        return catalog if isinstance(catalog, cls) else cls(catalog)

    @property
    def clock_offset_ms(self) -> int:
        """Milliseconds by which the catalog's clock is ahead of this machine's clock; 0 if unknown."""
        return clock_offset_of(self.inner)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, and determine the outcome after an ambiguous reply.

        Raises:
            CommitFailedException: The commit did not land; another writer committed first.
            CommitStateUnknownException: It is unknown whether the commit landed.
        """
        name = name_of(table)
        added = next((update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)), None)
        with (
            traced("iceberg.commit_table", within=True, table=name, snapshot_id=added.snapshot_id if added else None),
            timed_commit(name, conflict=pyiceberg_errors.CommitFailedException),
        ):
            return self._commit(table, requirements, updates)

    def _commit(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        creates = any(isinstance(requirement, AssertCreate) for requirement in requirements)
        if reports_outcomes(self.inner) and not creates:
            try:
                return self.inner.commit_table(table, requirements, updates)
            except pyiceberg_errors.CommitStateUnknownException as err:
                return self._reconcile(table, updates, err)
        in_process = isinstance(self.inner, MetastoreCatalog) and not creates
        requirements = (*requirements, *sequence_number_guards(table.metadata, updates))
        try:
            return self.inner.commit_table(
                table, requirements, with_monotonic_timestamps(updates) if in_process else updates
            )
        except Exception as err:  # noqa: BLE001 - whatever went wrong, the table shows the outcome
            return self._reconcile(table, updates, err)

    def _reconcile(self, table: Table, updates: tuple[TableUpdate, ...], err: Exception) -> CommitTableResponse:
        probe = self._probe()
        name = name_of(table)
        for _ in probe:
            try:
                current = probe.read(lambda: self._load(table.name()))
            except pyiceberg_errors.NoSuchTableError:
                raise err from None
            except Exception:  # noqa: BLE001, S112 - an unreachable catalog is read again after the next pause
                continue
            if landed(current.metadata, updates):
                return self._confirmed(current, updates)
            if sequence_number_taken(current.metadata, updates):
                msg = f"A commit to another branch of {name} landed first"
                raise pyiceberg_errors.CommitFailedException(msg) from err
            if isinstance(err, DEFINITE) and not probe.recovered:
                raise err
        if probe.recovered and _adds_snapshot(updates):
            # The catalog restarted and does not show the commit. If it lands late, the branch that it asserts has
            # moved by then, or the next attempt finds it.
            msg = f"The catalog was unavailable during a commit to {name}"
            raise pyiceberg_errors.CommitFailedException(msg) from err
        if isinstance(err, DEFINITE) and not isinstance(err, pyiceberg_errors.CommitFailedException):
            raise err
        msg = f"It is unknown whether the commit to {name} landed"
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

    def _call_reconciled(
        self,
        call: Callable[[], T],
        read: Callable[[], T | None],
        *,
        conclusive: tuple[type[Exception], ...] = (),
        retry: bool = True,
    ) -> T:
        """Make a call; if it fails, check whether it still took effect.

        Args:
            call: The call.
            read: Reads the catalog; returns the result of the call if it took effect, else None.
            conclusive: Errors that are unambiguous.
            retry: Whether to repeat the call once if the catalog was unavailable and is responding again.
        """
        try:
            return call()
        except conclusive:
            raise
        except Exception as err:
            probe = self._probe()
            for _ in probe:
                try:
                    found = probe.read(read)
                except Exception:  # noqa: BLE001 - an unreachable catalog is read again after the next pause
                    found = None
                if found is not None:
                    return found
                if isinstance(err, DEFINITE):
                    break
            if probe.recovered and retry:
                return self._call_reconciled(call, read, conclusive=conclusive, retry=False)
            raise

    def _probe(self) -> OutcomeProbe:
        # Only wait for a catalog that has answered before; one that never answered is probably down, not restarting.
        return OutcomeProbe(patience=self._patience if self._answered else 0.0)

    def _read_when_available(self, read: Callable[[], T]) -> T:
        """Read; wait while a catalog that has answered before is unavailable."""
        found = self._probe().read(read)
        self._answered = True
        return found

    def _bind(self, table: Table) -> Table:
        table.catalog = self
        return table

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table; wait for a catalog that is restarting."""
        return self._read_when_available(lambda: self._load(identifier))

    def _load(self, identifier: str | Identifier) -> Table:
        return self._bind(self.inner.load_table(identifier))

    def _uuid_of(self, identifier: str | Identifier) -> uuid.UUID | None:
        """Return the UUID of a table; None if it does not exist or is unreadable."""
        try:
            return self.load_table(identifier).metadata.table_uuid
        except Exception:  # noqa: BLE001 - a damaged table can still be dropped and renamed
            return None

    def create_table(  # noqa: PLR0913, PLR0917 - PyIceberg's signature
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties | None = None,
    ) -> Table:
        """Create a table, and check after an ambiguous reply whether this call created it.

        Raises:
            TableAlreadyExistsError: Another client's table has the name.
        """
        creation = uuid.uuid4().hex
        marked = {**(properties or {}), CREATION_ID_PROPERTY: creation}

        def created() -> Table | None:
            try:
                current = self._load(identifier)
            except pyiceberg_errors.NoSuchTableError:
                return None
            if current.properties.get(CREATION_ID_PROPERTY) == creation:
                return current
            taken.append(".".join(Catalog.identifier_to_tuple(identifier)))
            return None

        taken: list[str] = []
        try:
            table = self._call_reconciled(
                lambda: self.inner.create_table(identifier, schema, location, partition_spec, sort_order, marked),
                created,
            )
        except pyiceberg_errors.TableAlreadyExistsError:
            raise
        except Exception as err:
            if taken:
                msg = f"Table {taken[0]} already exists"
                raise pyiceberg_errors.TableAlreadyExistsError(msg) from err
            raise
        return self._bind(table)

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        *args: Any,  # noqa: ANN401 - passed through unchanged
        **options: Any,  # noqa: ANN401 - passed through unchanged
    ) -> CreateTableTransaction:
        """Start a transaction that creates a table."""
        return self.inner.create_table_transaction(identifier, *args, **options)

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Register a table from its metadata file.

        Raises:
            TableAlreadyExistsError: Another client's table has the name.
        """
        # Not every PyIceberg catalog supports the third argument.
        options = {"overwrite": True} if overwrite else {}
        taken = not overwrite and self.table_exists(identifier)

        def registered() -> Table | None:
            current = None if taken else self._load(identifier)
            return current if current is not None and _descends_from(current, metadata_location) else None

        return self._bind(
            self._call_reconciled(
                lambda: self.inner.register_table(identifier, metadata_location, **options), registered
            )
        )

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Rename a table.

        Raises:
            NoSuchTableError: The table does not exist.
            TableAlreadyExistsError: Another client's table has the new name.
        """
        ours = self._uuid_of(from_identifier)

        def renamed() -> Table | None:
            current = self._load(to_identifier)
            return current if ours is not None and current.metadata.table_uuid == ours else None

        return self._bind(
            self._call_reconciled(lambda: self.inner.rename_table(from_identifier, to_identifier), renamed)
        )

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Whether a table exists, even if its metadata is unreadable."""
        return self._read_when_available(lambda: self._exists(identifier))

    def _exists(self, identifier: str | Identifier) -> bool:
        try:
            return self.inner.table_exists(identifier)
        except (ValueError, TypeError):
            # The client parses the metadata for this check: the table exists, but PyIceberg cannot parse it.
            return True

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drop a table.

        Raises:
            NoSuchTableError: The table does not exist.
        """
        self._call_reconciled(lambda: _done(self.inner.drop_table(identifier)), self._drop_check(identifier))

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop a table and its files.

        Raises:
            NoSuchTableError: The table does not exist.
        """
        self._call_reconciled(lambda: _done(self.inner.purge_table(identifier)), self._drop_check(identifier))

    def _may_exist(self, identifier: str | Identifier) -> bool:
        """Whether a table exists, or is so damaged that the catalog fails to respond."""
        try:
            return self.table_exists(identifier)
        except Exception:  # noqa: BLE001 - only a table that exists can be damaged
            return True

    def _drop_check(self, identifier: str | Identifier) -> Callable[[], bool | None]:
        """Return a function that checks later whether the current table of a name has been dropped."""
        ours = self._uuid_of(identifier)
        existed = ours is not None or self._may_exist(identifier)

        def dropped() -> bool | None:
            try:
                current = self._load(identifier).metadata.table_uuid
            except pyiceberg_errors.NoSuchTableError:
                return True if existed else None
            # A new table of the same name belongs to another client and stays.
            return True if ours is not None and current != ours else None

        return dropped

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List the tables of a namespace."""
        return self._read_when_available(lambda: self.inner.list_tables(namespace))

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Whether a namespace exists."""
        return self._read_when_available(lambda: self.inner.namespace_exists(namespace))

    def create_namespace(self, namespace: str | Identifier, properties: Properties | None = None) -> None:
        """Create a namespace.

        Raises:
            NamespaceAlreadyExistsError: The namespace existed before this call.
        """
        existed = self.namespace_exists(namespace)

        def created() -> bool | None:
            if existed or not self.inner.namespace_exists(namespace):
                return None
            current = self.inner.load_namespace_properties(namespace) if properties else {}
            return True if all(current.get(key) == value for key, value in (properties or {}).items()) else None

        conclusive = (pyiceberg_errors.NamespaceAlreadyExistsError,) if answers_once(self.inner) else ()
        self._call_reconciled(
            lambda: _done(self.inner.create_namespace(namespace, properties or {})), created, conclusive=conclusive
        )

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Drop a namespace.

        Raises:
            NoSuchNamespaceError: The namespace does not exist.
            NamespaceNotEmptyError: The namespace contains tables, views or namespaces.
        """
        existed = self.namespace_exists(namespace)

        def dropped() -> bool | None:
            return True if existed and not self.inner.namespace_exists(namespace) else None

        self._call_reconciled(lambda: _done(self.inner.drop_namespace(namespace)), dropped)

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """List namespaces."""
        return self._read_when_available(lambda: self.inner.list_namespaces(namespace))

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Load a namespace's properties."""
        return self._read_when_available(lambda: self.inner.load_namespace_properties(namespace))

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties | None = None
    ) -> PropertiesUpdateSummary:
        """Update a namespace's properties.

        Raises:
            NoSuchNamespaceError: The namespace does not exist.
        """
        removed, changed = removals or set(), updates or {}

        def updated() -> PropertiesUpdateSummary | None:
            current = self.inner.load_namespace_properties(namespace)
            if removed & current.keys() or any(current.get(key) != value for key, value in changed.items()):
                return None
            return PropertiesUpdateSummary(removed=sorted(removed), updated=sorted(changed), missing=[])

        return self._call_reconciled(
            lambda: self.inner.update_namespace_properties(namespace, removals, changed), updated
        )

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """List views."""
        return self.inner.list_views(namespace)

    def load_view(self, identifier: str | Identifier) -> Any:  # noqa: ANN401 - passed through unchanged
        """Load a view."""
        return self.inner.load_view(identifier)

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Whether a view exists."""
        return self.inner.view_exists(identifier)

    def create_view(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed through unchanged
        """Create a view."""
        return self.inner.create_view(*args, **options)

    def register_view(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed through unchanged
        """Register a view."""
        return self.inner.register_view(*args, **options)

    def drop_view(self, identifier: str | Identifier) -> None:
        """Drop a view."""
        self.inner.drop_view(identifier)

    def supports_server_side_planning(self) -> bool:
        """Whether the server plans scans."""
        return self.inner.supports_server_side_planning()

    def close(self) -> None:
        """Close the wrapped catalog."""
        self.inner.close()

    def open_file_io(self, properties: Properties, location: str | None) -> FileIO:
        """Return the wrapped catalog's FileIO."""
        return file_io_of(self.inner, location, properties)


def _done(nothing: None) -> bool:
    """Convert the None of a call without a result to True."""
    return nothing is None


def _adds_snapshot(updates: tuple[TableUpdate, ...]) -> bool:
    return any(isinstance(update, AddSnapshotUpdate) for update in updates)


def _descends_from(table: Table, metadata_location: str) -> bool:
    """Whether a table was registered from a metadata file, even if it has changed since."""
    known = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    return metadata_location in known
