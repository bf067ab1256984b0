"""Plants violations of the specification in a table's files, in memory, to test the auditor."""

from __future__ import annotations

import copy
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from floe_audit import AuditDepth, AuditReport, LocalFiles, audit_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from floe_audit import Rule

Record = dict[str, Any]
LIST, DATA, DELETES = "list", "data", "deletes"


def plain(path: str) -> str:
    """Return a local location without its scheme."""
    return urlsplit(path).path if path.startswith("file:") else path


class Planted:
    """A local table with in-memory changes to its files."""

    def __init__(self, metadata_location: str) -> None:
        self._metadata = metadata_location
        self._changed: dict[str, bytes | None] = {}

    def open(self, path: str) -> Any:
        if plain(path) in self._changed:
            return io.BytesIO(self._content(path))
        return LocalFiles().open(path)

    def size(self, path: str) -> int:
        return len(self._content(path)) if plain(path) in self._changed else LocalFiles().size(path)

    def _content(self, path: str) -> bytes:
        content = self._changed[plain(path)]
        if content is None:
            raise FileNotFoundError(path)
        return content

    def read(self, path: str) -> bytes:
        with self.open(path) as stream:
            return cast("bytes", stream.read())

    def replace(self, path: str, content: bytes | None) -> None:
        self._changed[plain(path)] = content

    def audit(self, depth: AuditDepth = AuditDepth.VALUES) -> AuditReport:
        return audit_table(self._metadata, self, depth=depth)

    # Table metadata

    @property
    def metadata_location(self) -> str:
        return self._metadata

    @property
    def document(self) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(self.read(self._metadata)))

    def metadata(self, change: Callable[[dict[str, Any]], object]) -> None:
        document = self.document
        change(document)
        self.replace(self._metadata, json.dumps(document).encode())

    @property
    def current(self) -> dict[str, Any]:
        document = self.document
        return next(one for one in document["snapshots"] if one["snapshot-id"] == document["current-snapshot-id"])

    # Avro files

    def records(self, path: str) -> tuple[list[Record], dict[str, Any], dict[str, Any]]:
        reader = fastavro.reader(io.BytesIO(self.read(path)))
        header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
        records = cast("list[Record]", list(reader))
        return records, header, copy.deepcopy(cast("dict[str, Any]", reader.writer_schema))

    def rewrite(self, path: str, change: Callable[[list[Record], dict[str, Any], dict[str, Any]], object]) -> None:
        """Change an Avro file; callers update its length in lists that reference it."""
        records, header, schema = self.records(path)
        change(records, header, schema)
        target = io.BytesIO()
        fastavro.writer(target, fastavro.parse_schema(schema, _force=True), records, codec="deflate", metadata=header)
        self.replace(path, target.getvalue())

    def manifest_list(self, change: Callable[[list[Record], dict[str, Any], dict[str, Any]], object]) -> None:
        """Change the manifest list of the current snapshot."""
        self.rewrite(self.current["manifest-list"], change)

    def lines(self, content: int | None = None) -> list[Record]:
        """Return the entries of the current manifest list."""
        records, _, _ = self.records(self.current["manifest-list"])
        return [one for one in records if content is None or one.get("content", 0) == content]

    def manifest_where(self, wanted: Callable[[Record, list[Record]], bool]) -> str:
        """Return the newest manifest whose manifest list entry and entries satisfy a condition."""
        for snapshot in reversed(self.document["snapshots"]):
            for line in self.records(snapshot["manifest-list"])[0]:
                if wanted(line, self.records(line["manifest_path"])[0]):
                    return cast("str", line["manifest_path"])
        msg = "No manifest satisfies the condition"
        raise AssertionError(msg)

    def manifest(self, path: str, change: Callable[[list[Record], dict[str, Any], dict[str, Any]], object]) -> None:
        """Change a manifest, and update its length in all manifest lists that reference it."""
        self.rewrite(path, change)
        length = self.size(path)
        for snapshot in self.document["snapshots"]:
            if any(line["manifest_path"] == path for line in self.records(snapshot["manifest-list"])[0]):
                self.rewrite(snapshot["manifest-list"], lambda lines, *_: _set_length(lines, path, length))

    # Data files

    def entries(self, path: str) -> list[Record]:
        return self.records(path)[0]

    def file(self, content: int = 0) -> tuple[str, str]:
        """Return a live file of the current snapshot, and its manifest."""
        for line in self.lines():
            for entry in self.entries(line["manifest_path"]):
                if entry["status"] != 2 and entry["data_file"].get("content", 0) == content:
                    return entry["data_file"]["file_path"], line["manifest_path"]
        msg = f"No file with content {content}"
        raise AssertionError(msg)

    def described(self, path: str, change: Callable[[Record], object]) -> None:
        """Change the metadata of a file in all manifests."""
        seen: set[str] = set()
        for snapshot in self.document["snapshots"]:
            for line in self.records(snapshot["manifest-list"])[0]:
                manifest = line["manifest_path"]
                if manifest in seen:
                    continue
                seen.add(manifest)
                if any(entry["data_file"]["file_path"] == path for entry in self.entries(manifest)):
                    self.manifest(manifest, lambda entries, *_: _describe(entries, path, change))

    def rows(self, path: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """Rewrite the rows of a Parquet file and update its size in manifests, but not its column metrics."""
        table = change(pq.read_table(io.BytesIO(self.read(path)), partitioning=None))
        target = io.BytesIO()
        pq.write_table(table, target, store_schema=False)
        self.replace(path, target.getvalue())

        def measured(file: Record) -> None:
            file["file_size_in_bytes"] = len(target.getvalue())
            file["split_offsets"] = [4]
            file["column_sizes"] = None

        self.described(path, measured)


def _set_length(lines: Iterable[Record], path: str, length: int) -> None:
    for line in lines:
        if line["manifest_path"] == path:
            line["manifest_length"] = length


def _describe(entries: Iterable[Record], path: str, change: Callable[[Record], object]) -> None:
    for entry in entries:
        if entry["data_file"]["file_path"] == path:
            change(entry["data_file"])


def metric(pairs: list[Record], column: int, value: object) -> None:
    """Set a value in a metrics map."""
    for pair in pairs:
        if pair["key"] == column:
            pair["value"] = value
            return
    pairs.append({"key": column, "value": value})


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set a nested value in the metadata file: keys, then the value or a function of the old value."""
    *keys, last, value = path

    def change(metadata: dict[str, Any]) -> None:
        target: Any = metadata
        for key in keys:
            target = target[key]
        target[last] = value(target[last]) if callable(value) else value

    return change


def another_schema(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """Add a schema with one more column to the table's schemas."""

    def change(metadata: dict[str, Any]) -> None:
        column = {"id": metadata["last-column-id"], "name": "more", "required": False, "type": "int"} | changes
        identifiers = {"identifier-field-ids": column.pop("identifiers")} if "identifiers" in column else {}
        known = [one for one in metadata["schemas"][0]["fields"] if one["id"] != column["id"]]
        metadata["schemas"].append({"type": "struct", "schema-id": 99, "fields": [*known, column]} | identifiers)

    return change


def with_ids(table: pa.Table, source: pa.Table) -> pa.Table:
    """Restore the field ids of the source in a changed table."""
    fields = [one.with_metadata(source.schema.field(one.name).metadata) for one in table.schema]
    return table.cast(pa.schema(fields))


@dataclass(frozen=True)
class Planting:
    """A change and the rules it violates."""

    rule: Rule
    name: str
    change: Callable[[Planted], object]
    version: int = 2
    also: frozenset[Rule] = frozenset()


class Plantings(list[Planting]):
    """A list of changes, with methods to add them by the file they affect."""

    def planted(self, rule: Rule, *, version: int = 2, also: Iterable[Rule] = ()) -> Callable[[Any], Any]:
        """Add a function that changes a table."""

        def keep(function: Callable[[Planted], object]) -> Callable[[Planted], object]:
            self.append(Planting(rule, function.__name__, function, version, frozenset(also)))
            return function

        return keep

    def document(
        self,
        rule: Rule,
        name: str,
        change: Callable[[dict[str, Any]], object],
        *,
        version: int = 2,
        also: Iterable[Rule] = (),
    ) -> None:
        """Add a change of the metadata file."""
        self.append(Planting(rule, name, lambda table: table.metadata(change), version, frozenset(also)))

    def line(
        self, rule: Rule, name: str, content: int = 0, *, version: int = 2, also: Iterable[Rule] = (), **values: Any
    ) -> None:
        """Set values in the current manifest list's first entry with a given content."""

        def change(lines: list[Record], *_: object) -> None:
            _update(next(one for one in lines if one.get("content", 0) == content), values)

        self.append(Planting(rule, name, lambda table: table.manifest_list(change), version, frozenset(also)))

    def described(
        self, rule: Rule, name: str, content: int = 0, *, version: int = 2, also: Iterable[Rule] = (), **values: Any
    ) -> None:
        """Set values in the metadata of one live file in all manifests."""

        def plant(table: Planted) -> None:
            table.described(table.file(content)[0], lambda file: _update(file, values))

        self.append(Planting(rule, name, plant, version, frozenset(also)))

    def header(self, rule: Rule, name: str, key: str, value: str | None) -> None:
        """Set a value in the header of a data manifest, or remove it if None."""

        def change(_entries: list[Record], found: dict[str, Any], _schema: dict[str, Any]) -> None:
            found.pop(key, None)
            found.update({} if value is None else {key: value})

        self.append(Planting(rule, name, lambda table: table.manifest(table.file()[1], change)))

    def entry(
        self, rule: Rule, name: str, wanted: int, *, version: int = 2, also: Iterable[Rule] = (), **values: Any
    ) -> None:
        """Set values in the newest data manifest's first entry with a status; ``file__x`` sets a field of its file."""

        def change(entries: list[Record], *_: object) -> None:
            chosen = next(one for one in entries if one["status"] == wanted)
            inner = {key.removeprefix("file__"): value for key, value in values.items() if key.startswith("file__")}
            _update(chosen["data_file"], inner)
            _update(chosen, {key: value for key, value in values.items() if not key.startswith("file__")})

        def fits(line: Record, entries: list[Record]) -> bool:
            return line.get("content", 0) == 0 and any(one["status"] == wanted for one in entries)

        def plant(table: Planted) -> None:
            table.manifest(table.manifest_where(fits), change)

        self.append(Planting(rule, name, plant, version, frozenset(also)))


def _update(target: Record, values: dict[str, Any]) -> None:
    for key, value in values.items():
        target[key] = value(target[key]) if callable(value) else value
