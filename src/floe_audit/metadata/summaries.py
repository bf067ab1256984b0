"""Check snapshot summaries and the continuity of files between snapshots."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from floe_audit.manifests.manifest_files import ADDED, DATA, DELETED, EQUALITY_DELETES
from floe_audit.spec.rules import Rule
from floe_audit.spec.values import canonical

if TYPE_CHECKING:
    from floe_audit.manifests.manifest_files import ContentFile, Entry, Manifest
    from floe_audit.manifests.manifest_lists import Listed
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.report import Findings

Pair = tuple["Listed", "Manifest"]


def tally(files: list[ContentFile]) -> Counter[str]:
    """Count files, records and bytes by the rules for snapshot summaries."""
    counts: Counter[str] = Counter()
    for one in files:
        counts["files-size"] += one.stored_bytes
        if one.content == DATA:
            counts["data-files"] += 1
            counts["records"] += one.records
            continue
        counts["delete-files"] += 1
        if one.content == EQUALITY_DELETES:
            counts["equality-delete-files"] += 1
            counts["equality-deletes"] += one.records
        else:
            counts["dvs" if one.vector else "position-delete-files"] += 1
            counts["position-deletes"] += one.records
    return counts


def _changes(snapshot: dict[str, Any], pairs: list[Pair], status: int) -> list[Entry]:
    identity = snapshot.get("snapshot-id")
    return [
        entry
        for line, manifest in pairs
        if line.added_snapshot_id == identity
        for entry in manifest.entries
        if entry.status == status and entry.snapshot_id in {None, identity}
    ]


class SnapshotTotals:
    """Counts of the live files per manifest, cached because snapshots share manifests."""

    def __init__(self) -> None:
        self._kept: dict[str, Counter[str]] = {}

    def of(self, manifest: Manifest) -> Counter[str]:
        """Return the counts of a manifest's live files."""
        if manifest.path not in self._kept:
            self._kept[manifest.path] = tally([one.file for one in manifest.entries if one.live])
        return self._kept[manifest.path]


def check_summary(
    snapshot: dict[str, Any], pairs: list[Pair], totals: SnapshotTotals, metadata: TableMetadata, findings: Findings
) -> None:
    """Recompute a snapshot's summary."""
    summary = snapshot.get("summary")
    if not isinstance(summary, dict):
        return
    identity = snapshot.get("snapshot-id")
    added = _changes(snapshot, pairs, ADDED)
    removed = _changes(snapshot, pairs, DELETED)
    live: Counter[str] = Counter()
    for _, manifest in pairs:
        live.update(totals.of(manifest))
    plus, minus = tally([one.file for one in added]), tally([one.file for one in removed])
    for name in ("data-files", "records"):
        _compare(summary, f"added-{name}", plus[name], Rule.SUMMARY_CHANGE, identity, metadata, findings)
        _compare(summary, f"deleted-{name}", minus[name], Rule.SUMMARY_CHANGE, identity, metadata, findings)
    for name in (
        "files-size",
        "delete-files",
        "equality-delete-files",
        "position-delete-files",
        "dvs",
        "equality-deletes",
        "position-deletes",
    ):
        _compare(summary, f"added-{name}", plus[name], Rule.SUMMARY_CHANGE, identity, metadata, findings)
        _compare(summary, f"removed-{name}", minus[name], Rule.SUMMARY_CHANGE, identity, metadata, findings)
    for name in ("data-files", "records", "files-size", "delete-files", "equality-deletes", "position-deletes"):
        _compare(summary, f"total-{name}", live[name], Rule.SUMMARY_TOTAL, identity, metadata, findings)
    _check_partition_count(summary, [*added, *removed], identity, metadata, findings)
    _check_operation(summary, plus, minus, live, identity, metadata, findings)


def _compare(
    summary: dict[str, Any],
    key: str,
    expected: int,
    rule: Rule,
    identity: object,
    metadata: TableMetadata,
    findings: Findings,
) -> None:
    found = summary.get(key)
    if found is not None:
        findings.equal(rule, f"{key} of snapshot {identity}", str(expected), found, file=metadata.location)


