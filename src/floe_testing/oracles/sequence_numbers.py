"""Checks the specification's rules on sequence numbers in the files of all snapshots of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestEntryStatus, read_manifest_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def sequence_number_breaches(table: Table) -> list[str]:
    """Return violations of the rules, read directly from the files without caches.

    A manifest has the sequence number of the snapshot that added it. So does an added file, unless an older data
    sequence number was set explicitly. A file keeps its numbers in all later manifests.
    """
    found: list[str] = []
    known: dict[str, tuple[int | None, int | None]] = {}
    for snapshot in sorted(table.metadata.snapshots, key=lambda one: (one.sequence_number or 0, one.timestamp_ms)):
        for manifest in read_manifest_list(table.io.new_input(snapshot.manifest_list)):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                found += _manifest_breaches(table, snapshot, manifest, known)
    return found


def _manifest_breaches(
    table: Table, snapshot: Snapshot, manifest: ManifestFile, known: dict[str, tuple[int | None, int | None]]
) -> Iterator[str]:
    number = snapshot.sequence_number or 0
    name = manifest.manifest_path.rsplit("/", 1)[-1]
    if manifest.sequence_number != number:
        yield f"{name} has sequence number {manifest.sequence_number}, but its snapshot has {number}"
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    for entry in entries:
        yield from (f"{name}: {what}" for what in _entry_breaches(entry, number, known))
    live = [entry.sequence_number or 0 for entry in entries if entry.status != ManifestEntryStatus.DELETED]
    if manifest.min_sequence_number != min(live, default=number):
        yield f"{name} has min_sequence_number {manifest.min_sequence_number}, its files {min(live, default=number)}"


def _entry_breaches(
    entry: ManifestEntry, number: int, known: dict[str, tuple[int | None, int | None]]
) -> Iterator[str]:
    path, numbers = entry.data_file.file_path, (entry.sequence_number, entry.file_sequence_number)
    if None in numbers:
        yield f"{path} has no sequence numbers"
    if entry.status == ManifestEntryStatus.ADDED:
        known[path] = numbers
        if entry.file_sequence_number != number:
            yield f"{path} was added with {entry.file_sequence_number}, but its snapshot has {number}"
    elif known.get(path, numbers) != numbers:
        yield f"{path} has {numbers}, but was added with {known[path]}"
