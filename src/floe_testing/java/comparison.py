"""Verifies that Iceberg's Java library and an independent parser read the same metadata from a table's files.

The files are parsed here independently, as JSON and Avro. Java's view comes from its own metadata parser and from
Spark's metadata tables, which show sequence numbers after inheritance. Requires the classic local session.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from floe_audit.files.avro import open_avro
from floe_testing.java.deltas import java_table
from floe_testing.java.pyspark_internals import jvm_of

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

Record = dict[str, Any]

_MANIFEST = {
    500: "path",
    501: "length",
    502: "partition_spec_id",
    517: "content",
    515: "sequence_number",
    503: "added_snapshot_id",
    504: "added_files_count",
    505: "existing_files_count",
    506: "deleted_files_count",
}
_ENTRY = {0: "status", 1: "snapshot_id", 3: "sequence_number", 4: "file_sequence_number", 2: "data_file"}
_FILE = {
    134: "content",
    100: "file_path",
    101: "file_format",
    103: "record_count",
    104: "file_size_in_bytes",
    108: "column_sizes",
    109: "value_counts",
    110: "null_value_counts",
    137: "nan_value_counts",
    125: "lower_bounds",
    128: "upper_bounds",
    132: "split_offsets",
    135: "equality_ids",
    140: "sort_order_id",
    143: "referenced_data_file",
    144: "content_offset",
    145: "content_size_in_bytes",
}
_DELETED = 2
# Keys that Java writes in another form, or omits if they have their default.
_NOT_COMPARED = {"schema", "partition-spec", "statistics", "partition-statistics", "properties"}
# Fields that Java does not report for snapshots of format version 1, regardless of the table's current version.
_DEFAULTS = {"sequence-number": 0}


@dataclass(frozen=True)
class JavaComparison:
    """Compares Java's view of a table with independently parsed files.

    Attributes:
        session: A classic session with access to the table.
        name: Table name with its catalog.
    """

    session: SparkSession
    name: str

    def check_metadata(self, location: str) -> None:
        """Compare the metadata file with the output of Java's parser."""
        metadata = _json(location)
        read = self._parsed(location)
        for key in sorted(set(metadata) - _NOT_COMPARED):
            assert _same(metadata[key], read.get(key)), f"{key}: {metadata[key]} in the file, {read.get(key)} by Java"
        _check_current_schema(metadata, read)

    def check_entries(self, location: str) -> None:
        """Compare the live and deleted files of the current snapshot with the metadata table ``entries``."""
        metadata = _json(location)
        raw = [entry for manifest in _manifests(metadata) for entry in _entries(manifest)]
        hidden = ("readable_metrics", *(["data_file.partition"] if _by_uuid(metadata) else []))
        read = [_entry_by_java(row) for row in self._rows("entries", *hidden)]
        _agree("entries", raw, read)

    def check_tables(self, location: str) -> None:
        """Compare every other metadata table with the files."""
        metadata = _json(location)
        self._check_snapshots(metadata)
        manifests = list(_manifests(metadata))
        _agree(
            "manifests",
            [{key: value for key, value in one.items() if key != "sequence_number"} for one in manifests],
            [_manifest_by_java(row) for row in self._rows("manifests")],
        )
        live = [entry["data_file"] for one in manifests for entry in _entries(one) if entry["status"] != _DELETED]
        partition = ["partition"] if _by_uuid(metadata) else []
        read = self._rows("files", "readable_metrics", *partition)
        _agree("files", live, [{name: _plain(row[name]) for name in _FILE.values()} for row in read])
        counted = sum(row["record_count"] for row in self._rows("partitions", *partition))
        assert counted == sum(one["record_count"] for one in live if not one["content"]), "records by partition"

    def _check_snapshots(self, metadata: Record) -> None:
        snapshots = metadata.get("snapshots", [])
        expected = [
            {
                "snapshot_id": one["snapshot-id"],
                "parent_id": one.get("parent-snapshot-id"),
                "committed_at": one["timestamp-ms"],
                "operation": one["summary"]["operation"],
                "manifest_list": one["manifest-list"],
                "summary": {key: value for key, value in one["summary"].items() if key != "operation"},
            }
            for one in snapshots
        ]
        _agree("snapshots", expected, [_timed(row, "committed_at") for row in self._rows("snapshots")])
        refs = metadata.get("refs", {})
        found = {row["name"]: (row["type"].lower(), row["snapshot_id"]) for row in self._rows("refs")}
        assert found == {name: (ref["type"], ref["snapshot-id"]) for name, ref in refs.items()}, "refs"
        log = [(one["timestamp-ms"], one["snapshot-id"]) for one in metadata.get("snapshot-log", [])]
        history = [(_millis(row["made_current_at"]), row["snapshot_id"]) for row in self._rows("history")]
        assert sorted(log) == sorted(history), "history"

    def _parsed(self, location: str) -> Record:
        iceberg = jvm_of(self.session).org.apache.iceberg
        table = java_table(self.session, self.name)
        parser = iceberg.TableMetadataParser
        return cast("Record", json.loads(parser.toJson(parser.read(table.io(), location))))

    def _rows(self, metadata_table: str, *hidden: str) -> list[Record]:
        """Read a metadata table, without columns that Java cannot show: readable metrics, and partitions by UUID."""
        columns = f"* EXCEPT ({', '.join(hidden)})" if hidden else "*"
        frame = self.session.sql(f"SELECT {columns} FROM {self.name}.{metadata_table}")
        return [row.asDict(recursive=True) for row in frame.collect()]


