"""Check manifest entries: inherited sequence numbers and ids, and the fields of each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_audit.manifests.manifest_files import ADDED, DATA, DELETED, EQUALITY_DELETES, FORMATS, POSITION_DELETES
from floe_audit.metadata.metadata_file import ROW_LINEAGE
from floe_audit.metadata.snapshots import sequence_number
from floe_audit.spec.rules import Rule
from floe_audit.spec.schemas import MalformedError
from floe_audit.spec.values import UNBOUNDED, canonical, decode, is_nan, order

if TYPE_CHECKING:
    from floe_audit.manifests.manifest_files import ContentFile, Entry, Manifest
    from floe_audit.manifests.manifest_lists import Listed
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.report import Findings

_RESERVED = 2147483447


def data_sequence_number(entry: Entry, line: Listed) -> int:
    """Return the data sequence number of an entry, inherited if it is not set."""
    return entry.sequence_number if entry.sequence_number is not None else line.sequence_number


def unchanged(one: ContentFile, other: ContentFile) -> bool:
    """Whether two descriptions of a file agree; either may omit metrics."""
    facts = ("content", "format", "spec_id", "records", "size", "equality_ids", "sort_order_id", "referenced", "length")
    if any(getattr(one, name) != getattr(other, name) for name in facts):
        return False
    if [canonical(value) for value in one.partition] != [canonical(value) for value in other.partition]:
        return False
    for name in ("value_counts", "null_counts", "nan_counts", "lower_bounds", "upper_bounds", "split_offsets"):
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine and theirs and mine != theirs:
            return False
    return True


def check_entries(line: Listed, manifest: Manifest, metadata: TableMetadata, findings: Findings) -> None:
    """Check every entry of a manifest, given the manifest's entry in the manifest list."""
    for entry in manifest.entries:
        _check_sequence_numbers(line, entry, manifest, metadata, findings)
        _check_content(entry, manifest, metadata, findings)
        _check_partition(entry.file, manifest, metadata, findings)
        if entry.live:
            _check_metrics(entry.file, manifest, metadata, findings)
    _check_row_ids(manifest, metadata, findings)


def _check_sequence_numbers(
    line: Listed, entry: Entry, manifest: Manifest, metadata: TableMetadata, findings: Findings
) -> None:
    path, where = entry.file.path, manifest.path
    if manifest.version == 1:
        ok = entry.snapshot_id is not None
        findings.check(ok, Rule.MANIFEST_SNAPSHOT_ID, f"The entry of {path} has no snapshot id", file=where)
        return
    written = (entry.sequence_number, entry.file_sequence_number)
    if entry.status != ADDED:
        what = f"The entry of {path} is not new, but has no explicit sequence numbers"
        ok = None not in written
        findings.check(ok, Rule.MANIFEST_SEQUENCE_NUMBER, what, file=where)
        ok = entry.snapshot_id is not None
        findings.check(ok, Rule.MANIFEST_SNAPSHOT_ID, f"The entry of {path} has no snapshot id", file=where)
    elif entry.file_sequence_number is not None:
        what = f"The file sequence number of the new file {path}"
        findings.equal(
            Rule.MANIFEST_SEQUENCE_NUMBER, what, line.sequence_number, entry.file_sequence_number, file=where
        )
    number = data_sequence_number(entry, line)
    file_number = entry.file_sequence_number if entry.file_sequence_number is not None else line.sequence_number
    findings.check(
        0 <= number <= file_number <= line.sequence_number,
        Rule.MANIFEST_SEQUENCE_NUMBER,
        f"The sequence numbers of {path} are out of order",
        file=where,
        expected=f"data <= file <= {line.sequence_number}",
        found=f"{number}, {file_number}",
    )
    if entry.status == DELETED:
        return
    adder = metadata.snapshot(entry.snapshot_id if entry.snapshot_id is not None else line.added_snapshot_id)
    if adder is not None:
        what = f"The file sequence number of {path} is not that of the snapshot that added it"
        findings.check(
            file_number == sequence_number(adder),
            Rule.MANIFEST_SEQUENCE_NUMBER,
            what,
            file=where,
            expected=sequence_number(adder),
            found=file_number,
        )


