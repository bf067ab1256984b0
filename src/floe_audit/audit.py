"""Audit a table, starting at its metadata file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from floe_audit.data.data_files import FileCheck
from floe_audit.data.deletes import DeletedPositions, check_positions, read_deletion_vector, read_position_deletes
from floe_audit.data.live_rows import LiveRows
from floe_audit.files.access import FileSource, LocalFiles, read_all
from floe_audit.files.open_files import opened
from floe_audit.manifests.entries import check_entries, data_sequence_number, unchanged
from floe_audit.manifests.manifest_files import DATA, POSITION_DELETES, read_manifest
from floe_audit.manifests.manifest_lists import ManifestList, check_against_manifest, check_line, read_manifest_list
from floe_audit.metadata.lineage import check_lineage
from floe_audit.metadata.metadata_file import read_metadata
from floe_audit.metadata.snapshots import check_snapshots, current_snapshot_id
from floe_audit.metadata.statistics import check_partition_statistics, check_statistics, registered
from floe_audit.metadata.summaries import SnapshotTotals, check_continuity, check_duplicates, check_summary
from floe_audit.report import AuditDepth, AuditReport, Findings
from floe_audit.spec.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from floe_audit.manifests.manifest_files import ContentFile, Manifest
    from floe_audit.manifests.manifest_lists import Listed
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.metadata.summaries import Pair

_T = TypeVar("_T")
_R = TypeVar("_R")
_THREADS = 8


class Snapshots(StrEnum):
    """Which snapshots an audit covers."""

    ALL = "all"
    CURRENT = "current"


def audit_table(
    metadata_location: str,
    files: FileSource | None = None,
    *,
    depth: AuditDepth = AuditDepth.VALUES,
    snapshots: Snapshots = Snapshots.ALL,
) -> AuditReport:
    """Recompute a table's metadata from the files it references, and compare both.

    Damaged files are reported, never raised. Each file is read once, even if several snapshots share it.

    Args:
        metadata_location: The table's metadata file.
        files: Source of the files; local files by default.
        depth: How deep to read.
        snapshots: All snapshots, or only the current one.

    Returns:
        The breaches, and the number of objects checked.
    """
    findings = Findings()
    run = _Run(files or LocalFiles(), depth, findings)
    live_rows = run.table(metadata_location, snapshots)
    return findings.report(metadata_location, depth, live_rows)


class _Run:
    def __init__(self, files: FileSource, depth: AuditDepth, findings: Findings) -> None:
        self._files = files
        self._depth = depth
        self._findings = findings

    def table(self, location: str, chosen: Snapshots) -> dict[int, int]:
        content = self._read(location)
        metadata = None if content is None else read_metadata(location, content, self._findings)
        if metadata is None:
            return {}
        check_snapshots(metadata, self._findings)
        wanted = [one for one in metadata.snapshots if isinstance(one.get("snapshot-id"), int)]
        if chosen is Snapshots.CURRENT:
            wanted = [one for one in wanted if one["snapshot-id"] == current_snapshot_id(metadata)]
        self._findings.count("snapshots", len(wanted))
        lists = self._each(wanted, lambda one: self._manifest_list(one, metadata))
        listed = [(snapshot, read) for snapshot, read in zip(wanted, lists, strict=True) if read is not None]
        manifests = self._manifests(listed, metadata)
        pairs = self._check_manifest_lists(listed, manifests, metadata)
        self._check_each_snapshot(wanted, pairs, metadata)
        return self._check_files(wanted, pairs, metadata)

    def _check_files(
        self, wanted: list[dict[str, Any]], pairs: dict[int, list[Pair]], metadata: TableMetadata
    ) -> dict[int, int]:
        findings = self._findings
        statistics = registered(metadata, "statistics", Rule.STATISTICS_SNAPSHOT, findings)
        partition_statistics = registered(
            metadata, "partition-statistics", Rule.PARTITION_STATISTICS_SNAPSHOT, findings
        )
        if self._depth is AuditDepth.METADATA:
            return {}
        described = self._live_files(pairs)
        positions: dict[tuple[str, int | None], DeletedPositions] = {}

        def check(file: ContentFile) -> None:
            deleted = self._file(file, metadata)
            if deleted is not None:
                positions[file.key] = deleted

        self._each(described.values(), check)
        for key, deleted in positions.items():
            check_positions(deleted, described[key], {one.path: one for one in described.values()}, findings)
        findings.count("statistics_files", len(statistics) + len(partition_statistics))
        for entry in statistics:
            check_statistics(entry, metadata, self._files, findings)
        for entry in partition_statistics:
            check_partition_statistics(entry, pairs.get(entry.get("snapshot-id") or 0), self._files, findings)
        if self._depth is not AuditDepth.VALUES:
            return {}
        return self._live_rows(wanted, pairs, positions, metadata)

    def _live_rows(
        self,
        wanted: list[dict[str, Any]],
        pairs: dict[int, list[Pair]],
        positions: dict[tuple[str, int | None], DeletedPositions],
        metadata: TableMetadata,
    ) -> dict[int, int]:
        counter = LiveRows(self._files, positions, metadata, self._findings)
        found: dict[int, int] = {}
        for snapshot in wanted:
            identity = snapshot["snapshot-id"]
            if identity in pairs:
                try:
                    found[identity] = counter.of(snapshot, pairs[identity])
                except Exception as err:  # noqa: BLE001 - counting failed; a damaged file is already reported
                    if self._findings.clean:
                        what = f"Cannot count the rows of snapshot {identity}: {err}"
                        where = str(snapshot.get("manifest-list") or metadata.location)
                        self._findings.breach(Rule.FILE_UNREADABLE, what, file=where)
        return found

    def _live_files(self, pairs: dict[int, list[Pair]]) -> dict[tuple[str, int | None], ContentFile]:
        """Return the distinct files that are live in any snapshot, and compare their descriptions across manifests."""
        found: dict[tuple[str, int | None], ContentFile] = {}
        numbers: dict[tuple[str, int | None], int] = {}
        listed = {manifest.path: (line, manifest) for own in pairs.values() for line, manifest in own}
        for line, manifest in listed.values():
            for entry in manifest.entries:
                if not entry.live:
                    continue
                key, number = entry.file.key, data_sequence_number(entry, line)
                known = found.setdefault(key, entry.file)
                ok = unchanged(known, entry.file) and numbers.setdefault(key, number) == number
                what = f"Manifests describe {entry.file.path} differently"
                self._findings.check(ok, Rule.MANIFEST_FILE_CHANGED, what, file=manifest.path)
        return found

    def _file(self, file: ContentFile, metadata: TableMetadata) -> DeletedPositions | None:
        findings = self._findings
        findings.count("data_files" if file.content == DATA else "delete_files")
        try:
            size = self._files.size(file.path)
            findings.equal(Rule.DATA_SIZE, "The file size", size, file.size, file=file.path)
            if file.encrypted:
                return None
            if file.vector:
                return read_deletion_vector(file, self._files, findings)
            with opened(self._files, file.path, file.format) as source:
                if file.content == POSITION_DELETES:
                    return read_position_deletes(file, source, findings)
                check = FileCheck(file, source, metadata, findings)
                check.footer()
                if self._depth is AuditDepth.VALUES:
                    check.values()
        except FileNotFoundError:
            findings.breach(Rule.FILE_MISSING, "The file does not exist", file=file.path)
        except Exception as err:  # noqa: BLE001 - damage can cause any error
            findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the file: {err!r}", file=file.path)
        return None

    def _manifest_list(self, snapshot: dict[str, Any], metadata: TableMetadata) -> ManifestList | None:
        path = snapshot.get("manifest-list")
        if not isinstance(path, str):
            return None
        content = self._read(path)
        if content is None:
            return None
        self._findings.count("manifest_lists")
        return read_manifest_list(path, content, snapshot, metadata, self._findings)

    def _manifests(
        self, listed: list[tuple[dict[str, Any], ManifestList]], metadata: TableMetadata
    ) -> dict[str, Manifest]:
        lines = {line.path: line for _, read in listed for line in read.manifests}

        def read(line: Listed) -> Manifest | None:
            content = self._read(line.path)
            if content is None:
                return None
            self._findings.count("manifests")
            return read_manifest(line.path, content, line.spec_id, metadata, self._findings)

        read_ones = self._each(lines.values(), read)
        return {one.path: one for one in read_ones if one is not None}

    def _check_manifest_lists(
        self,
        listed: list[tuple[dict[str, Any], ManifestList]],
        manifests: dict[str, Manifest],
        metadata: TableMetadata,
    ) -> dict[int, list[Pair]]:
        """Check every manifest list entry once, and return the manifests of each fully readable snapshot."""
        judged: set[Listed] = set()
        pairs: dict[int, list[Pair]] = {}
        for snapshot, read in listed:
            for line in read.manifests:
                check_line(read.path, line, snapshot, metadata, self._findings)
                manifest = manifests.get(line.path)
                if manifest is None or line in judged:
                    continue
                judged.add(line)
                check_against_manifest(read.path, line, manifest, metadata, self._findings)
                check_entries(line, manifest, metadata, self._findings)
            if all(line.path in manifests for line in read.manifests):
                pairs[snapshot["snapshot-id"]] = [(line, manifests[line.path]) for line in read.manifests]
        return pairs

    def _check_each_snapshot(
        self, wanted: list[dict[str, Any]], pairs: dict[int, list[Pair]], metadata: TableMetadata
    ) -> None:
        totals = SnapshotTotals()
        for snapshot in wanted:
            own = pairs.get(snapshot["snapshot-id"])
            if own is None:
                continue
            check_duplicates(snapshot, own, self._findings)
            check_summary(snapshot, own, totals, metadata, self._findings)
            parent = pairs.get(snapshot.get("parent-snapshot-id") or 0)
            check_continuity(snapshot, own, parent, metadata, self._findings)
            check_lineage(snapshot, own, parent, metadata, self._findings)

    def _read(self, path: str) -> bytes | None:
        try:
            return read_all(self._files, path)
        except FileNotFoundError:
            self._findings.breach(Rule.FILE_MISSING, "The file does not exist", file=path)
        except Exception as err:  # noqa: BLE001 - stores raise different errors
            self._findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the file: {err}", file=path)
        return None

    def _each(self, items: Iterable[_T], work: Callable[[_T], _R]) -> list[_R]:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="audit") as pool:
            return list(pool.map(work, items))
