"""Fast loads and commits on PyIceberg's SQL catalog.

PyIceberg's own commit reads, copies and validates the whole history several times, so each append costs more than the
last. Metadata files never change once written: what this process read or wrote is kept, the catalog row says whether
it is still current, and one compare-and-swap on that row is the commit.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import MetadataLogEntry, SnapshotLogEntry
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)
from sqlalchemy import select, update

from floe_iceberg.catalog.clocks import clocked, earliest_moment
from floe_iceberg.catalog.locations import location_provider

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier
    from sqlalchemy import ColumnElement, Connection

_KEPT_TABLES = 64
_KEPT_METADATA_FILES = 100
_PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
_INDEXES = tuple(name for name, value in vars(Schema).items() if isinstance(value, cached_property))


# SQLite's codes for a transaction that is still open, and is rolled back: nothing of it can land.
_BUSY = frozenset({5, 6})
_FULL = 13


def sql_metastore(catalog: Catalog) -> SqlMetastore | None:
    """Return the fast path for PyIceberg's SQL catalog, None for any other."""
    return SqlMetastore(catalog) if isinstance(catalog, SqlCatalog) else None


@dataclass(frozen=True, slots=True)
class _Known:
    """The last version of a table that was read or written; older ones would keep every snapshot that expired.

    Attributes:
        location: Its metadata file.
        metadata: What that holds.
        texts: Its snapshots as JSON, where they were rendered.
    """

    location: str
    metadata: TableMetadata
    texts: dict[int, tuple[Snapshot, str]] = field(default_factory=dict)


