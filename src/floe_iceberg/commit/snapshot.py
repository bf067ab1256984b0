"""Snapshot producer: writes new manifests, reuses or filters existing ones, and writes the manifest list.

PyIceberg's producers rebuild the table's metadata many times per commit and create up to three snapshots for one
overwrite; here, every operation creates exactly one.
"""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.manifest import (
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
)

from floe_core.errors import WriteError
from floe_iceberg.catalog.clocks import next_timestamp
from floe_iceberg.catalog.locations import location_provider
from floe_iceberg.catalog.manifest_lists import ManifestLists
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.commit.manifests import delete_entries, manifest_writer
from floe_iceberg.commit.protocol import CommitAttempt, Staged
from floe_iceberg.commit.read_marks import carried_marks, require_unread
from floe_iceberg.commit.summaries import summarize
from floe_iceberg.formats.avro_codecs import manifest_codec
from floe_iceberg.names import name_of
from floe_iceberg.read.capabilities import require_known_partitions, require_writable
from floe_iceberg.read.integrity import CheckedIO, check_manifest_list, explain, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata

_TARGET_BYTES = "commit.manifest.target-size-bytes"
_MIN_COUNT = "commit.manifest.min-count-to-merge"


class FileGoneError(WriteError):
    """A file to remove is no longer part of the branch; the plan is stale."""


@dataclass
class SnapshotDraft:
    """One snapshot that may have to be built on several versions of the table.

    Attributes:
        properties: Properties to add to the summary.
        branch: Target branch, None for main.
        merge: Whether to merge small manifests.
    """

    properties: Mapping[str, str]
    branch: str | None = None
    merge: bool = False
    _snapshot_id: int | None = None
    _added: tuple[tuple[object, ...], list[ManifestFile]] | None = None
    _uuid: uuid.UUID = field(default_factory=uuid.uuid4)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def attempt(
        self,
        table: Table,
        *,
        operation: Operation,
        added: Sequence[DataFile] = (),
        removed: Sequence[DataFile] = (),
        staged: Staged | None = None,
    ) -> CommitAttempt:
        """Write the manifests of a snapshot on top of the branch's current head.

        Args:
            table: The current table.
            operation: The operation recorded in the summary.
            added: New data files.
            removed: Data and delete files to remove.
            staged: Schema updates to include in the same commit.

        Raises:
            FileGoneError: A file to remove is no longer part of the branch.
            CapabilityError: floe cannot write the table's format version in process.
            ConfigurationError: The table's properties set an unsupported codec.
        """
        metadata = staged.metadata if staged else table.metadata
        require_writable(table)
        build = _Build(self, table, metadata)
        manifests = build.manifests(added, removed)
        snapshot = build.snapshot(manifests, operation, added, removed)
        return self._as_attempt(table, snapshot, staged, tuple(build.files))

    def _as_attempt(
        self, table: Table, snapshot: Snapshot, staged: Staged | None, files: tuple[str, ...]
    ) -> CommitAttempt:
        branch = self.branch or MAIN_BRANCH
        ref = table.metadata.refs.get(branch)
        parent_id = ref.snapshot_id if ref else None
        moved = SetSnapshotRefUpdate(
            snapshot_id=snapshot.snapshot_id,
            ref_name=branch,
            type=SnapshotRefType.BRANCH,
            max_ref_age_ms=ref.max_ref_age_ms if ref else None,
            max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
            min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
        )
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=branch, snapshot_id=parent_id),
            # A column may have become required, and the new files may contain nulls in it.
            AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id),
        )
        schema_requirements = tuple(
            requirement
            for requirement in (staged.requirements if staged else ())
            if not isinstance(requirement, AssertTableUUID | AssertCurrentSchemaId)
        )
        return CommitAttempt(
            updates=(*(staged.updates if staged else ()), AddSnapshotUpdate(snapshot=snapshot), moved),
            requirements=(*requirements, *schema_requirements),
            snapshot=snapshot,
            parent_id=parent_id,
            files=files,
        )

    def snapshot_id(self, metadata: TableMetadata) -> int:
        """Return the snapshot id, which stays the same for all attempts."""
        if self._snapshot_id is None:
            self._snapshot_id = metadata.new_snapshot_id()
        return self._snapshot_id

    def next_path(self, provider: LocationProvider) -> str:
        """Return the path for another manifest."""
        return provider.new_metadata_location(f"{self._uuid}-m{next(self._numbers)}.avro")

    def known_manifests(self, added: Sequence[DataFile], metadata: TableMetadata) -> list[ManifestFile] | None:
        """Return the manifests, without sequence numbers, that an earlier attempt wrote for the same files."""
        if self._added is None or self._added[0] != _contents(added, metadata):
            return None
        return self._added[1]

    def keep_manifests(self, added: Sequence[DataFile], metadata: TableMetadata, manifests: list[ManifestFile]) -> None:
        """Store the manifests of new files for the next attempt."""
        self._added = (_contents(added, metadata), manifests)