def _check_partition_count(
    summary: dict[str, Any], changed: list[Entry], identity: object, metadata: TableMetadata, findings: Findings
) -> None:
    found = summary.get("changed-partition-count")
    if found is None:
        return
    tuples = {tuple(canonical(value) for value in one.file.partition) for one in changed}
    with_specs = {(one.file.spec_id, *(canonical(value) for value in one.file.partition)) for one in changed}
    # Java counts partition paths, in which null and the string "null" are the same.
    folders = {tuple("null" if value is None else value for value in one) for one in tuples}
    findings.check(
        found in {str(len(counted)) for counted in (tuples, with_specs, folders)},
        Rule.SUMMARY_PARTITIONS,
        f"changed-partition-count of snapshot {identity} is wrong",
        file=metadata.location,
        expected=len(with_specs),
        found=found,
    )


def _check_operation(
    summary: dict[str, Any],
    plus: Counter[str],
    minus: Counter[str],
    live: Counter[str],
    identity: object,
    metadata: TableMetadata,
    findings: Findings,
) -> None:
    operation = summary.get("operation")
    happened = f"added {_listed(plus)}, removed {_listed(minus)}"
    match operation:
        case "append":
            ok = not minus["data-files"] and not minus["delete-files"] and not plus["delete-files"]
        case "delete":
            ok = not plus["data-files"]
        case "replace":
            deletes = live["delete-files"] or minus["delete-files"] or plus["delete-files"]
            ok = bool(deletes) or plus["records"] == minus["records"]
        case _:
            return
    what = f"Snapshot {identity} has operation {operation}, but {happened}"
    findings.check(ok, Rule.SNAPSHOT_OPERATION, what, file=metadata.location)


def _listed(counts: Counter[str]) -> str:
    return f"{counts['data-files']} data files with {counts['records']} rows and {counts['delete-files']} delete files"


def check_continuity(
    snapshot: dict[str, Any], pairs: list[Pair], parent: list[Pair] | None, metadata: TableMetadata, findings: Findings
) -> None:
    """Check that a snapshot's files are those of its parent, plus added files, minus deleted ones."""
    identity = snapshot.get("snapshot-id")
    if snapshot.get("parent-snapshot-id") is None:
        foreign = sorted({line.added_snapshot_id for line, _ in pairs} - {identity})
        what = f"Snapshot {identity} has no parent, but has manifests of other snapshots: {foreign}"
        findings.check(not foreign, Rule.SNAPSHOT_PARENT, what, file=metadata.location)
        inherited = any(entry.status != ADDED for _, manifest in pairs for entry in manifest.entries)
        what = f"Snapshot {identity} has no parent, but has files that it did not add"
        findings.check(foreign or not inherited, Rule.SNAPSHOT_PARENT, what, file=metadata.location)
    if parent is None:
        return
    kept = {manifest.path for _, manifest in pairs} & {manifest.path for _, manifest in parent}
    before = {key for _, manifest in parent if manifest.path not in kept for key in manifest.live_keys}
    after = {key for _, manifest in pairs if manifest.path not in kept for key in manifest.live_keys}
    added = {one.file.key for one in _changes(snapshot, pairs, ADDED)}
    removed = {one.file.key for one in _changes(snapshot, pairs, DELETED)}
    for unexplained, what in (
        (after - before - added, "has files that are neither in its parent nor marked as added"),
        (before - after - removed, "is missing files of its parent that are not marked as deleted"),
        (added & before & after, "marks files of its parent as added"),
        (removed & after - added, "has files that are marked as deleted"),
    ):
        shown = ", ".join(sorted(key[0] for key in unexplained)[:3])
        message = f"Snapshot {identity} {what}: {shown}"
        where = str(snapshot.get("manifest-list") or metadata.location)
        findings.check(not unexplained, Rule.SNAPSHOT_CONTINUITY, message, file=where)


def check_duplicates(snapshot: dict[str, Any], pairs: list[Pair], findings: Findings) -> None:
    """Check that a snapshot contains each live file once."""
    total = sum(len(manifest.live_keys) for _, manifest in pairs)
    union: set[tuple[str, int | None]] = set()
    for _, manifest in pairs:
        union |= manifest.live_keys
    ok = len(union) == total
    what = f"Snapshot {snapshot.get('snapshot-id')} lists {total - len(union)} live files more than once"
    findings.check(ok, Rule.SNAPSHOT_DUPLICATE_FILE, what, file=str(snapshot.get("manifest-list") or ""))
