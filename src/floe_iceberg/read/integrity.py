"""Integrity checks that detect damaged and missing files before they can truncate a result."""

from __future__ import annotations

import re
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, ValidationError
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import FileScanTask, ManifestGroupPlanner
from pyiceberg.table.delete_file_index import DeleteFileIndex
from pyiceberg.typedef import Record

from floe_core.errors import (
    CapabilityError,
    CorruptFileError,
    FloeStorageError,
    ScanError,
    StorageAuthenticationError,
    StorageError,
)
from floe_core.observing.redaction import redact_text
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.context import identifier_of
from floe_iceberg.errors import storage_error
from floe_iceberg.formats.partitioning import record_key
from floe_iceberg.names import name_of
from floe_iceberg.pyiceberg_internals.catalogs import file_io_of
from floe_iceberg.read.capabilities import require_known_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.models import TableIdentifier
    from floe_iceberg.read.predicates import RowPredicate

_MAGIC = b"Obj\x01"
_MARKER_BYTES = 16
# Arrow uses the same exception class for damaged files and unreachable stores; only the message differs.
_UNREACHABLE = re.compile(
    r"AWS Error|curlCode|\btime(?:d ?out|out)\b|\bconnect(?:ion|ing)?\b|google::cloud|Azure::|HTTP (?:status )?5\d\d",
    re.IGNORECASE,
)
_RESTORE_HINT = (
    "Restore the file from a backup, or roll the table back to a snapshot that does not need it; "
    "'floe tables snapshots' lists them."
)


class CheckedIO(FileIO):
    """FileIO that reads the Avro files of a snapshot and rejects truncated ones.

    Manifests are written in small blocks, so a manifest that is truncated between two blocks would read as a shorter
    list; and PyIceberg's decoder does not detect reads past the end.
    """

    def __init__(self, io: FileIO, lengths: Mapping[str, int | None], table: str) -> None:
        """Wrap a FileIO; ``lengths`` maps the Avro files' locations to their sizes, if the table records them."""
        super().__init__(io.properties)
        self._io = io
        self._lengths = lengths
        self._table = table

    def new_input(self, location: str) -> InputFile:
        """Open a location for reading; Avro files are checked."""
        opened = self._io.new_input(location)
        if location not in self._lengths:
            return opened
        return _CheckedInput(opened, self._lengths[location], self._table)

    def new_output(self, location: str) -> OutputFile:
        """Open a location for writing."""
        return self._io.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a location."""
        self._io.delete(location)


class _CheckedInput(InputFile):
    """An Avro file that must be complete."""

    def __init__(self, wrapped: InputFile, expected: int | None, table: str) -> None:
        super().__init__(wrapped.location)
        self._wrapped = wrapped
        self._expected = expected
        self._table = table

    def __len__(self) -> int:
        return len(self._wrapped)

    def exists(self) -> bool:
        return self._wrapped.exists()

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's signature
        with self._wrapped.open(seekable) as stream:
            content = stream.read()
        if self._expected is not None and len(content) != self._expected:
            raise wrong_length(self.location, expected=self._expected, actual=len(content), table=self._table)
        if not _is_complete(content):
            msg = f"'{self.location}' of table '{self._table}' is damaged: it is not a complete Avro file."
            raise CorruptFileError(msg, path=self.location, hint=_RESTORE_HINT, table=self._table)
        return BytesIO(content)


def _is_complete(content: bytes) -> bool:
    """Whether an Avro file ends with a complete block, which ends with the sync marker from the header."""
    try:
        position = _after_header(content)
    except IndexError:
        return False
    marker = content[position : position + _MARKER_BYTES]
    return content.startswith(_MAGIC) and len(marker) == _MARKER_BYTES and content.endswith(marker)


def _after_header(content: bytes) -> int:
    position = len(_MAGIC)
    while True:
        count, position = _varint(content, position)
        if count == 0:
            return position
        if count < 0:
            count, (_, position) = -count, _varint(content, position)
        for _ in range(2 * count):
            size, position = _varint(content, position)
            position += size
            if size < 0 or position > len(content):
                raise IndexError


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the highest bit marks a continuation
            return (value >> 1) ^ -(value & 1), position


def _recovery_hint(path: str, table: str) -> str:
    if not path.endswith((".metadata.json", ".metadata.json.gz")):
        return _RESTORE_HINT
    # Without its metadata, a table has no snapshots to roll back to.
    return f"Repair it with: floe tables register {table} --replace; or drop it with: floe tables drop {table}."


def wrong_length(path: str, *, expected: int, actual: int, table: str) -> CorruptFileError:
    """Return the error for a file whose size differs from the table's metadata."""
    msg = f"'{path}' of table '{table}' is damaged: it has {actual} bytes, but the table expects {expected}."
    return CorruptFileError(msg, path=path, hint=_RESTORE_HINT, table=table)