def _contents(added: Sequence[DataFile], metadata: TableMetadata) -> tuple[object, ...]:
    """Return a key of everything that determines the content of the manifests of new files."""
    return (
        metadata.format_version,
        metadata.current_schema_id,
        *(file.file_path for file in added),
    )


class _Build:
    """One attempt at a draft's manifests."""

    def __init__(self, draft: SnapshotDraft, table: Table, metadata: TableMetadata) -> None:
        self._draft = draft
        self._io: FileIO = table.io
        self._table = table
        self._metadata = metadata
        self._provider = location_provider(table.metadata)
        self._snapshot_id = draft.snapshot_id(table.metadata)
        self._parent = metadata.snapshot_by_name(draft.branch or MAIN_BRANCH)
        parent_id = self._parent.snapshot_id if self._parent else None
        require_unread(metadata, parent_id, draft.properties, table=name_of(table))
        reconciling = table.catalog if isinstance(table.catalog, ReconcilingCatalog) else None
        self._lists = reconciling.manifest_lists if reconciling else ManifestLists()
        self._clock_offset_ms = reconciling.clock_offset_ms if reconciling else 0
        self._codec = manifest_codec(metadata.properties, table=name_of(table))
        self.files: list[str] = []

    def manifests(self, added: Sequence[DataFile], removed: Sequence[DataFile]) -> list[ManifestFile]:
        existing = self._existing()
        live = [manifest for manifest in existing if manifest.has_added_files() or manifest.has_existing_files()]
        kept = live
        for content in (ManifestContent.DATA, ManifestContent.DELETES):
            if removed_entries := [file for file in removed if _listed_as(file) is content]:
                kept = self._without(kept, removed_entries, content)
        if self._draft.merge:
            return self._merged(added, kept)
        return [*self._added_manifests(added), *kept]

    def _existing(self) -> list[ManifestFile]:
        if self._parent is None:
            return []
        try:
            manifests = self._lists.read(self._parent, self._io)
        except Exception as err:
            raise explain(err, self._table, self._parent) from err
        check_manifest_list(self._table, self._parent, len(manifests))
        require_known_partitions(self._table, (manifest.partition_spec_id for manifest in manifests))
        return manifests

    def _read(self, manifest: ManifestFile, *, discard_deleted: bool) -> list[ManifestEntry]:
        # A truncated manifest reads as a shorter one; rewriting it would lose the missing files permanently.
        name = name_of(self._table)
        checked = CheckedIO(self._io, {manifest.manifest_path: manifest.manifest_length}, name)
        try:
            if manifest.content == ManifestContent.DELETES:
                return delete_entries(manifest, checked)
            return manifest.fetch_manifest_entry(checked, discard_deleted=discard_deleted)
        except Exception as err:
            raise unreadable(manifest.manifest_path, table=name, err=err) from err

    def _added_manifests(self, added: Sequence[DataFile]) -> list[ManifestFile]:
        """List each new file under the spec it was written with; the table's spec may have changed since."""
        manifests = self._draft.known_manifests(added, self._metadata)
        if manifests is None:
            by_spec = _by_spec(added).items()
            manifests = [self._write(spec_id, self._added_entries(files)) for spec_id, files in by_spec]
            self._draft.keep_manifests(added, self._metadata, manifests)
        else:
            self.files += [manifest.manifest_path for manifest in manifests]
        return manifests

    def _added_entries(self, added: Sequence[DataFile]) -> list[ManifestEntry]:
        return [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=self._snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            for file in added
        ]

    def _without(
        self, manifests: list[ManifestFile], removed: Sequence[DataFile], content: ManifestContent
    ) -> list[ManifestFile]:
        missing = {file.file_path for file in removed}
        specs = {file.spec_id for file in removed}
        kept: list[ManifestFile] = []
        removed_entries: dict[int, list[ManifestEntry]] = {}
        for manifest in manifests:
            spec_id = manifest.partition_spec_id
            if manifest.content != content or spec_id not in specs or not missing:
                kept.append(manifest)
                continue
            entries = self._read(manifest, discard_deleted=True)
            matched = [entry for entry in entries if entry.data_file.file_path in missing]
            remaining = [entry for entry in entries if entry.data_file.file_path not in missing]
            missing -= {entry.data_file.file_path for entry in matched}
            removed_entries.setdefault(spec_id, []).extend(matched)
            if not matched:
                kept.append(manifest)
            elif remaining:
                kept.append(self._write(spec_id, _marked(remaining, ManifestEntryStatus.EXISTING), content))
        if missing:
            msg = f"Files to remove are not part of the table: {', '.join(sorted(missing))}"
            raise FileGoneError(msg, table=name_of(self._table))
        # One manifest for all removals of a spec: a compaction empties hundreds of manifests at once.
        return [
            *kept,
            *(self._removals(spec_id, entries, content) for spec_id, entries in removed_entries.items() if entries),
        ]

    def _removals(self, spec_id: int, entries: list[ManifestEntry], content: ManifestContent) -> ManifestFile:
        for entry in entries:
            entry.snapshot_id = self._snapshot_id
        return self._write(spec_id, _marked(entries, ManifestEntryStatus.DELETED), content)

    def _merged(self, added: Sequence[DataFile], kept: list[ManifestFile]) -> list[ManifestFile]:
        """Merge manifests of one spec up to the target size each; the first also lists the new files."""
        properties = self._metadata.properties
        target = int(properties.get(_TARGET_BYTES, 8 * 1024 * 1024))
        min_count = max(2, int(properties.get(_MIN_COUNT, 2)))
        by_spec = _by_spec(added)
        groups: dict[int, list[ManifestFile]] = {spec_id: [] for spec_id in by_spec}
        merged = []
        for manifest in kept:
            if manifest.content == ManifestContent.DATA:
                groups.setdefault(manifest.partition_spec_id, []).append(manifest)
            else:
                merged.append(manifest)
        for spec_id, group in groups.items():
            new = self._added_entries(by_spec.get(spec_id, ()))
            if len(group) + bool(new) < min_count:
                merged += [*([self._write(spec_id, new)] if new else ()), *group]
                continue
            first, *others = _packed(group, target)
            merged += [self._write(spec_id, [*new, *self._entries(first)])] if new or len(first) > 1 else first
            for bin_ in others:
                merged += [self._write(spec_id, self._entries(bin_))] if len(bin_) > 1 else bin_
        return merged

    def _entries(self, manifests: list[ManifestFile]) -> list[ManifestEntry]:
        """Read manifests of this or an earlier snapshot as entries of this one."""
        entries = []
        for manifest in manifests:
            for entry in self._read(manifest, discard_deleted=False):
                if entry.status == ManifestEntryStatus.DELETED:
                    if entry.snapshot_id != self._snapshot_id:
                        continue
                else:
                    entry.status = ManifestEntryStatus.EXISTING
                entries.append(entry)
        return entries

    def _write(
        self, spec_id: int, entries: list[ManifestEntry], content: ManifestContent = ManifestContent.DATA
    ) -> ManifestFile:
        path = self._draft.next_path(self._provider)
        self.files.append(path)
        with manifest_writer(
            self._metadata,
            spec_id,
            output_file=self._io.new_output(path),
            snapshot_id=self._snapshot_id,
            codec=self._codec,
            content=content,
        ) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def snapshot(
        self,
        manifests: list[ManifestFile],
        operation: Operation,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
    ) -> Snapshot:
        path = self._provider.new_metadata_location(f"snap-{self._snapshot_id}-{uuid.uuid4()}.avro")
        self.files.append(path)
        snapshot = Snapshot(
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=self._parent.snapshot_id if self._parent else None,
            manifest_list=path,
            sequence_number=self._metadata.next_sequence_number(),
            timestamp_ms=next_timestamp(self._metadata, offset_ms=self._clock_offset_ms),
            summary=summarize(
                self._metadata,
                operation,
                self._parent,
                added=added,
                removed=removed,
                properties={**carried_marks(self._parent), **self._draft.properties},
            ),
            schema_id=self._metadata.current_schema_id,
        )
        version = self._metadata.format_version
        self._lists.write(snapshot, manifests, self._io, format_version=version, codec=self._codec)
        return snapshot


def _listed_as(file: DataFile) -> ManifestContent:
    """Return the kind of manifest that lists a file; files read from a version 1 manifest have no content field."""
    deletes = (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)
    return ManifestContent.DELETES if file.content in deletes else ManifestContent.DATA


def _by_spec(files: Sequence[DataFile]) -> dict[int, list[DataFile]]:
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.spec_id, []).append(file)
    return found


def _marked(entries: list[ManifestEntry], status: ManifestEntryStatus) -> list[ManifestEntry]:
    for entry in entries:
        entry.status = status
    return entries


def _packed(manifests: list[ManifestFile], target: int) -> Iterator[list[ManifestFile]]:
    bin_: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        if bin_ and size + manifest.manifest_length > target:
            yield bin_
            bin_, size = [], 0
        bin_.append(manifest)
        size += manifest.manifest_length
    if bin_:
        yield bin_
