"""Check statistics files against the table metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_audit.files.avro import DamagedFileError
from floe_audit.files.open_files import opened
from floe_audit.files.puffin import read_blob, read_footer
from floe_audit.metadata.summaries import tally
from floe_audit.spec.columns import nodes
from floe_audit.spec.rules import Rule
from floe_audit.spec.values import canonical

if TYPE_CHECKING:
    from floe_audit.files.access import FileSource
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.metadata.summaries import Pair
    from floe_audit.report import Findings

_DESCRIBED = ("type", "snapshot-id", "sequence-number", "fields")
_SPEC_ID, _RECORDS, _FILES, _BYTES = 2, 3, 4, 5


def registered(metadata: TableMetadata, key: str, rule: Rule, findings: Findings) -> list[dict[str, Any]]:
    """Return the statistics files in the table metadata, and check that their snapshots exist."""
    ids = {one.get("snapshot-id") for one in metadata.snapshots}
    seen: set[object] = set()
    found: list[dict[str, Any]] = []
    for one in metadata.document.get(key) or []:
        ok = isinstance(one, dict) and isinstance(one.get("statistics-path"), str)
        what = f"An entry of {key} has no statistics-path"
        if not findings.check(ok, rule, what, file=metadata.location):
            continue
        snapshot = one.get("snapshot-id")
        ok = snapshot in ids
        what = f"An entry of {key} refers to snapshot {snapshot}, which does not exist"
        findings.check(ok, rule, what, file=metadata.location)
        what = f"Snapshot {snapshot} has several entries in {key}"
        findings.check(snapshot not in seen, rule, what, file=metadata.location)
        seen.add(snapshot)
        found.append(one)
    return found


def check_statistics(entry: dict[str, Any], metadata: TableMetadata, files: FileSource, findings: Findings) -> None:
    """Check a table statistics file, which is a Puffin file."""
    path = entry["statistics-path"]
    try:
        footer = read_footer(files, path)
        findings.equal(Rule.STATISTICS_FILE, "The file size", footer.size, entry.get("file-size-in-bytes"), file=path)
        stated = entry.get("file-footer-size-in-bytes")
        findings.equal(Rule.STATISTICS_FILE, "The footer size", footer.footer_size, stated, file=path)
        described = entry.get("blob-metadata")
        blobs = [{key: one.get(key) for key in _DESCRIBED} for one in footer.blobs]
        claimed = (
            [{key: one.get(key) for key in _DESCRIBED} for one in described] if isinstance(described, list) else []
        )
        what = "The blobs differ from those in the table metadata"
        ok = sorted(map(str, blobs)) == sorted(map(str, claimed))
        findings.check(ok, Rule.STATISTICS_FILE, what, file=path, expected=claimed, found=blobs)
        for blob in footer.blobs:
            read_blob(files, path, blob)
            unknown = [one for one in blob["fields"] if one not in metadata.all_fields]
            findings.check(not unknown, Rule.STATISTICS_FILE, f"A blob refers to unknown columns {unknown}", file=path)
    except FileNotFoundError:
        findings.breach(Rule.FILE_MISSING, "The statistics file does not exist", file=path)
    except DamagedFileError as err:
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the statistics file: {err}", file=path)
    except Exception as err:  # noqa: BLE001 - damage can cause any error
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the statistics file: {err!r}", file=path)


def check_partition_statistics(
    entry: dict[str, Any],
    pairs: list[Pair] | None,
    files: FileSource,
    findings: Findings,
) -> None:
    """Check a partition statistics file: its size, and its statistics against the snapshot's files."""
    path = entry["statistics-path"]
    rule = Rule.PARTITION_STATISTICS_FILE
    try:
        findings.equal(rule, "The file size", files.size(path), entry.get("file-size-in-bytes"), file=path)
        form = path.rpartition(".")[2].lower()
        with opened(files, path, form if form in {"orc", "avro"} else "parquet") as source:
            names = {one.id: one.path[0] for one in nodes(source.schema) if len(one.path) == 1}
            rows = [row for batch in source.batches() for row in batch.to_pylist()]
        missing = [one for one in (_SPEC_ID, _RECORDS, _FILES, _BYTES) if one not in names]
        what = f"The partition statistics file is missing the columns {missing}"
        if not findings.check(not missing, rule, what, file=path) or pairs is None:
            return
        live = [one.file for _, manifest in pairs for one in manifest.entries if one.live]
        totals = tally(live)
        data_bytes = sum(one.size for one in live if one.content == 0)
        for column, expected in ((_RECORDS, totals["records"]), (_FILES, totals["data-files"]), (_BYTES, data_bytes)):
            found = sum(row[names[column]] or 0 for row in rows)
            findings.equal(rule, f"The sum of {names[column]}", expected, found, file=path)
        # Partitions without files may still be listed.
        partitions = {(one.spec_id, *(canonical(value) for value in one.partition)) for one in live if one.content == 0}
        listed = sum(1 for row in rows if row[names[_FILES]])
        findings.equal(rule, "The number of partitions with data files", len(partitions), listed, file=path)
    except FileNotFoundError:
        findings.breach(Rule.FILE_MISSING, "The partition statistics file does not exist", file=path)
    except Exception as err:  # noqa: BLE001 - damage can cause any error
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the partition statistics file: {err!r}", file=path)