def unreadable(path: str, *, table: str, err: Exception) -> FloeStorageError:
    """Return the error for a file that could not be read: missing, damaged or unreachable."""
    if isinstance(err, FloeStorageError):
        return err
    if isinstance(err, FileNotFoundError):
        return CorruptFileError(
            f"'{path}' of table '{table}' is missing.", path=path, hint=_recovery_hint(path, table), table=table
        )
    if isinstance(err, PermissionError):
        hint = "Check the storage credentials and the file's permissions."
        return StorageError(f"Access to '{path}' of table '{table}' was denied.", hint=hint, table=table)
    if isinstance(err, OSError) and isinstance(denied := storage_error(err, table=table), StorageAuthenticationError):
        return denied
    if isinstance(err, OSError) and _UNREACHABLE.search(str(err)):
        msg = f"'{path}' of table '{table}' could not be read: {redact_text(str(err))}"
        return StorageError(msg, hint="The store failed or is unreachable. Try again.", table=table)
    return CorruptFileError(
        f"'{path}' of table '{table}' is damaged.", path=path, hint=_recovery_hint(path, table), table=table
    )


def load_table(context: ManagerContext, target: TableTarget, *, within: bool = True) -> Table:
    """Load the current version of a table; the error for a damaged metadata file names the file.

    Args:
        context: The manager's context.
        target: The table.
        within: Whether this load is part of another operation, which has its own span.

    Raises:
        TableNotFoundError: The table does not exist; the error lists the existing tables.
        CorruptFileError: The table's metadata file is damaged or missing.
    """
    identifier = identifier_of(target)
    with context.operation("iceberg.load_table", identifier, within=within) as operation:
        try:
            with context.naming(identifier):
                return context.loaded(operation, identifier)
        except (ValueError, OSError, EOFError, ValidationError, StorageError):
            _probe_metadata(context.catalog, identifier)
            raise


def find_table(context: ManagerContext, target: TableTarget) -> Table | None:
    """Load the current version of a table, or return None if it does not exist, with a single catalog call.

    Raises:
        CorruptFileError: The table's metadata file is damaged or missing.
    """
    identifier = identifier_of(target)
    with context.operation("iceberg.load_table", identifier) as operation:
        try:
            return context.loaded(operation, identifier, expected=False)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except (ValueError, OSError, EOFError, ValidationError, StorageError):
            _probe_metadata(context.catalog, identifier)
            raise


def _probe_metadata(catalog: Catalog, identifier: TableIdentifier) -> None:
    path = metadata_location(catalog, identifier)
    if path is None:
        return
    try:
        FromInputFile.table_metadata(file_io_of(catalog, path).new_input(path))
    except Exception as err:
        raise unreadable(path, table=str(identifier), err=err) from err