class SqlMetastore:
    """Loads tables from, and commits them to, the rows of a SQL catalog."""

    def __init__(self, catalog: SqlCatalog) -> None:
        """Speak to the catalog's own database."""
        self._catalog = catalog
        self._known: OrderedDict[Identifier, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, identifier: Identifier) -> Table:
        """Load a table, reading its metadata file only when it is not the one known already.

        Raises:
            NoSuchTableError: There is no such row.
        """
        location = self._location(identifier)
        metadata = self._metadata(identifier, location)
        return Table(
            identifier=identifier,
            metadata=metadata,
            metadata_location=location,
            io=self._io(location),
            catalog=self._catalog,
        )

    def exists(self, identifier: Identifier) -> bool:
        """Tell whether there is a row of that name, whatever its metadata file holds."""
        try:
            self._location(identifier)
        except NoSuchTableError:
            return False
        return True

    def commit(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Apply updates to the table as it is now and swap the row, once.

        Raises:
            CommitFailedException: A requirement does not hold, or another writer swapped the row first.
            CommitStateUnknownException: The answer to the swap was lost; after any other error nothing has changed.
        """
        name = table.name()
        base_location = self._location(name)
        base = table.metadata if base_location == table.metadata_location else self._metadata(name, base_location)
        for requirement in requirements:
            requirement.validate(base)
        changed = _with_snapshot(base, base_location, updates)
        if changed is None:
            _require_new_numbers(base, updates)
            try:
                changed = update_table_metadata(base, clocked(updates), metadata_location=base_location)
            except (ValueError, KeyError) as err:
                if base is table.metadata:
                    raise
                # The updates were made for another state of the table, such as one with snapshots that are gone.
                msg = f"Table has been changed by another process: {'.'.join(name)}"
                raise CommitFailedException(msg) from err
            if changed == base:
                return CommitTableResponse(metadata=base, metadata_location=base_location)
        provider = location_provider(changed)
        location = provider.new_table_metadata_file_location(_version(base_location) + 1)
        io = self._io(location)
        try:
            texts = self._write(name, changed, io, location)
            self._swap(name, base_location, location)
        except CommitStateUnknownException:
            raise
        except Exception:
            # Nothing refers to the file, and nothing ever will.
            with contextlib.suppress(Exception):
                io.delete(location)
            raise
        self._keep(name, _Known(location, changed, texts))
        return CommitTableResponse(metadata=changed, metadata_location=location)

    def _location(self, identifier: Identifier) -> str:
        with self._catalog.engine.connect() as connection:
            row = connection.execute(select(IcebergTables.metadata_location).where(*self._row(identifier))).first()
        if row is None or not row[0]:
            msg = f"Table does not exist: {'.'.join(identifier)}"
            raise NoSuchTableError(msg)
        return str(row[0])

    def _row(self, identifier: Identifier) -> list[ColumnElement[bool]]:
        row: list[ColumnElement[bool]] = [
            IcebergTables.catalog_name == self._catalog.name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(Catalog.namespace_from(identifier)),
            IcebergTables.table_name == Catalog.table_name_from(identifier),
        ]
        # Views of other engines live in the same rows.
        tables_only = self._catalog._iceberg_type_filter()  # noqa: SLF001 - the catalog knows its own schema version
        return row if tables_only is None else [*row, tables_only]

    def _swap(self, identifier: Identifier, base_location: str, location: str) -> None:
        statement = (
            update(IcebergTables)
            .where(*self._row(identifier), IcebergTables.metadata_location == base_location)
            .values(metadata_location=location, previous_metadata_location=base_location)
        )
        name = ".".join(identifier)
        try:
            with self._catalog.engine.connect() as connection:
                swapped = connection.execute(statement).rowcount
                if swapped:
                    _commit(connection, name)
        except CommitStateUnknownException:
            raise
        except Exception as err:
            if _sqlite_code(err) in _BUSY:
                msg = f"The catalog's database is busy: {name}"
                raise CommitFailedException(msg) from err
            raise
        if swapped < 1:
            msg = f"Table has been updated by another process: {name}"
            raise CommitFailedException(msg)

    def _metadata(self, identifier: Identifier, location: str) -> TableMetadata:
        with self._lock:
            known = self._known.get(identifier)
            if known is not None and known.location == location:
                self._known.move_to_end(identifier)
                return known.metadata
        io = self._io(location)
        metadata = FromInputFile.table_metadata(io.new_input(location))
        self._keep(identifier, _Known(location, metadata))
        return metadata

    def _keep(self, identifier: Identifier, known: _Known) -> None:
        _complete(known.metadata)
        with self._lock:
            self._known[identifier] = known
            self._known.move_to_end(identifier)
            while len(self._known) > _KEPT_TABLES:
                self._known.popitem(last=False)

    def _io(self, location: str) -> FileIO:
        # Not as PyIceberg does it: a table's properties are no settings of the client.
        return load_file_io(self._catalog.properties, location)

    def _write(
        self, identifier: Identifier, metadata: TableMetadata, io: FileIO, location: str
    ) -> dict[int, tuple[Snapshot, str]]:
        """Write a metadata file; return the texts of its snapshots for the next one."""
        if not isinstance(metadata, TableMetadataV2):
            ToOutputFile.table_metadata(metadata, io.new_output(location))
            return {}
        texts = self._texts(identifier, metadata)
        frame = metadata.model_copy(update={"snapshots": []}).model_dump_json(exclude_none=True)
        # An unescaped quote ends a JSON string, so this text is the field itself and never part of a value.
        snapshots = f'"snapshots":[{",".join(text for _, text in texts.values())}]'
        with io.new_output(location).create() as stream:
            stream.write(frame.replace('"snapshots":[]', snapshots, 1).encode())
        return texts

    def _texts(self, identifier: Identifier, metadata: TableMetadata) -> dict[int, tuple[Snapshot, str]]:
        """Render snapshots as JSON, but for those that the last version has as they are."""
        with self._lock:
            last = self._known.get(identifier)
        known = last.texts if last is not None else {}
        texts = {}
        for snapshot in metadata.snapshots:
            found = known.get(snapshot.snapshot_id)
            if found is None or found[0] is not snapshot:
                found = (snapshot, snapshot.model_dump_json(exclude_none=True))
            texts[snapshot.snapshot_id] = found
        return texts


def _complete(metadata: TableMetadata) -> None:
    """Make the indexes that schemas make when first asked: threads share them, and one may copy what another fills."""
    for schema in metadata.schemas:
        for name in _INDEXES:
            getattr(schema, name)


def _commit(connection: Connection, name: str) -> None:
    try:
        connection.commit()
    except Exception as err:
        # SQLAlchemy gives the connection back to the pool with the transaction still open; its next user would
        # commit it.
        connection.invalidate()
        if _sqlite_code(err) in {*_BUSY, _FULL}:
            raise
        msg = f"The database gave no answer to the commit of {name}"
        raise CommitStateUnknownException(msg) from err


def _sqlite_code(err: BaseException | None) -> int | None:
    """Return SQLite's primary error code, whoever wrapped the error."""
    while err is not None:
        code = getattr(err, "sqlite_errorcode", None)
        if code is not None:
            return int(code) & 0xFF
        err = getattr(err, "orig", None) or err.__cause__
    return None


def _require_new_numbers(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> None:
    """Refuse snapshots whose sequence numbers are taken, by a commit to another branch.

    PyIceberg lets a snapshot without a parent have any number.
    """
    if isinstance(base, TableMetadataV1):
        return
    for change in updates:
        if isinstance(change, AddSnapshotUpdate):
            number, last = change.snapshot.sequence_number or 0, base.last_sequence_number
            if number <= last:
                msg = f"Sequence number {number} is taken; the last is {last}"
                raise CommitFailedException(msg)


def _version(location: str) -> int:
    name = location.rsplit("/", 1)[-1]
    version = name.split("-", 1)[0]
    return int(version) if version.isdigit() else -1


def _with_snapshot(base: TableMetadata, location: str, updates: tuple[TableUpdate, ...]) -> TableMetadata | None:
    """Add one snapshot to a branch without copying the history; None when the updates are anything else."""
    match updates:
        case (AddSnapshotUpdate() as added, SetSnapshotRefUpdate() as moved) if (
            isinstance(base, TableMetadataV2)
            and moved.snapshot_id == added.snapshot.snapshot_id
            and (added.snapshot.sequence_number or 0) > base.last_sequence_number
        ):
            pass
        case _:
            return None
    snapshot = added.snapshot
    ref = SnapshotRef(
        snapshot_id=moved.snapshot_id,
        snapshot_ref_type=moved.type,
        min_snapshots_to_keep=moved.min_snapshots_to_keep,
        max_snapshot_age_ms=moved.max_snapshot_age_ms,
        max_ref_age_ms=moved.max_ref_age_ms,
    )
    keep = max(1, int(base.properties.get(_PREVIOUS_VERSIONS, _KEPT_METADATA_FILES)))
    log = [*base.metadata_log, MetadataLogEntry(metadata_file=location, timestamp_ms=base.last_updated_ms)][-keep:]
    # Somebody may have changed the table's metadata alone since the snapshot was written.
    moment = max(snapshot.timestamp_ms, earliest_moment(base))
    changes: dict[str, Any] = {
        "snapshots": [*base.snapshots, snapshot],
        "last_sequence_number": snapshot.sequence_number,
        "last_updated_ms": moment,
        "refs": {**base.refs, moved.ref_name: ref},
        "metadata_log": log,
    }
    if moved.ref_name == MAIN_BRANCH:
        entry = SnapshotLogEntry(snapshot_id=snapshot.snapshot_id, timestamp_ms=moment)
        changes |= {"current_snapshot_id": snapshot.snapshot_id, "snapshot_log": [*base.snapshot_log, entry]}
    return base.model_copy(update=changes)
