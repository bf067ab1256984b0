"""Check the snapshots in table metadata: ids, order, parents, logs and refs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from floe_audit.metadata.metadata_file import ROW_LINEAGE
from floe_audit.spec.rules import Rule

if TYPE_CHECKING:
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.report import Findings

# Clocks of writers may differ: readers accept timestamps that go back by up to one minute.
_TOLERATED_MS = 60_000
NO_SNAPSHOT = -1
OPERATIONS = {"append", "replace", "overwrite", "delete"}


def sequence_number(snapshot: dict[str, Any]) -> int:
    """Return a snapshot's sequence number; 0 in format version 1."""
    value = snapshot.get("sequence-number")
    return value if isinstance(value, int) else 0


def current_snapshot_id(metadata: TableMetadata) -> int | None:
    """Return the id of the current snapshot."""
    value = metadata.document.get("current-snapshot-id")
    return value if isinstance(value, int) and value != NO_SNAPSHOT else None


def check_snapshots(metadata: TableMetadata, findings: Findings) -> None:
    """Check the snapshots using only the metadata file."""
    _check_each(metadata, findings)
    _check_ancestry(metadata, findings)
    _check_refs(metadata, findings)
    _check_logs(metadata, findings)
    _check_row_ids(metadata, findings)


def _check_each(metadata: TableMetadata, findings: Findings) -> None:
    seen: set[int] = set()
    for snapshot in metadata.document.get("snapshots") or []:
        if not findings.check(
            isinstance(snapshot, dict) and isinstance(snapshot.get("snapshot-id"), int),
            Rule.SNAPSHOT_ID,
            "A snapshot has no id",
            file=metadata.location,
        ):
            continue
        identity = snapshot["snapshot-id"]
        ok = identity not in seen
        findings.check(ok, Rule.SNAPSHOT_ID, f"Two snapshots have the id {identity}", file=metadata.location)
        seen.add(identity)
        _check_fields(metadata, snapshot, findings)
        schema_id = snapshot.get("schema-id")
        findings.check(
            schema_id is None or schema_id in metadata.schemas,
            Rule.SNAPSHOT_SCHEMA_ID,
            f"The schema of snapshot {identity} does not exist",
            file=metadata.location,
            expected=f"one of {sorted(metadata.schemas)}",
            found=schema_id,
        )


def _check_fields(metadata: TableMetadata, snapshot: dict[str, Any], findings: Findings) -> None:
    identity = snapshot["snapshot-id"]

    def required(name: str, kind: type) -> None:
        value = snapshot.get(name)
        ok = isinstance(value, kind) and not isinstance(value, bool)
        what = f"{name} of snapshot {identity} is missing or has the wrong type"
        findings.check(ok, Rule.SNAPSHOT_FIELD, what, file=metadata.location)

    required("timestamp-ms", int)
    if metadata.version == 1 and "manifest-list" not in snapshot:
        required("manifests", list)
    else:
        required("manifest-list", str)
        ok = "manifests" not in snapshot
        what = f"Snapshot {identity} has both a manifest list and manifests"
        findings.check(ok, Rule.SNAPSHOT_FIELD, what, file=metadata.location)
    for name in ("sequence-number", "parent-snapshot-id", "schema-id", "first-row-id", "added-rows"):
        value = snapshot.get(name)
        ok = value is None or (isinstance(value, int) and not isinstance(value, bool))
        findings.check(
            ok, Rule.SNAPSHOT_FIELD, f"{name} of snapshot {identity} is not a number", file=metadata.location
        )
    summary = snapshot.get("summary")
    if summary is None and (metadata.version == 1 or sequence_number(snapshot) == 0):
        return
    ok = isinstance(summary, dict) and all(isinstance(value, str) for value in summary.values())
    what = f"The summary of snapshot {identity} is not a map of strings"
    if findings.check(ok, Rule.SNAPSHOT_FIELD, what, file=metadata.location):
        assert isinstance(summary, dict)  # noqa: S101 - checked above
        operation = summary.get("operation")
        findings.check(
            operation in OPERATIONS,
            Rule.SNAPSHOT_OPERATION,
            f"The operation of snapshot {identity} is unknown",
            file=metadata.location,
            expected="append, replace, overwrite or delete",
            found=operation,
        )


