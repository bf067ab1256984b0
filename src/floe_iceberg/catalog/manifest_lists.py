"""Cached reads and writes of manifest lists, which grow by one entry per append."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import DEFAULT_READ_VERSION, MANIFEST_LIST_FILE_SCHEMAS, UNASSIGNED_SEQ, ManifestFile

from floe_iceberg.pyiceberg_internals.avro import encoded_record, write_encoded_block

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

_KEPT_LISTS = 32
_KEPT_ENTRIES = 50_000


class ManifestLists:
    """Reads and writes manifest lists of one catalog, cached because files never change once written."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._lists: OrderedDict[str, tuple[ManifestFile, ...]] = OrderedDict()
        self._entries: dict[tuple[int, str, int], bytes] = {}
        self._lock = threading.Lock()

    def read(self, snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
        """Return a snapshot's manifests."""
        with self._lock:
            if snapshot.manifest_list in self._lists:
                self._lists.move_to_end(snapshot.manifest_list)
                return list(self._lists[snapshot.manifest_list])
        manifests = snapshot.manifests(io)
        self._keep(snapshot.manifest_list, manifests)
        return manifests

    def write(
        self,
        snapshot: Snapshot,
        manifests: list[ManifestFile],
        io: FileIO,
        *,
        format_version: int,
        codec: str,
    ) -> None:
        """Write a snapshot's manifests to its manifest list; new ones get the snapshot's sequence number."""
        prepared = [_numbered(manifest, snapshot) for manifest in manifests]
        output = AvroOutputFile[ManifestFile](
            output_file=io.new_output(snapshot.manifest_list),
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[format_version],
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION],
            schema_name="manifest_file",
            metadata=_header(snapshot, format_version, codec),
        )
        with output:
            content = b"".join(self._encoded(manifest, output, format_version) for manifest in prepared)
            write_encoded_block(output, len(prepared), content)
        self._keep(snapshot.manifest_list, prepared)

    def _encoded(self, manifest: ManifestFile, output: AvroOutputFile[ManifestFile], format_version: int) -> bytes:
        # A retried commit lists the same manifest under another sequence number.
        key = (format_version, manifest.manifest_path, manifest.sequence_number)
        known = self._entries.get(key)
        if known is None:
            known = self._entries[key] = encoded_record(output, manifest)
        return known

    def _keep(self, path: str, manifests: list[ManifestFile]) -> None:
        with self._lock:
            self._lists[path] = tuple(manifests)
            while len(self._lists) > _KEPT_LISTS:
                self._lists.popitem(last=False)
            if len(self._entries) > _KEPT_ENTRIES:
                self._entries.clear()


def _numbered(manifest: ManifestFile, snapshot: Snapshot) -> ManifestFile:
    if manifest.sequence_number != UNASSIGNED_SEQ:
        return manifest
    number = snapshot.sequence_number or 0
    # PyIceberg's copy shares its fields with the original, which the next attempt needs without a sequence number.
    numbered = ManifestFile(*(manifest[position] for position in range(len(manifest))))
    numbered.sequence_number = number
    if numbered.min_sequence_number == UNASSIGNED_SEQ:
        numbered.min_sequence_number = number
    return numbered


def _header(snapshot: Snapshot, format_version: int, codec: str) -> dict[str, str]:
    parent = snapshot.parent_snapshot_id
    header = {
        "snapshot-id": str(snapshot.snapshot_id),
        "parent-snapshot-id": str(parent) if parent is not None else "null",
        "format-version": str(format_version),
        "avro.codec": codec,
    }
    return header | ({"sequence-number": str(snapshot.sequence_number)} if format_version > 1 else {})
