"""Manifest lists, which grow by one entry an append: what was read or written before is not worked out again."""

from __future__ import annotations

import io as byte_io
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import DEFAULT_READ_VERSION, MANIFEST_LIST_FILE_SCHEMAS, ManifestFile, write_manifest_list

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

_KEPT_LISTS = 32
_KEPT_ENTRIES = 50_000


class ManifestLists:
    """Reads and writes manifest lists of one catalog; files never change once written, so they may be remembered."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._lists: OrderedDict[str, tuple[ManifestFile, ...]] = OrderedDict()
        self._entries: dict[tuple[int, str], bytes] = {}
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
        """Write a snapshot's manifests to its manifest list."""
        lister = write_manifest_list(
            format_version=format_version,  # type: ignore[arg-type]  # 1 or 2, checked by the caller
            output_file=io.new_output(snapshot.manifest_list),
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            avro_compression=codec,  # type: ignore[arg-type]  # the property's text is the codec's name
        )
        prepared = [
            lister.prepare_manifest(manifest) if _is_new(manifest, snapshot) else manifest for manifest in manifests
        ]
        output = AvroOutputFile[ManifestFile](
            output_file=io.new_output(snapshot.manifest_list),
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[format_version],
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION],
            schema_name="manifest_file",
            metadata=_header(snapshot, format_version, codec),
        )
        with output:
            content = b"".join(self._encoded(manifest, output, format_version) for manifest in prepared)
            _write_block(output, len(prepared), content)
        self._keep(snapshot.manifest_list, prepared)

    def _encoded(self, manifest: ManifestFile, output: AvroOutputFile[ManifestFile], format_version: int) -> bytes:
        key = (format_version, manifest.manifest_path)
        known = self._entries.get(key)
        if known is None:
            buffer = byte_io.BytesIO()
            output.writer.write(BinaryEncoder(buffer), manifest)
            known = self._entries[key] = buffer.getvalue()
        return known

    def _keep(self, path: str, manifests: list[ManifestFile]) -> None:
        with self._lock:
            self._lists[path] = tuple(manifests)
            while len(self._lists) > _KEPT_LISTS:
                self._lists.popitem(last=False)
            if len(self._entries) > _KEPT_ENTRIES:
                self._entries.clear()


def _is_new(manifest: ManifestFile, snapshot: Snapshot) -> bool:
    return manifest.added_snapshot_id == snapshot.snapshot_id


def _header(snapshot: Snapshot, format_version: int, codec: str) -> dict[str, str]:
    parent = snapshot.parent_snapshot_id
    header = {
        "snapshot-id": str(snapshot.snapshot_id),
        "parent-snapshot-id": str(parent) if parent is not None else "null",
        "format-version": str(format_version),
        "avro.codec": codec,
    }
    return header | ({"sequence-number": str(snapshot.sequence_number)} if format_version > 1 else {})


def _write_block(output: AvroOutputFile[ManifestFile], count: int, content: bytes) -> None:
    output.encoder.write_int(count)
    if (codec := output.compression_codec()) is not None:
        content, _ = codec.compress(content)
    output.encoder.write_int(len(content))
    output.encoder.write(content)
    output.encoder.write(output.sync_bytes)