def _check_content(entry: Entry, manifest: Manifest, metadata: TableMetadata, findings: Findings) -> None:
    file, where = entry.file, manifest.path
    kinds = {DATA} if manifest.content == 0 else {POSITION_DELETES, EQUALITY_DELETES}
    what = f"The content type of {file.path} does not match the manifest"
    findings.check(
        file.content in kinds, Rule.MANIFEST_CONTENT, what, file=where, expected=sorted(kinds), found=file.content
    )
    ok = file.format in FORMATS or (file.vector and file.content == POSITION_DELETES)
    what = f"The format of {file.path} is unknown: {file.format!r}"
    findings.check(ok, Rule.DATA_FORMAT, what, file=where)
    # A file without rows is valid.
    ok = file.records >= 0 and file.size > 0
    findings.check(ok, Rule.MANIFEST_FIELD, f"{file.path} has a negative record count or no size", file=where)
    if file.content == EQUALITY_DELETES:
        ok = bool(file.equality_ids) and set(file.equality_ids or ()) <= set(metadata.all_fields)
        what = f"The equality ids of {file.path} are missing or are not columns of the table"
        findings.check(ok, Rule.MANIFEST_EQUALITY_IDS, what, file=where, found=file.equality_ids, expected="column ids")
    else:
        what = f"{file.path} is not an equality delete file, but has equality ids"
        findings.check(not file.equality_ids, Rule.MANIFEST_EQUALITY_IDS, what, file=where)
    if file.vector:
        complete = None not in {file.referenced, file.offset, file.length}
        what = f"The deletion vector in {file.path} has no offset, length or referenced data file"
        findings.check(complete and manifest.version >= ROW_LINEAGE, Rule.MANIFEST_DELETION_VECTOR, what, file=where)
    elif file.content == POSITION_DELETES and entry.status == ADDED and manifest.version >= ROW_LINEAGE:
        what = f"{file.path} is a position delete file, but format version 3 only allows adding deletion vectors"
        findings.breach(Rule.MANIFEST_DELETION_VECTOR, what, file=where)
    if file.content != POSITION_DELETES and file.sort_order_id is not None:
        ok = file.sort_order_id == 0 or file.sort_order_id in metadata.orders
        what = f"The sort order of {file.path} does not exist"
        findings.check(
            ok,
            Rule.MANIFEST_SORT_ORDER,
            what,
            file=where,
            expected=f"one of {sorted(metadata.orders)}",
            found=file.sort_order_id,
        )
    if file.split_offsets is not None:
        ok = list(file.split_offsets) == sorted(file.split_offsets)
        what = f"The split offsets of {file.path} are not in order"
        findings.check(ok, Rule.DATA_SPLIT_OFFSETS, what, file=where)


def _check_partition(file: ContentFile, manifest: Manifest, metadata: TableMetadata, findings: Findings) -> None:
    spec = metadata.specs.get(manifest.spec_id)
    if spec is None or len(file.partition) != len(spec.fields):
        return
    for part, value in zip(spec.fields, file.partition, strict=True):
        if part.transform.name == "void":
            ok = value is None
        elif part.transform.name == "bucket":
            ok = value is None or 0 <= value < part.transform.parameter
        elif part.transform.name == "truncate" and value is not None:
            kind = metadata.source_type(part.source_id)
            ok = kind is None or part.transform.yields(kind, value)
        else:
            continue
        what = f"{value!r} is not a valid result of {part.transform} for {part.name!r} of {file.path}"
        findings.check(ok, Rule.MANIFEST_PARTITION, what, file=manifest.path)


def _check_metrics(file: ContentFile, manifest: Manifest, metadata: TableMetadata, findings: Findings) -> None:
    fields = metadata.all_fields
    for name, counts in (("null", file.null_counts), ("NaN", file.nan_counts)):
        for identity, count in (counts or {}).items():
            total = (file.value_counts or {}).get(identity)
            ok = count >= 0 and (total is None or count <= total)
            what = f"The {name} count of column {identity} of {file.path} is out of range"
            findings.check(
                ok, Rule.MANIFEST_METRICS, what, file=manifest.path, expected=f"at most {total}", found=count
            )
    for identity, count in (file.value_counts or {}).items():
        one = fields.get(identity)
        # Lists and maps have any number of values; other columns have one per row.
        if one is not None and not one.repeated and not one.type.nested and identity < _RESERVED:
            what = f"The value count of column {one.path!r} of {file.path} is not the record count"
            # ORC does not count a field's value if its struct is null.
            hidden = file.format == "orc" and one.parent is not None and count < file.records
            findings.check(
                count == file.records or hidden,
                Rule.MANIFEST_METRICS,
                what,
                file=manifest.path,
                expected=file.records,
                found=count,
            )
    for identity in {*(file.lower_bounds or {}), *(file.upper_bounds or {})}:
        one = fields.get(identity)
        if one is None or one.type.name in UNBOUNDED or one.type.nested:
            continue
        raw = [(bounds or {}).get(identity) for bounds in (file.lower_bounds, file.upper_bounds)]
        try:
            bounds = [None if bound is None else decode(one.type, bound, truncated=True) for bound in raw]
        except MalformedError as err:
            what = f"A bound of column {one.path!r} of {file.path} is malformed: {err}"
            findings.breach(Rule.MANIFEST_METRICS, what, file=manifest.path)
            continue
        lower, upper = bounds
        ok = not is_nan(lower) and not is_nan(upper)
        if ok and lower is not None and upper is not None:
            ok = order(lower) <= order(upper)
        what = f"The bounds of column {one.path!r} of {file.path} are NaN or in the wrong order"
        findings.check(
            ok, Rule.MANIFEST_METRICS, what, file=manifest.path, found=f"{lower!r}, {upper!r}", expected="in order"
        )


def _check_row_ids(manifest: Manifest, metadata: TableMetadata, findings: Findings) -> None:
    if metadata.version < ROW_LINEAGE or manifest.version < ROW_LINEAGE:
        return
    for entry in manifest.entries:
        file = entry.file
        if file.content != DATA:
            what = f"The delete file {file.path} has a first row id"
            findings.check(file.first_row_id is None, Rule.MANIFEST_FIRST_ROW_ID, what, file=manifest.path)
        elif file.first_row_id is not None:
            following = metadata.document.get("next-row-id")
            ok = file.first_row_id >= 0 and (
                not isinstance(following, int) or file.first_row_id + file.records <= following
            )
            what = f"The row ids of {file.path} are not below next-row-id"
            findings.check(
                ok,
                Rule.MANIFEST_FIRST_ROW_ID,
                what,
                file=manifest.path,
                expected=f"below {following}",
                found=file.first_row_id,
            )