def metadata_location(catalog: Catalog, identifier: TableIdentifier) -> str | None:
    """Return the location of a table's metadata file without reading it; None if only the server knows it."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    catalog = catalog.inner if isinstance(catalog, ReconcilingCatalog) else catalog
    # A REST server reads the metadata itself; only with an embedded catalog does the client read it.
    if not isinstance(catalog, SqlCatalog):
        return None
    query = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == identifier.namespace,
        IcebergTables.table_name == identifier.name,
    )
    with Session(catalog.engine) as session:
        return session.scalar(query)


def manifests_of(table: Table, snapshot: Snapshot | None, *, to_read: bool = True) -> list[ManifestFile]:
    """Read the manifest list of a snapshot; ``to_read`` if the caller will also read the manifests.

    Raises:
        CorruptFileError: The manifest list is damaged or missing.
        CapabilityError: floe cannot read the manifests in process.
    """
    if snapshot is None:
        return []
    try:
        found = snapshot.manifests(CheckedIO(table.io, {snapshot.manifest_list: None}, name_of(table)))
    except Exception as err:
        raise unreadable(snapshot.manifest_list, table=name_of(table), err=err) from err
    check_manifest_list(table, snapshot, len(found))
    if to_read:
        require_known_partitions(table, (manifest.partition_spec_id for manifest in found))
    return found


def checked_io(table: Table, snapshots: Iterable[Snapshot | None]) -> CheckedIO:
    """Return a FileIO that rejects truncated manifest lists and manifests of the given snapshots.

    Raises:
        CorruptFileError: A manifest list is damaged or missing.
    """
    lengths: dict[str, int | None] = {}
    for snapshot in snapshots:
        if snapshot is not None:
            lengths[snapshot.manifest_list] = None
            lengths.update((m.manifest_path, m.manifest_length) for m in manifests_of(table, snapshot))
    return CheckedIO(table.io, lengths, name_of(table))


def checked_plan(
    table: Table, metadata: TableMetadata, snapshot: Snapshot, row_filter: RowPredicate
) -> tuple[CheckedIO, list[FileScanTask]]:
    """Return a checked FileIO, and the files of a snapshot that may contain rows matching a filter.

    The manifest list is only read once for both.

    Raises:
        CorruptFileError: The manifest list or a manifest is damaged or missing.
    """
    manifests = manifests_of(table, snapshot)
    io = CheckedIO(table.io, {m.manifest_path: m.manifest_length for m in manifests}, name_of(table))
    return io, planned(metadata, io, manifests, row_filter)


def planned(
    metadata: TableMetadata, io: FileIO, manifests: list[ManifestFile], row_filter: RowPredicate
) -> list[FileScanTask]:
    """Return the files in manifests that may contain rows matching a filter, with the delete files that apply."""
    planner = ManifestGroupPlanner(metadata, io)
    pruner = None if row_filter.always else row_filter.pruner(metadata)
    if pruner is not None:
        manifests = [manifest for manifest in manifests if pruner.may_match_manifest(manifest)]
    data: list[ManifestEntry] = []
    deletes = DeleteFileIndex()
    for entry in chain.from_iterable(planner.plan_manifest_entries(manifests)):
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            if pruner is None or pruner.may_match(file):
                data.append(entry)
        elif file.content == DataFileContent.POSITION_DELETES:
            if pruner is None or pruner.may_match_deletes(file):
                deletes.add_delete_file(entry, partition_key=_partition_key(file))
        elif pruner is None or pruner.may_match_deletes(file):
            msg = "PyIceberg does not apply equality deletes"
            raise ValueError(msg)
    if deletes.is_empty():
        return [FileScanTask(entry.data_file) for entry in data]
    return [
        FileScanTask(
            entry.data_file,
            delete_files=deletes.for_data_file(
                entry.sequence_number or 0, entry.data_file, partition_key=_partition_key(entry.data_file)
            ),
        )
        for entry in data
    ]


def _partition_key(file: DataFile) -> Record:
    """Return a partition key that equals itself; PyIceberg compares values, but NaN does not equal itself."""
    return Record(*record_key(file.partition))


def check_manifest_list(table: Table, snapshot: Snapshot, manifests: int) -> None:
    """Reject an empty manifest list if the snapshot has files.

    Raises:
        CorruptFileError: The snapshot has files, but its manifest list is empty.
    """
    summary = snapshot.summary
    files = summary.additional_properties.get("total-data-files", "0") if summary else "0"
    if not manifests and files not in {"", "0"}:
        msg = f"'{snapshot.manifest_list}' of table '{name_of(table)}' is damaged: it lists none of {files} files."
        raise CorruptFileError(msg, path=snapshot.manifest_list, hint=_RESTORE_HINT, table=name_of(table))


def explain(
    err: Exception, table: Table, snapshot: Snapshot | None, tasks: Iterable[FileScanTask] = ()
) -> FloeStorageError:
    """Return the error for a failed read, with the file that caused it if one is damaged or missing."""
    if isinstance(err, FloeStorageError):
        return err
    found = _first_unreadable(table, snapshot, tasks)
    if found is not None:
        return found
    if _has_equality_deletes(table, snapshot):
        msg = f"Table '{name_of(table)}' has equality deletes, which only Spark can apply."
        hint = "Pass engine='spark', or compact the table with engine='spark' first."
        return CapabilityError(msg, hint=hint, table=name_of(table))
    msg = f"Reading table '{name_of(table)}' failed, although all of its files are readable: {err}"
    return ScanError(msg, hint="Try again. If the error persists, see the log for the cause.", table=name_of(table))


def _first_unreadable(
    table: Table, snapshot: Snapshot | None, tasks: Iterable[FileScanTask]
) -> FloeStorageError | None:
    if snapshot is None:
        return None
    try:
        manifests = manifests_of(table, snapshot)
    except FloeStorageError as err:
        return err
    checked = CheckedIO(table.io, {m.manifest_path: m.manifest_length for m in manifests}, name_of(table))
    for manifest in manifests:
        try:
            manifest.fetch_manifest_entry(checked)
        except Exception as err:  # noqa: BLE001 - Avro decoding fails in many ways; all mean an unreadable file
            return unreadable(manifest.manifest_path, table=name_of(table), err=err)
    for task in tasks:
        for file in (task.file, *task.delete_files):
            if found := _unreadable_data_file(table, file):
                return found
    return None


def _has_equality_deletes(table: Table, snapshot: Snapshot | None) -> bool:
    return any(
        entry.data_file.content == DataFileContent.EQUALITY_DELETES
        for manifest in manifests_of(table, snapshot)
        if manifest.content == ManifestContent.DELETES
        for entry in manifest.fetch_manifest_entry(table.io)
    )


def _unreadable_data_file(table: Table, file: DataFile) -> FloeStorageError | None:
    try:
        with table.io.new_input(file.file_path).open() as stream:
            if file.file_format == FileFormat.PARQUET:
                for _ in pq.ParquetFile(stream).iter_batches():
                    pass
    except Exception as err:  # noqa: BLE001 - decoding fails in many ways; all mean an unreadable file
        return unreadable(file.file_path, table=name_of(table), err=err)
    return None
