"""Read manifests, and check each on its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floe_audit.files.avro import DamagedFileError, open_avro
from floe_audit.spec.records import ENTRY_FIELDS, FILE_FIELDS, check_record, field_schema, pairs, project, record_fields
from floe_audit.spec.rules import Rule
from floe_audit.spec.schemas import MalformedError, parse_schema
from floe_audit.spec.specs import parse_partition_fields
from floe_audit.spec.values import from_avro

if TYPE_CHECKING:
    from floe_audit.files.avro import AvroFile
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.report import Findings
    from floe_audit.spec.specs import Spec

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2
FORMATS = {"avro", "orc", "parquet"}


@dataclass(frozen=True)
class ContentFile:
    """A data file, a delete file or a deletion vector, as a manifest describes it."""

    content: int
    path: str
    format: str
    spec_id: int
    partition: tuple[Any, ...]
    records: int
    size: int
    column_sizes: dict[int, int] | None = None
    value_counts: dict[int, int] | None = None
    null_counts: dict[int, int] | None = None
    nan_counts: dict[int, int] | None = None
    lower_bounds: dict[int, bytes] | None = None
    upper_bounds: dict[int, bytes] | None = None
    encrypted: bool = False
    split_offsets: tuple[int, ...] | None = None
    equality_ids: tuple[int, ...] | None = None
    sort_order_id: int | None = None
    first_row_id: int | None = None
    referenced: str | None = None
    offset: int | None = None
    length: int | None = None

    @property
    def key(self) -> tuple[str, int | None]:
        """Unique key of the file; deletion vectors can share a path."""
        return self.path, self.offset

    @property
    def vector(self) -> bool:
        """Whether this is a deletion vector."""
        return self.format == "puffin"

    @property
    def stored_bytes(self) -> int:
        """The size that counts towards the table size: for a deletion vector, that of its blob."""
        return self.length if self.vector and self.length is not None else self.size


@dataclass(frozen=True)
class Entry:
    """A manifest entry, before inheritance."""

    status: int
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    file: ContentFile

    @property
    def live(self) -> bool:
        """Whether the file belongs to the snapshot."""
        return self.status != DELETED


@dataclass(frozen=True)
class Manifest:
    """A manifest."""

    path: str
    size: int
    version: int
    content: int
    spec_id: int
    entries: tuple[Entry, ...]
    live_keys: frozenset[tuple[str, int | None]] = field(default_factory=frozenset)


def read_manifest(path: str, raw: bytes, spec_id: int, metadata: TableMetadata, findings: Findings) -> Manifest | None:
    """Read and check a manifest; return None if it cannot be read."""
    try:
        avro = open_avro(raw)
        version = _check_header(path, avro, spec_id, metadata, findings)
        entries = _entries(path, avro, version, metadata.specs.get(spec_id), metadata, findings)
    except (DamagedFileError, MalformedError) as err:
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the manifest: {err}", file=path)
        return None
    except Exception as err:  # noqa: BLE001 - damage can cause any error
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the manifest: {err!r}", file=path)
        return None
    content = 1 if avro.text("content") == "deletes" else 0
    live = [one.file.key for one in entries if one.live]
    keys = frozenset(live)
    what = "The manifest lists a live file twice"
    findings.check(len(keys) == len(live), Rule.SNAPSHOT_DUPLICATE_FILE, what, file=path)
    return Manifest(path, len(raw), version, content, spec_id, tuple(entries), keys)


def _check_header(path: str, avro: AvroFile, spec_id: int, metadata: TableMetadata, findings: Findings) -> int:
    text = avro.text("format-version")
    version = int(text) if text in {"1", "2", "3"} else 1
    ok = text in {"1", "2", "3"} if text is not None else metadata.version == 1
    what = "The header's format-version is missing or unknown"
    findings.check(
        ok and version <= metadata.version,
        Rule.MANIFEST_HEADER,
        what,
        file=path,
        expected=metadata.version,
        found=text,
    )
    if version > 1:
        ok = avro.text("content") in {"data", "deletes"}
        what = "The header's content is neither data nor deletes"
        findings.check(
            ok, Rule.MANIFEST_HEADER, what, file=path, expected="data or deletes", found=avro.text("content")
        )
    written = avro.text("partition-spec-id")
    if written is not None or version > 1:
        findings.equal(Rule.MANIFEST_HEADER, "The header's partition-spec-id", str(spec_id), written, file=path)
    _check_header_schema(path, avro, metadata, findings)
    spec = metadata.specs.get(spec_id)
    try:
        fields = parse_partition_fields(json.loads(avro.text("partition-spec") or "null"))
    except (ValueError, MalformedError) as err:
        findings.breach(Rule.MANIFEST_HEADER, f"The header's partition-spec is malformed: {err}", file=path)
    else:
        ok = spec is None or fields == spec.fields
        what = f"The header's partition-spec differs from spec {spec_id} of the table"
        findings.check(ok, Rule.MANIFEST_HEADER, what, file=path)

    def complain(message: str) -> None:
        findings.breach(Rule.MANIFEST_SCHEMA, message, file=path)

    check_record(avro.schema, ENTRY_FIELDS, version, complain)
    data_file = field_schema(avro.schema, 2)
    check_record(data_file, FILE_FIELDS, version, complain)
    if spec is not None:
        written_ids = [one.get("field-id") for one in record_fields(field_schema(data_file, 102))]
        expected_ids = [one.id for one in spec.fields]
        ok = sorted(map(str, written_ids)) == sorted(map(str, expected_ids))
        what = "The field ids of the partition tuple differ from those of the spec"
        findings.check(ok, Rule.MANIFEST_SCHEMA, what, file=path, expected=expected_ids, found=written_ids)
    return version


def _check_header_schema(path: str, avro: AvroFile, metadata: TableMetadata, findings: Findings) -> None:
    try:
        document = json.loads(avro.text("schema") or "null")
        schema = parse_schema(document)
    except (ValueError, MalformedError) as err:
        findings.breach(Rule.MANIFEST_HEADER, f"The header's schema is malformed: {err}", file=path)
        return
    # The id may be part of the schema instead, as in the Java implementation.
    inside = document.get("schema-id")
    stated = avro.text("schema-id") or (None if inside is None else str(inside))
    ok = stated == str(schema.id) or (stated is None and avro.text("format-version") in {None, "1"})
    what = "The header's schema-id is missing or differs from that of its schema"
    findings.check(ok, Rule.MANIFEST_HEADER, what, file=path, expected=schema.id, found=stated)
    known = metadata.schemas.get(schema.id)
    if known is not None and metadata.version > 1:
        ok = {one.id: (one.path, one.type, one.required) for one in known.fields.values()} == {
            one.id: (one.path, one.type, one.required) for one in schema.fields.values()
        }
        what = f"The header's schema differs from schema {schema.id} of the table"
        findings.check(ok, Rule.MANIFEST_HEADER, what, file=path)


def _entries(
    path: str, avro: AvroFile, version: int, spec: Spec | None, metadata: TableMetadata, findings: Findings
) -> list[Entry]:
    outer = project(avro.schema, ENTRY_FIELDS)
    data_file = field_schema(avro.schema, 2)
    inner = project(data_file, FILE_FIELDS)
    partition_names = {one.get("field-id"): one["name"] for one in record_fields(field_schema(data_file, 102))}
    kinds = metadata.partition_types(spec) if spec is not None else []
    slots = [(one.id, kind) for one, kind in zip(spec.fields, kinds, strict=True)] if spec is not None else []
    entries: list[Entry] = []
    for record in avro.records():
        row = outer.read(record)
        ok = row["status"] in {EXISTING, ADDED, DELETED}
        what = "The status of an entry is unknown"
        if not findings.check(ok, Rule.MANIFEST_STATUS, what, file=path, expected="0, 1 or 2", found=row["status"]):
            continue
        values = inner.read(row["data_file"] or {})
        missing = [
            name for name in ("file_path", "file_format", "record_count", "file_size_in_bytes") if values[name] is None
        ]
        if version > 1 and values["content"] is None:
            missing.append("content")
        if not findings.check(not missing, Rule.MANIFEST_FIELD, f"An entry is missing {', '.join(missing)}", file=path):
            continue
        raw_partition = values["partition"] or {}
        try:
            partition = tuple(
                from_avro(kind, raw_partition.get(partition_names.get(identity, "")))
                if kind is not None
                else raw_partition.get(partition_names.get(identity, ""))
                for identity, kind in slots
            )
        except MalformedError as err:
            what = f"The partition of {values['file_path']} is malformed: {err}"
            findings.breach(Rule.MANIFEST_PARTITION, what, file=path)
            partition = ()
        entries.append(
            Entry(
                row["status"],
                row["snapshot_id"],
                row["sequence_number"] if version > 1 else 0,
                row["file_sequence_number"] if version > 1 else 0,
                _content_file(values, spec.id if spec is not None else 0, partition),
            )
        )
    return entries


def _content_file(values: dict[str, Any], spec_id: int, partition: tuple[Any, ...]) -> ContentFile:
    offsets, equality = values["split_offsets"], values["equality_ids"]
    return ContentFile(
        content=values["content"] or DATA,
        path=values["file_path"],
        format=values["file_format"].lower(),
        spec_id=spec_id,
        partition=partition,
        records=values["record_count"],
        size=values["file_size_in_bytes"],
        column_sizes=pairs(values["column_sizes"]),
        value_counts=pairs(values["value_counts"]),
        null_counts=pairs(values["null_value_counts"]),
        nan_counts=pairs(values["nan_value_counts"]),
        lower_bounds=pairs(values["lower_bounds"]),
        upper_bounds=pairs(values["upper_bounds"]),
        encrypted=values["key_metadata"] is not None,
        split_offsets=None if offsets is None else tuple(offsets),
        equality_ids=None if equality is None else tuple(equality),
        sort_order_id=values["sort_order_id"],
        first_row_id=values["first_row_id"],
        referenced=values["referenced_data_file"],
        offset=values["content_offset"],
        length=values["content_size_in_bytes"],
    )
