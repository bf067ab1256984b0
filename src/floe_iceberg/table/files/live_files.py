"""Finds the files that snapshots reference, and the folders with a table's metadata files."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, cast

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import StructReader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.typedef import Record
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from floe_core.declaration.locations import normal
from floe_core.errors import CorruptFileError
from floe_iceberg.names import name_of
from floe_iceberg.pyiceberg_internals.avro import read_header
from floe_iceberg.read.capabilities import require_known_partitions
from floe_iceberg.read.integrity import CheckedIO, check_manifest_list, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import InputFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_TABLE_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]+)"')
_START_BYTES = 16_384
METADATA_FILE = re.compile(r"(?P<folder>.*)/[^/]+\.metadata\.json(\.gz)?$")

_Projection = dict[int, Any]

# Field ids of the specification. Only paths, sizes and specs are needed; skipping the column statistics makes reading
# several times faster.
_FIELDS: dict[str, _Projection] = {
    "manifest list": {500: None, 501: None, 502: None},
    "manifest": {0: None, 2: {100: None, 104: None}},
}


@dataclass
class FileReader:
    """Reads manifest lists and manifests of one table; each file is read once because it never changes.

    Attributes:
        removed: Files that the manifests read so far list as deleted.
        skipped: Manifest lists and manifests that a lenient read skipped.
    """

    table: Table
    removed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    _lists: dict[str, dict[str, int]] = field(default_factory=dict)
    _manifests: dict[str, dict[str, int]] = field(default_factory=dict)

    def manifests(self, snapshots: Iterable[Snapshot], *, lenient: bool = False) -> dict[str, int]:
        """Return the manifests of snapshots with their length; ``lenient`` skips unreadable manifest lists."""
        wanted = {snapshot.manifest_list: snapshot for snapshot in snapshots}
        missing = [snapshot for path, snapshot in wanted.items() if path not in self._lists]
        for snapshot, found in zip(missing, ExecutorFactory.get_or_create().map(self._read_list, missing), strict=True):
            if not isinstance(found, CorruptFileError):
                self._lists[snapshot.manifest_list] = found
            elif lenient:
                self.skipped.add(snapshot.manifest_list)
            else:
                raise found
        return {path: length for key in wanted for path, length in self._lists.get(key, {}).items()}

    def data_files(self, manifests: dict[str, int], *, lenient: bool = False) -> dict[str, int]:
        """Return the live data and delete files of manifests with their size; ``lenient`` skips unreadable ones."""
        missing = [path for path in manifests if path not in self._manifests]
        io = CheckedIO(self.table.io, manifests, name_of(self.table))
        read = ExecutorFactory.get_or_create().map(lambda path: self._read_manifest(io, path), missing)
        for path, found in zip(missing, read, strict=True):
            if not isinstance(found, CorruptFileError):
                self._manifests[path] = found
            elif lenient:
                self.skipped.add(path)
            else:
                raise found
        return {file: size for path in manifests for file, size in self._manifests.get(path, {}).items()}

    def _read_list(self, snapshot: Snapshot) -> dict[str, int] | CorruptFileError:
        try:
            io = CheckedIO(self.table.io, {snapshot.manifest_list: None}, name_of(self.table))
            records = _records(io.new_input(snapshot.manifest_list), "manifest list")
            require_known_partitions(self.table, (entry[2] for entry in records))
            found = {entry[0]: entry[1] for entry in records}
            check_manifest_list(self.table, snapshot, len(found))
        except Exception as err:  # noqa: BLE001 - Avro decoding fails in many ways; all mean an unreadable file
            return self._failure(snapshot.manifest_list, err)
        return found

    def _read_manifest(self, io: CheckedIO, path: str) -> dict[str, int] | CorruptFileError:
        try:
            records = _records(io.new_input(path), "manifest")
            self.removed.update(entry[1][0] for entry in records if entry[0] == ManifestEntryStatus.DELETED)
            return {entry[1][0]: entry[1][1] for entry in records if entry[0] != ManifestEntryStatus.DELETED}
        except Exception as err:  # noqa: BLE001 - Avro decoding fails in many ways; all mean an unreadable file
            return self._failure(path, err)

    def _failure(self, path: str, err: Exception) -> CorruptFileError:
        failure = unreadable(path, table=name_of(self.table), err=err)
        if isinstance(failure, CorruptFileError):
            failure.__cause__ = err
            return failure
        raise failure from err


def _records(file: InputFile, wanted: str) -> list[Record]:
    with _LeanAvroFile(file, wanted) as records:
        return list(records)


class _LeanAvroFile(AvroFile[Record]):
    """Avro reader that reads a few fields per record; PyIceberg's projection fails if lists or maps are omitted."""

    __slots__ = ("_wanted",)

    def __init__(self, file: InputFile, wanted: str) -> None:
        super().__init__(file)
        self._wanted = wanted

    def __enter__(self) -> Self:
        with self.input_file.open() as stream:
            self.decoder = new_decoder(stream.read())
        self.header = read_header(self)
        self.reader = _reader(self.header.meta["avro.schema"], self._wanted)
        return self


@lru_cache(maxsize=128)
def _reader(schema: str, wanted: str) -> StructReader:
    # All manifests of a spec have the same schema, and parsing it takes longer than reading a small manifest.
    full = construct_reader(AvroSchemaConversion().avro_to_iceberg(json.loads(schema)))
    return _project(cast("StructReader", full), _FIELDS[wanted])


def _project(reader: StructReader, wanted: _Projection) -> StructReader:
    positions = {field_id: position for position, field_id in enumerate(wanted)}
    readers: list[tuple[int | None, Reader]] = []
    for column, (_, inner) in zip(reader.struct.fields, reader.field_readers, strict=True):
        nested = wanted.get(column.field_id)
        kept = _project(cast("StructReader", inner), nested) if nested is not None else inner
        readers.append((positions.get(column.field_id), kept))
    return StructReader(tuple(readers), Record, reader.struct)


def statistics_files(metadata: TableMetadata) -> set[str]:
    """Return the statistics files that the metadata references."""
    full = {file.statistics_path for file in metadata.statistics}
    return full | {file.statistics_path for file in metadata.partition_statistics}


def contains_another_table(table: Table, files: Iterable[str]) -> bool:
    """Whether any of the files is metadata of another table, because a recreated or renamed table reuses a folder."""
    known = {normal(entry.metadata_file) for entry in table.metadata.metadata_log} | {normal(table.metadata_location)}
    unknown = [file for file in files if METADATA_FILE.match(file) and normal(file) not in known]
    found = ExecutorFactory.get_or_create().map(lambda file: _table_uuid(table, file), unknown)
    return any(uuid not in {None, str(table.metadata.table_uuid)} for uuid in found)


def _table_uuid(table: Table, file: str) -> str | None:
    try:
        with table.io.new_input(file).open() as stream:
            # The id is at the beginning of the file; the history after it can be long.
            start = stream.read() if file.endswith(".gz") else stream.read(_START_BYTES)
        text = gzip.decompress(start) if file.endswith(".gz") else start
    except (OSError, EOFError, zlib.error):
        return None
    found = _TABLE_UUID.search(text)
    return found[1].decode() if found else None


def metadata_folders(table: Table) -> set[str]:
    """Return the normalized folders that contain the table's metadata files."""
    locations = [table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)]
    own = {normal(location).rsplit("/", 1)[0] for location in locations}
    return own | {normal(f"{table.location().rstrip('/')}/metadata")}
