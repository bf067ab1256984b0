"""Count the live rows of a snapshot, applying deletes by the rules of scan planning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from floe_audit.files.open_files import opened
from floe_audit.manifests.entries import data_sequence_number
from floe_audit.manifests.manifest_files import DATA, EQUALITY_DELETES
from floe_audit.spec.columns import column_values, mapped_ids, nodes, normal
from floe_audit.spec.rules import Rule
from floe_audit.spec.values import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from floe_audit.data.deletes import DeletedPositions
    from floe_audit.files.access import FileSource
    from floe_audit.manifests.manifest_files import ContentFile
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.metadata.summaries import Pair
    from floe_audit.report import Findings

Key = tuple[str, int | None]
Placed = tuple["ContentFile", int]
"""A file and its data sequence number."""


def _scope(file: ContentFile) -> tuple[Any, ...]:
    return (file.spec_id, *(canonical(value) for value in file.partition))


class LiveRows:
    """Counts the live rows of snapshots; counts per data file are cached, because snapshots share files."""

    def __init__(
        self,
        files: FileSource,
        positions: dict[Key, DeletedPositions],
        metadata: TableMetadata,
        findings: Findings,
    ) -> None:
        self._files = files
        self._positions = positions
        self._metadata = metadata
        self._findings = findings
        self._keys: dict[str, set[tuple[Any, ...]]] = {}
        self._left: dict[tuple[str, frozenset[Key]], int] = {}

    def of(self, snapshot: dict[str, Any], pairs: list[Pair]) -> int:
        """Return the number of rows of a snapshot."""
        data: list[Placed] = []
        deletes: list[Placed] = []
        for line, manifest in pairs:
            for entry in manifest.entries:
                if entry.live:
                    target = data if entry.file.content == DATA else deletes
                    target.append((entry.file, data_sequence_number(entry, line)))
        self._check_vectors(snapshot, data, deletes)
        if not deletes:
            return sum(file.records for file, _ in data)
        return sum(self._rows_left(file, number, deletes) for file, number in data)

    def _check_vectors(self, snapshot: dict[str, Any], data: list[Placed], deletes: list[Placed]) -> None:
        """Check that each data file has at most one deletion vector, and that every vector's data file is live."""
        paths = {file.path for file, _ in data}
        seen: set[str | None] = set()
        for file, _ in deletes:
            if not file.vector:
                continue
            ok = file.referenced not in seen
            what = f"Snapshot {snapshot.get('snapshot-id')} has two deletion vectors for {file.referenced}"
            self._findings.check(ok, Rule.MANIFEST_DELETION_VECTOR, what, file=file.path)
            ok = file.referenced in paths
            what = (
                f"Snapshot {snapshot.get('snapshot-id')} has a deletion vector for {file.referenced}, which is not live"
            )
            self._findings.check(ok, Rule.MANIFEST_DELETION_VECTOR, what, file=file.path)
            seen.add(file.referenced)

    def _rows_left(self, file: ContentFile, number: int, deletes: list[Placed]) -> int:
        applied = [delete for delete, later in deletes if self._applies(delete, later, file, number)]
        if any(one.vector for one in applied):
            applied = [one for one in applied if one.vector or one.content == EQUALITY_DELETES]
        if not applied:
            return file.records
        known = (file.path, frozenset(one.key for one in applied))
        if known not in self._left:
            self._left[known] = self._counted(file, applied)
        return self._left[known]

    def _applies(self, delete: ContentFile, later: int, file: ContentFile, number: int) -> bool:
        if delete.content == EQUALITY_DELETES:
            spec = self._metadata.specs.get(delete.spec_id)
            everywhere = spec is not None and not [one for one in spec.fields if one.transform.name != "void"]
            return number < later and (everywhere or _scope(delete) == _scope(file))
        if number > later or _scope(delete) != _scope(file):
            return False
        if delete.referenced is not None:
            return delete.referenced == file.path
        deleted = self._positions.get(delete.key)
        return deleted is not None and file.path in deleted.by_file

    def _counted(self, file: ContentFile, applied: list[ContentFile]) -> int:
        gone = np.zeros(file.records, dtype=bool)
        for one in applied:
            deleted = self._positions.get(one.key)
            if deleted is not None and file.path in deleted.by_file:
                positions = deleted.by_file[file.path]
                gone[positions[(positions >= 0) & (positions < file.records)]] = True
        groups: dict[tuple[int, ...], set[tuple[Any, ...]]] = {}
        for one in applied:
            if one.content == EQUALITY_DELETES:
                groups.setdefault(one.equality_ids or (), set()).update(self._delete_keys(one))
        for ids, keys in groups.items():
            rows = self._rows(file, ids)
            for place, row in enumerate(rows):
                if place < len(gone) and row in keys:
                    gone[place] = True
        return file.records - int(gone.sum())

    def _delete_keys(self, file: ContentFile) -> set[tuple[Any, ...]]:
        if file.path not in self._keys:
            self._keys[file.path] = set(self._rows(file, file.equality_ids or ()))
        return self._keys[file.path]

    def _rows(self, file: ContentFile, ids: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
        fields = self._metadata.all_fields
        properties = self._metadata.document.get("properties") or {}
        with opened(self._files, file.path, file.format) as source:
            found = nodes(source.schema)
            mapped = mapped_ids(properties.get("schema.name-mapping.default"))
            with_ids = any(one.id is not None for one in found)
            paths = {(one.id if with_ids else mapped.get(one.path)): one.path for one in found if one.leaf}
            for batch in source.batches():
                leaves: dict[tuple[str, ...], pa.Array] = {}
                for name, array in zip(batch.schema.names, batch.columns, strict=True):
                    leaves.update(column_values(array, (name,)))
                columns: list[list[object]] = []
                for identity in ids:
                    path, known = paths.get(identity), fields.get(identity)
                    if path is None or known is None:
                        columns.append([None] * batch.num_rows)
                    else:
                        values = normal(leaves[path], known.type).to_pylist()
                        columns.append([canonical(value) for value in values])
                yield from zip(*columns, strict=True)
