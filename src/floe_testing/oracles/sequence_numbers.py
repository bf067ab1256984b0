"""The spec's rules on sequence numbers, checked on the files of every snapshot of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestEntryStatus, read_manifest_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def sequence_number_breaches(table: Table) -> list[str]:
    """Return what breaks the rules, read from the files alone and past every cache.

    A manifest carries the number of the snapshot that added it, an added file that number too unless it was given an
    older one for its data, and a file keeps its numbers in every manifest it is written to later.
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
        yield f"{name} has number {manifest.sequence_number}, its snapshot {number}"
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    for entry in entries:
        yield from (f"{name}: {what}" for what in _entry_breaches(entry, number, known))
    live = [entry.sequence_number or 0 for entry in entries if entry.status != ManifestEntryStatus.DELETED]
    if manifest.min_sequence_number != min(live, default=number):
        yield f"{name} has least number {manifest.min_sequence_number}, its files {min(live, default=number)}"


def _entry_breaches(
    entry: ManifestEntry, number: int, known: dict[str, tuple[int | None, int | None]]
) -> Iterator[str]:
    path, numbers = entry.data_file.file_path, (entry.sequence_number, entry.file_sequence_number)
    if None in numbers:
        yield f"{path} has no numbers"
    if entry.status == ManifestEntryStatus.ADDED:
        known[path] = numbers
        if entry.file_sequence_number != number:
            yield f"{path} was added with {entry.file_sequence_number}, its snapshot has {number}"
    elif known.get(path, numbers) != numbers:
        yield f"{path} has numbers {numbers}, and was added with {known[path]}"