def _check_ancestry(metadata: TableMetadata, findings: Findings) -> None:
    by_id = {one["snapshot-id"]: one for one in metadata.snapshots if isinstance(one.get("snapshot-id"), int)}
    numbers: dict[int, int] = {}
    last = metadata.document.get("last-sequence-number")
    for identity, snapshot in by_id.items():
        number = sequence_number(snapshot)
        if number:
            ok = number not in numbers
            what = f"Snapshots {numbers.get(number)} and {identity} have the same sequence number {number}"
            findings.check(ok, Rule.SNAPSHOT_SEQUENCE_NUMBER, what, file=metadata.location)
            numbers[number] = identity
        if isinstance(last, int):
            findings.check(
                number <= last,
                Rule.METADATA_LAST_SEQUENCE_NUMBER,
                f"last-sequence-number is lower than that of snapshot {identity}",
                file=metadata.location,
                expected=f"at least {number}",
                found=last,
            )
        parent_id = snapshot.get("parent-snapshot-id")
        findings.check(
            parent_id != identity,
            Rule.SNAPSHOT_PARENT,
            f"Snapshot {identity} is its own parent",
            file=metadata.location,
        )
        parent = by_id.get(parent_id) if isinstance(parent_id, int) else None
        if parent is not None and metadata.version > 1:
            before = sequence_number(parent)
            findings.check(
                number > before or number == before == 0,
                Rule.SNAPSHOT_SEQUENCE_NUMBER,
                f"Snapshot {identity} does not come after its parent {parent_id}",
                file=metadata.location,
                expected=f"more than {before}",
                found=number,
            )
    for identity in by_id:
        seen: set[int] = set()
        step: Any = identity
        while step in by_id and step not in seen:
            seen.add(step)
            step = by_id[step].get("parent-snapshot-id")
        if not findings.check(
            step not in seen,
            Rule.SNAPSHOT_PARENT,
            f"The ancestors of snapshot {identity} form a cycle",
            file=metadata.location,
        ):
            break
        if len(by_id) > len(seen) > 1000:  # noqa: PLR2004 - walk a long history only once
            break


def _check_refs(metadata: TableMetadata, findings: Findings) -> None:
    ids = {one.get("snapshot-id") for one in metadata.snapshots}
    current = current_snapshot_id(metadata)
    findings.check(
        current is None or current in ids,
        Rule.METADATA_CURRENT_SNAPSHOT,
        "The current snapshot does not exist",
        file=metadata.location,
        expected="the id of a snapshot",
        found=current,
    )
    refs = metadata.document.get("refs")
    if not isinstance(refs, dict):
        return
    main = refs.get("main")
    main_id = main.get("snapshot-id") if isinstance(main, dict) else None
    findings.check(
        main_id == current,
        Rule.METADATA_REFS,
        "The branch main does not point to the current snapshot",
        file=metadata.location,
        expected=current,
        found=main_id,
    )
    for name, ref in refs.items():
        if not findings.check(
            isinstance(ref, dict), Rule.METADATA_REFS, f"Ref {name!r} is not an object", file=metadata.location
        ):
            continue
        findings.check(
            ref.get("snapshot-id") in ids,
            Rule.METADATA_REFS,
            f"Ref {name!r} points to a snapshot that does not exist",
            file=metadata.location,
            expected="the id of a snapshot",
            found=ref.get("snapshot-id"),
        )
        kind = ref.get("type")
        ok = kind in {"branch", "tag"} and (name != "main" or kind == "branch")
        findings.check(ok, Rule.METADATA_REFS, f"Ref {name!r} has the invalid type {kind!r}", file=metadata.location)
        for limit in ("min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"):
            value = ref.get(limit)
            positive = isinstance(value, int) and not isinstance(value, bool) and value > 0
            ok = value is None or (positive and (kind == "branch" or limit == "max-ref-age-ms"))
            findings.check(
                ok, Rule.METADATA_REFS, f"{limit} of ref {name!r} is invalid: {value}", file=metadata.location
            )


