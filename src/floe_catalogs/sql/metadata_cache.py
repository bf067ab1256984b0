"""Cache of table metadata, which speeds up reading and writing metadata files.

Metadata files never change once written, so a cached version is identified by its file's location. The catalog's row
shows whether that version is still current. Callers get copies, because a table's lists and properties are mutable.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2

from floe_iceberg.pyiceberg_internals.metadata import build_schema_indexes

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Identifier

_MAX_TABLES = 64


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table.

    Attributes:
        location: The location of its metadata file.
        metadata: The content of that file.
        texts: Its snapshots as JSON by snapshot id, if they were serialized.
    """

    location: str
    metadata: TableMetadata
    texts: dict[int, tuple[Snapshot, str]] = field(default_factory=dict)


class MetadataCache:
    """Caches the last version of each table that was read or written.

    Older versions are evicted, because they would keep expired snapshots in memory.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._versions: OrderedDict[Identifier, Version] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, identifier: Identifier, location: str, io: FileIO) -> TableMetadata:
        """Return a copy of a table's metadata; the file is read only if this version is not cached."""
        with self._lock:
            known = self._versions.get(identifier)
            if known is not None and known.location == location:
                self._versions.move_to_end(identifier)
                return copy_of(known.metadata)
        metadata = _indexed(FromInputFile.table_metadata(io.new_input(location)))
        self.keep(identifier, Version(location, metadata))
        return copy_of(metadata)

    def write(self, identifier: Identifier, metadata: TableMetadata, location: str, io: FileIO) -> Version:
        """Write a metadata file. Call ``keep`` once the catalog references it, which cannot fail."""
        _indexed(metadata)
        if not isinstance(metadata, TableMetadataV2):
            ToOutputFile.table_metadata(metadata, io.new_output(location))
            return Version(location, metadata)
        texts = self._texts(identifier, metadata)
        frame = metadata.model_copy(update={"snapshots": []}).model_dump_json(exclude_none=True)
        # A quote inside a JSON string is escaped, so this text matches the field and never part of a value.
        snapshots = f'"snapshots":[{",".join(text for _, text in texts.values())}]'
        with io.new_output(location).create() as stream:
            stream.write(frame.replace('"snapshots":[]', snapshots, 1).encode())
        return Version(location, metadata, texts)

    def keep(self, identifier: Identifier, version: Version) -> None:
        """Cache the current version of a table."""
        with self._lock:
            self._versions[identifier] = version
            self._versions.move_to_end(identifier)
            while len(self._versions) > _MAX_TABLES:
                self._versions.popitem(last=False)

    def forget(self, identifier: Identifier) -> None:
        """Forget a table that was dropped, renamed or registered; its file may have been edited in between."""
        with self._lock:
            self._versions.pop(identifier, None)

    def _texts(self, identifier: Identifier, metadata: TableMetadata) -> dict[int, tuple[Snapshot, str]]:
        """Serialize snapshots to JSON, reusing the text of snapshots that have not changed since the last version."""
        with self._lock:
            last = self._versions.get(identifier)
        known = last.texts if last is not None else {}
        texts = {}
        for snapshot in metadata.snapshots:
            found = known.get(snapshot.snapshot_id)
            if found is None or found[0] is not snapshot:
                found = (snapshot, snapshot.model_dump_json(exclude_none=True))
            texts[snapshot.snapshot_id] = found
        return texts


def copy_of(metadata: TableMetadata) -> TableMetadata:
    """Copy metadata with its lists and dictionaries; the snapshots and schemas in them are shared."""
    return metadata.model_copy(
        update={name: value.copy() for name, value in metadata if isinstance(value, list | dict)}
    )


def _indexed(metadata: TableMetadata) -> TableMetadata:
    for schema in metadata.schemas:
        build_schema_indexes(schema)
    return metadata
