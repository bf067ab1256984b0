"""Check row lineage: the row ids assigned to manifests and files, since format version 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_audit.manifests.manifest_files import DATA
from floe_audit.metadata.metadata_file import ROW_LINEAGE
from floe_audit.spec.rules import Rule

if TYPE_CHECKING:
    from floe_audit.manifests.manifest_files import Manifest
    from floe_audit.manifests.manifest_lists import Listed
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.metadata.summaries import Pair
    from floe_audit.report import Findings

Key = tuple[str, int | None]


def first_row_ids(line: Listed, manifest: Manifest) -> dict[Key, tuple[int, int]]:
    """Return the first row id, inherited if not set, and the row count of each live data file."""
    found: dict[Key, tuple[int, int]] = {}
    following = line.first_row_id
    for entry in manifest.entries:
        file = entry.file
        if file.content != DATA:
            continue
        first = file.first_row_id
        if first is None and following is not None and entry.live:
            first, following = following, following + file.records
        if first is not None and entry.live:
            found[file.key] = (first, file.records)
    return found


def check_lineage(
    snapshot: dict[str, Any],
    pairs: list[Pair],
    parent: list[Pair] | None,
    metadata: TableMetadata,
    findings: Findings,
) -> None:
    """Check the row ids that a snapshot assigned, and that it preserves those of its parent."""
    start = snapshot.get("first-row-id")
    if metadata.version < ROW_LINEAGE or not isinstance(start, int):
        return
    where = str(snapshot.get("manifest-list") or metadata.location)
    identity = snapshot.get("snapshot-id")
    end = start
    for line, manifest in pairs:
        if line.content != 0:
            what = f"The delete manifest {line.path} has a first row id"
            findings.check(line.first_row_id is None, Rule.LIST_FIRST_ROW_ID, what, file=where)
            continue
        what = f"The data manifest {line.path} has no first row id"
        if not findings.check(line.first_row_id is not None, Rule.LIST_FIRST_ROW_ID, what, file=where):
            continue
        assert line.first_row_id is not None  # noqa: S101 - checked above
        fresh = line.added_snapshot_id == identity
        if fresh or line.first_row_id >= start:
            inherited = [one.file.records for one in manifest.entries if one.live and one.file.first_row_id is None]
            what = f"The first row id of manifest {line.path} overlaps row ids assigned earlier"
            findings.check(
                line.first_row_id >= end,
                Rule.LIST_FIRST_ROW_ID,
                what,
                file=where,
                expected=f"at least {end}",
                found=line.first_row_id,
            )
            end = max(end, line.first_row_id + sum(inherited))
    added = snapshot.get("added-rows")
    if isinstance(added, int):
        what = f"added-rows of snapshot {identity} does not cover the row ids it assigned"
        ok = end <= start + added
        findings.check(
            ok,
            Rule.SNAPSHOT_ADDED_ROWS,
            what,
            file=metadata.location,
            expected=f"at least {end - start}",
            found=added,
        )
    _check_disjoint(pairs, where, findings)
    if parent is not None:
        _check_kept(pairs, parent, where, findings)


def _check_disjoint(pairs: list[Pair], where: str, findings: Findings) -> None:
    ranges = sorted(one for line, manifest in pairs for one in first_row_ids(line, manifest).values() if one[1])
    end = 0
    for first, count in ranges:
        ok = first >= end
        what = "Two files of the snapshot have overlapping row ids"
        findings.check(ok, Rule.MANIFEST_FIRST_ROW_ID, what, file=where, expected=f"at least {end}", found=first)
        end = first + count


def _check_kept(pairs: list[Pair], parent: list[Pair], where: str, findings: Findings) -> None:
    before = {manifest.path: (line, manifest) for line, manifest in parent}
    ids: dict[Key, tuple[int, int]] = {}
    for line, manifest in pairs:
        known = before.get(manifest.path)
        if known is not None:
            ok = known[0].first_row_id in {None, line.first_row_id}
            what = f"The first row id of manifest {line.path} changed"
            findings.check(
                ok,
                Rule.LIST_FIRST_ROW_ID,
                what,
                file=where,
                expected=known[0].first_row_id,
                found=line.first_row_id,
            )
        else:
            ids.update(first_row_ids(line, manifest))
    here = {manifest.path for _, manifest in pairs}
    for line, manifest in parent:
        if manifest.path in here:
            continue
        for key, (first, _) in first_row_ids(line, manifest).items():
            if key in ids:
                what = f"The rows of {key[0]} have new row ids"
                found = ids[key][0]
                findings.check(
                    first == found, Rule.MANIFEST_FIRST_ROW_ID, what, file=where, expected=first, found=found
                )