def _check_logs(metadata: TableMetadata, findings: Findings) -> None:
    updated = metadata.document.get("last-updated-ms")
    ids = {one.get("snapshot-id") for one in metadata.snapshots}
    for key, rule, target in (
        ("snapshot-log", Rule.METADATA_SNAPSHOT_LOG, "snapshot-id"),
        ("metadata-log", Rule.METADATA_LOG, "metadata-file"),
    ):
        last: int | None = None
        entries = metadata.document.get(key) or []
        for entry in entries if isinstance(entries, list) else []:
            moment = entry.get("timestamp-ms") if isinstance(entry, dict) else None
            wanted = int if target == "snapshot-id" else str
            ok = isinstance(moment, int) and isinstance(entry.get(target), wanted)
            if not findings.check(
                ok, rule, f"An entry of {key} has no valid timestamp-ms or {target}", file=metadata.location
            ):
                continue
            assert isinstance(moment, int)  # noqa: S101 - checked above
            if last is not None:
                ok = moment >= last - _TOLERATED_MS
                what = f"{key} is not in chronological order"
                findings.check(ok, rule, what, file=metadata.location, expected=f"at least {last}", found=moment)
            last = moment
            if target == "snapshot-id":
                ok = entry[target] in ids
                what = f"{key} refers to snapshot {entry[target]}, which does not exist"
                findings.check(ok, rule, what, file=metadata.location)
        if last is not None and isinstance(updated, int):
            what = f"last-updated-ms is before the last entry of {key}"
            ok = updated >= last - _TOLERATED_MS
            findings.check(
                ok,
                Rule.METADATA_LAST_UPDATED,
                what,
                file=metadata.location,
                expected=f"at least {last}",
                found=updated,
            )
    log = metadata.document.get("snapshot-log")
    current = current_snapshot_id(metadata)
    if isinstance(log, list) and log and isinstance(log[-1], dict) and current is not None:
        findings.check(
            log[-1].get("snapshot-id") == current,
            Rule.METADATA_SNAPSHOT_LOG,
            "The last entry of snapshot-log is not the current snapshot",
            file=metadata.location,
            expected=current,
            found=log[-1].get("snapshot-id"),
        )


def _check_row_ids(metadata: TableMetadata, findings: Findings) -> None:
    following = metadata.document.get("next-row-id")
    if metadata.version < ROW_LINEAGE or not isinstance(following, int):
        return
    for snapshot in metadata.snapshots:
        first, added = snapshot.get("first-row-id"), snapshot.get("added-rows")
        if not isinstance(first, int):
            continue
        identity = snapshot.get("snapshot-id")
        ok = first >= 0 and isinstance(added, int) and added >= 0
        what = f"Snapshot {identity} has a first-row-id without a valid added-rows"
        if findings.check(ok, Rule.SNAPSHOT_ADDED_ROWS, what, file=metadata.location):
            assert isinstance(added, int)  # noqa: S101 - checked above
            findings.check(
                following >= first + added,
                Rule.METADATA_NEXT_ROW_ID,
                f"next-row-id is not above the row ids of snapshot {identity}",
                file=metadata.location,
                expected=f"at least {first + added}",
                found=following,
            )
    numbered = [one for one in metadata.snapshots if isinstance(one.get("first-row-id"), int)]
    numbered.sort(key=sequence_number)
    for before, after in itertools.pairwise(numbered):
        end = before["first-row-id"] + (before.get("added-rows") or 0)
        findings.check(
            after["first-row-id"] >= end,
            Rule.SNAPSHOT_FIRST_ROW_ID,
            f"The row ids of snapshot {after.get('snapshot-id')} overlap those of an earlier one",
            file=metadata.location,
            expected=f"at least {end}",
            found=after["first-row-id"],
        )