def _by_uuid(metadata: Record) -> bool:
    """Whether a partition field contains UUIDs.

    Java represents such a value as ``java.util.UUID``, but Spark's metadata tables expect text, and fail with "Wrong
    class". Java can still read the manifests, as reading the table's rows shows.
    """
    sources = {
        field["source-id"]
        for spec in metadata["partition-specs"]
        for field in spec["fields"]
        if field["transform"] == "identity"
    }
    columns = (field for schema in metadata["schemas"] for field in schema["fields"])
    return any(field["type"] == "uuid" and field["id"] in sources for field in columns)


def _check_current_schema(metadata: Record, read: Record) -> None:
    number = metadata.get("current-schema-id", 0)
    mine = next(one for one in metadata["schemas"] if one["schema-id"] == number)
    java = next(one for one in read["schemas"] if one["schema-id"] == number)
    assert _same(mine["fields"], java["fields"]), f"schema: {mine['fields']} in the file, {java['fields']} by Java"


def _same(mine: Any, java: Any) -> bool:
    """Whether two JSON values are equal; null, an empty list and a missing key are equivalent."""
    if isinstance(mine, dict) and isinstance(java, dict):
        return all(_same(*(side.get(key, _DEFAULTS.get(key)) for side in (mine, java))) for key in {*mine, *java})
    if isinstance(mine, list) and isinstance(java, list):
        return len(mine) == len(java) and all(_same(*pair) for pair in zip(mine, java, strict=True))
    return bool(mine == java) or (not mine and not java and mine is not False and java is not False and mine != 0)


def _agree(what: str, mine: Iterable[Mapping[str, Any]], java: Iterable[Mapping[str, Any]]) -> None:
    left = sorted(map(repr, (_sorted(one) for one in mine)))
    right = sorted(map(repr, (_sorted(one) for one in java)))
    extra = [one for one in left if one not in right], [one for one in right if one not in left]
    assert left == right, f"{what}: only in the files: {extra[0]}; only by Java: {extra[1]}"


def _sorted(record: Mapping[str, Any]) -> Record:
    return {key: _sorted(value) if isinstance(value, dict) else value for key, value in sorted(record.items(), key=str)}


def _json(location: str) -> Record:
    return cast("Record", json.loads(_path(location).read_text(encoding="utf-8")))


def _path(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def _manifests(metadata: Record) -> Iterator[Record]:
    number = metadata.get("current-snapshot-id")
    snapshot = next((one for one in metadata.get("snapshots", []) if one["snapshot-id"] == number), None)
    if snapshot is None:
        return
    for record in _read(snapshot["manifest-list"], _MANIFEST):
        known = {name: record[name] for name in _MANIFEST.values()}
        yield {**known, "content": record["content"] or 0, "sequence_number": record["sequence_number"] or 0}


def _entries(manifest: Record) -> Iterator[Record]:
    for record in _read(manifest["path"], _ENTRY, {"data_file": _FILE}):
        file = {**record["data_file"], "content": record["data_file"]["content"] or 0}
        # Files of format version 1 have no sequence number, which means 0; deleted entries inherit none.
        number = None if record["status"] == _DELETED and record["numbered"] else manifest["sequence_number"]
        snapshot = record["snapshot_id"]
        yield {
            "status": record["status"],
            "snapshot_id": manifest["added_snapshot_id"] if snapshot is None else snapshot,
            "sequence_number": number if record["sequence_number"] is None else record["sequence_number"],
            "file_sequence_number": number
            if record["file_sequence_number"] is None
            else record["file_sequence_number"],
            "data_file": file,
        }


def _read(
    location: str, fields: Mapping[int, str], nested: Mapping[str, Mapping[int, str]] | None = None
) -> Iterator[Record]:
    file = open_avro(_path(location).read_bytes())
    names = _names(file.schema, fields)
    for record in file.records():
        found = {name: _plain(record.get(written)) for name, written in names.items()}
        found["numbered"] = bool(names.get("sequence_number"))
        for name, inner in (nested or {}).items():
            schema = next(one["type"] for one in file.schema["fields"] if one["name"] == names[name])
            written = _names(schema, inner)
            found[name] = {key: _plain(record[names[name]].get(source)) for key, source in written.items()}
        yield found


def _names(schema: Any, fields: Mapping[int, str]) -> dict[str, str]:
    """Map field names to their names in the file, by field id."""
    written = {one.get("field-id"): one["name"] for one in schema["fields"]}
    return {name: written.get(number, "") for number, name in fields.items()}


def _plain(value: Any) -> Any:
    """Return a map as a dict, in either of its Avro representations; an empty map becomes None."""
    if isinstance(value, list) and value and isinstance(value[0], dict) and set(value[0]) == {"key", "value"}:
        value = {one["key"]: one["value"] for one in value}
    if isinstance(value, dict):
        value = {key: bytes(one) if isinstance(one, bytearray) else one for key, one in value.items()}
    return value if value or isinstance(value, int | str) else None


def _manifest_by_java(row: Record) -> Record:
    counts = {
        f"{kind}_files_count": row[f"{kind}_data_files_count"] + row[f"{kind}_delete_files_count"]
        for kind in ("added", "existing", "deleted")
    }
    kept = {name: row[name] for name in _MANIFEST.values() if name in row}
    return {**kept, **counts}


def _entry_by_java(row: Record) -> Record:
    names = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
    file = {name: _plain(row["data_file"][name]) for name in _FILE.values()}
    return {**{name: row[name] for name in names}, "data_file": file}


def _timed(row: Record, column: str) -> Record:
    return {**row, column: _millis(row[column])}


def _millis(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 1000)
