"""Check manifest lists against the manifests they list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floe_audit.files.avro import DamagedFileError, open_avro, unwrapped
from floe_audit.manifests.manifest_files import ADDED, DELETED, EXISTING
from floe_audit.manifests.partitions import check_summaries
from floe_audit.metadata.snapshots import sequence_number
from floe_audit.spec.records import LIST_FIELDS, SUMMARY_FIELDS, check_record, field_schema, project
from floe_audit.spec.rules import Rule

if TYPE_CHECKING:
    from floe_audit.files.avro import AvroFile
    from floe_audit.manifests.manifest_files import Manifest
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.report import Findings

_STATUSES = (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED))


@dataclass(frozen=True)
class Summary:
    """The summary of one partition field of a manifest, from a manifest list."""

    contains_null: bool
    contains_nan: bool | None
    lower: bytes | None
    upper: bytes | None


@dataclass(frozen=True)
class Listed:
    """One entry of a manifest list."""

    path: str
    length: int
    spec_id: int
    content: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    files: tuple[int | None, int | None, int | None]
    """Added, existing and deleted."""
    rows: tuple[int | None, int | None, int | None]
    summaries: tuple[Summary, ...] | None
    first_row_id: int | None
    encrypted: bool = False


@dataclass(frozen=True)
class ManifestList:
    """A manifest list."""

    path: str
    version: int
    manifests: tuple[Listed, ...]


def read_manifest_list(
    path: str, raw: bytes, snapshot: dict[str, Any], metadata: TableMetadata, findings: Findings
) -> ManifestList | None:
    """Read and check a manifest list; return None if it cannot be read."""
    try:
        avro = open_avro(raw)
        version = _check_header(path, avro, snapshot, metadata, findings)
        lines = _lines(path, avro, version, findings)
    except DamagedFileError as err:
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the manifest list: {err}", file=path)
        return None
    except Exception as err:  # noqa: BLE001 - damage can cause any error
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the manifest list: {err!r}", file=path)
        return None
    paths = [one.path for one in lines]
    what = "The manifest list contains a manifest twice"
    findings.check(len(set(paths)) == len(paths), Rule.LIST_DUPLICATE, what, file=path)
    return ManifestList(path, version, tuple(lines))


def _check_header(
    path: str, avro: AvroFile, snapshot: dict[str, Any], metadata: TableMetadata, findings: Findings
) -> int:
    text = avro.text("format-version")
    version = int(text) if text in {"1", "2", "3"} else (1 if sequence_number(snapshot) == 0 else metadata.version)
    what = "The header's format-version is unknown or above the table's"
    ok = text is None or (text in {"1", "2", "3"} and version <= metadata.version)
    findings.check(ok, Rule.LIST_HEADER, what, file=path, expected=metadata.version, found=text)
    # The other header keys are optional conventions; if present, they must be correct.
    facts = {"snapshot-id": snapshot.get("snapshot-id"), "parent-snapshot-id": snapshot.get("parent-snapshot-id")}
    if version > 1:
        facts["sequence-number"] = sequence_number(snapshot)
    for key, expected in facts.items():
        found = avro.text(key)
        ok = found is None or found == ("null" if expected is None else str(expected))
        if key == "parent-snapshot-id" and expected is None:
            continue
        findings.check(ok, Rule.LIST_HEADER, f"The header's {key} is wrong", file=path, expected=expected, found=found)

    def complain(message: str) -> None:
        findings.breach(Rule.LIST_SCHEMA, message, file=path)

    check_record(avro.schema, LIST_FIELDS, version, complain)
    partitions = unwrapped(field_schema(avro.schema, 507))
    if isinstance(partitions, dict):
        check_record(partitions.get("items"), SUMMARY_FIELDS, version, complain)
    return version


def _lines(path: str, avro: AvroFile, version: int, findings: Findings) -> list[Listed]:
    outer = project(avro.schema, LIST_FIELDS)
    partitions = unwrapped(field_schema(avro.schema, 507))
    inner = project(partitions.get("items") if isinstance(partitions, dict) else None, SUMMARY_FIELDS)
    lines: list[Listed] = []
    for record in avro.records():
        row = outer.read(record)
        required = [name for name, _, since, needed in LIST_FIELDS.values() if needed and since <= version]
        missing = [name for name in required if row[name] is None]
        if not findings.check(not missing, Rule.LIST_SCHEMA, f"An entry is missing {', '.join(missing)}", file=path):
            continue
        summaries = None
        if row["partitions"] is not None:
            read = [inner.read(one) for one in row["partitions"]]
            summaries = tuple(
                Summary(bool(one["contains_null"]), one["contains_nan"], one["lower_bound"], one["upper_bound"])
                for one in read
            )
        lines.append(
            Listed(
                path=row["manifest_path"],
                length=row["manifest_length"],
                spec_id=row["partition_spec_id"],
                content=row["content"] or 0,
                sequence_number=row["sequence_number"] or 0,
                min_sequence_number=row["min_sequence_number"] or 0,
                added_snapshot_id=row["added_snapshot_id"],
                files=(row["added_files_count"], row["existing_files_count"], row["deleted_files_count"]),
                rows=(row["added_rows_count"], row["existing_rows_count"], row["deleted_rows_count"]),
                summaries=summaries,
                first_row_id=row["first_row_id"],
                encrypted=row["key_metadata"] is not None,
            )
        )
    return lines


def check_line(where: str, line: Listed, snapshot: dict[str, Any], metadata: TableMetadata, findings: Findings) -> None:
    """Check a manifest list entry against its snapshot and the table metadata."""
    findings.check(
        line.spec_id in metadata.specs,
        Rule.LIST_SPEC_ID,
        f"The partition spec of manifest {line.path} does not exist",
        file=where,
        expected=f"one of {sorted(metadata.specs)}",
        found=line.spec_id,
    )
    findings.check(
        line.content in {0, 1},
        Rule.LIST_CONTENT,
        "The content of an entry is unknown",
        file=where,
        expected="0 or 1",
        found=line.content,
    )
    if metadata.version == 1:
        return
    number = sequence_number(snapshot)
    if line.added_snapshot_id == snapshot.get("snapshot-id"):
        expected, ok = str(number), line.sequence_number == number
    else:
        adder = metadata.snapshot(line.added_snapshot_id)
        if adder is not None:
            expected, ok = str(sequence_number(adder)), line.sequence_number == sequence_number(adder)
        else:
            expected, ok = f"less than {number}", line.sequence_number < number or number == 0
    what = f"The sequence number of manifest {line.path} differs from that of the snapshot that added it"
    findings.check(ok, Rule.LIST_SEQUENCE_NUMBER, what, file=where, expected=expected, found=line.sequence_number)
    ok = line.min_sequence_number <= line.sequence_number
    what = f"The min_sequence_number of manifest {line.path} is above its sequence_number"
    findings.check(
        ok,
        Rule.LIST_MIN_SEQUENCE_NUMBER,
        what,
        file=where,
        expected=f"at most {line.sequence_number}",
        found=line.min_sequence_number,
    )


def check_against_manifest(
    where: str, line: Listed, manifest: Manifest, metadata: TableMetadata, findings: Findings
) -> None:
    """Recompute a manifest list entry from its manifest."""
    what = f"The length of manifest {line.path}"
    findings.equal(Rule.LIST_LENGTH, what, manifest.size, line.length, file=where)
    findings.equal(
        Rule.LIST_CONTENT, f"The content of manifest {line.path}", manifest.content, line.content, file=where
    )
    for place, (name, status) in enumerate(_STATUSES):
        entries = [one for one in manifest.entries if one.status == status]
        stated_files, stated_rows = line.files[place], line.rows[place]
        if stated_files is not None:
            what = f"{name}_files_count of manifest {line.path}"
            findings.equal(Rule.LIST_FILE_COUNTS, what, len(entries), stated_files, file=where)
        if stated_rows is not None:
            what = f"{name}_rows_count of manifest {line.path}"
            rows = sum(one.file.records for one in entries)
            findings.equal(Rule.LIST_ROW_COUNTS, what, rows, stated_rows, file=where)
    numbers = [
        one.sequence_number if one.sequence_number is not None else line.sequence_number
        for one in manifest.entries
        if one.live
    ]
    if numbers and metadata.version > 1:
        what = f"min_sequence_number of manifest {line.path}"
        findings.equal(Rule.LIST_MIN_SEQUENCE_NUMBER, what, min(numbers), line.min_sequence_number, file=where)
    for one in manifest.entries:
        if one.status != EXISTING and one.snapshot_id is not None:
            findings.check(
                one.snapshot_id == line.added_snapshot_id,
                Rule.LIST_ADDED_SNAPSHOT,
                f"Manifest {line.path} has a file added or deleted by a snapshot other than its own",
                file=where,
                expected=line.added_snapshot_id,
                found=one.snapshot_id,
            )
    check_summaries(where, line, manifest, metadata, findings)
