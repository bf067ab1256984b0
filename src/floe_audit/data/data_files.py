"""Check data files and equality delete files: compare footer, schema and values with the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from floe_audit.data.rows import SortCheck, transformed
from floe_audit.manifests.manifest_files import DATA, EQUALITY_DELETES
from floe_audit.spec.bounds import ColumnMetrics, check_bounds, check_counts, check_nans
from floe_audit.spec.columns import column_values, fits, mapped_ids, nodes, normal
from floe_audit.spec.rules import Rule
from floe_audit.spec.values import INTEGRAL, UNBOUNDED, canonical, is_nan

if TYPE_CHECKING:
    from floe_audit.files.open_files import Footer, OpenFile
    from floe_audit.manifests.manifest_files import ContentFile
    from floe_audit.metadata.metadata_file import TableMetadata
    from floe_audit.report import Findings
    from floe_audit.spec.columns import Node
    from floe_audit.spec.schemas import Field, Type

_ROW_ID = 2147483540
_NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True)
class Column:
    """A leaf column of a file and the corresponding field of the table."""

    node: Node
    field: Field
    footer: Footer | None
    place: int | None = None
    """Position among the leaf columns of a Parquet file."""


class FileCheck:
    """The check of a data file or an equality delete file."""

    def __init__(self, file: ContentFile, source: OpenFile, metadata: TableMetadata, findings: Findings) -> None:
        self._file = file
        self._source = source
        self._metadata = metadata
        self._findings = findings
        self._nodes = self._identified(nodes(source.schema))
        self._columns = self._matched()

    def _identified(self, found: list[Node]) -> list[Node]:
        """Assign field ids from the name mapping if no column of the file has one."""
        if any(one.id is not None for one in found) or not self._metadata.name_mapping:
            return found
        ids = mapped_ids((self._metadata.document.get("properties") or {}).get(_NAME_MAPPING))
        return [type(one)(ids.get(one.path), one.path, one.type, one.repeated, one.leaf) for one in found]

    def _matched(self) -> list[Column]:
        leaves = [one for one in self._nodes if one.leaf]
        footers: list[Footer | None] = list(self._source.footers) or [None] * len(leaves)
        fields = self._metadata.all_fields
        return [
            Column(node, fields[node.id], footer, place if footer is not None else None)
            for place, (node, footer) in enumerate(zip(leaves, footers, strict=True))
            if node.id is not None and node.id in fields and fits(node.type, fields[node.id].type)
        ]

    def footer(self) -> None:
        """Check the footer and the schema, without reading rows."""
        file, source = self._file, self._source
        self._findings.equal(Rule.DATA_RECORD_COUNT, "The record count", source.rows, file.records, file=file.path)
        self._check_schema()
        if source.row_group_offsets is not None and file.split_offsets is not None:
            ok = set(file.split_offsets) <= set(source.row_group_offsets)
            self._findings.check(
                ok,
                Rule.DATA_SPLIT_OFFSETS,
                "The split offsets are not offsets of row groups",
                file=file.path,
                expected=list(source.row_group_offsets),
                found=list(file.split_offsets),
            )
        for column in self._columns:
            if column.footer is not None:
                self._check_footer(column, column.footer)

    def _check_schema(self) -> None:
        file, fields = self._file, self._metadata.all_fields
        seen: set[int] = set()
        for one in self._nodes:
            name = ".".join(one.path)
            # Fields inside a variant have no ids.
            if one.id is None and self._inside_variant(one):
                continue
            mapped = self._metadata.name_mapping and all(node.id is None for node in nodes(self._source.schema))
            ok = one.id is not None or mapped
            self._findings.check(ok, Rule.DATA_FIELD_IDS, f"Column {name!r} has no field id", file=file.path)
            if one.id is None:
                continue
            ok = one.id not in seen
            self._findings.check(ok, Rule.DATA_FIELD_IDS, f"Field id {one.id} is used twice", file=file.path)
            seen.add(one.id)
            known = fields.get(one.id)
            if known is not None:
                what = f"Column {name!r} is not stored as a {known.type}"
                ok = fits(one.type, known.type)
                self._findings.check(ok, Rule.DATA_TYPES, what, file=file.path, expected=known.type, found=one.type)
        if file.content == EQUALITY_DELETES:
            missing = sorted(set(file.equality_ids or ()) - seen)
            what = f"The delete file is missing its equality columns {missing}"
            self._findings.check(not missing, Rule.DELETE_COLUMNS, what, file=file.path)
        elif self._metadata.current_schema is not None:
            partition_sources = self._identity_sources()
            for now in self._metadata.current_schema.fields.values():
                if now.never_null and now.parent is None and now.default is None and now.id not in partition_sources:
                    ok = now.id in seen
                    what = f"The file is missing the required column {now.path!r}"
                    self._findings.check(ok, Rule.DATA_REQUIRED, what, file=file.path)

    def _inside_variant(self, one: Node) -> bool:
        for length in range(1, len(one.path)):
            parent = next((node for node in self._nodes if node.path == one.path[:length]), None)
            known = self._metadata.all_fields.get(parent.id) if parent is not None and parent.id is not None else None
            if known is not None and known.type.name == "variant":
                return True
        return False

    def _identity_sources(self) -> set[int | None]:
        spec = self._metadata.specs.get(self._file.spec_id)
        return {one.source_id for one in spec.fields if one.transform.name == "identity"} if spec else set()

    def _check_footer(self, column: Column, footer: Footer) -> None:
        file, field = self._file, column.field
        if column.node.repeated:
            return
        stated = (file.column_sizes or {}).get(field.id)
        if stated is not None:
            ok = 0 <= stated <= file.size
            what = f"The size of column {field.path!r} is larger than the file"
            self._findings.check(ok, Rule.DATA_COLUMN_SIZES, what, file=file.path, expected=footer.size, found=stated)
        metrics = ColumnMetrics(values=footer.values, nulls=footer.nulls or 0)
        if footer.nulls is not None:
            check_counts(file, field, metrics, self._findings)
            self._check_required(field, metrics)
        kind = field.type
        if footer.extremes is None or kind.name in UNBOUNDED or kind.nested:
            return
        try:
            for low, high in footer.extremes:
                metrics.widen(*_logical((low, high), column.node.type, kind))
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return  # Unreadable statistics prove nothing; the values are checked separately.
        check_bounds(file, field, metrics, self._findings, zeros=False)

    def _check_required(self, field: Field, metrics: ColumnMetrics) -> None:
        current = self._metadata.current_schema
        now = current.fields.get(field.id) if current is not None else None
        if now is not None and now.never_null and self._file.content == DATA:
            what = f"The required column {field.path!r} contains nulls"
            self._findings.check(not metrics.nulls, Rule.DATA_REQUIRED, what, file=self._file.path)

    def values(self) -> None:
        """Read every row, and check counts, bounds, partitions and sort order."""
        file = self._file
        metrics = {column.node.path: ColumnMetrics() for column in self._columns}
        partitions = self._partition_slots()
        order = self._sort_check()
        row_ids: list[Any] = []
        rows = group = 0
        in_group = {column.node.path: ColumnMetrics() for column in self._columns}
        for number, batch in self._source.numbered_batches():
            rows += batch.num_rows
            parts = self._leaves(batch)
            if number != group:
                self._close_group(group, in_group, metrics)
                group, in_group = number, {column.node.path: ColumnMetrics() for column in self._columns}
            for column in self._columns:
                if column.node.path in parts:
                    in_group[column.node.path].add(parts[column.node.path], column.field.type)
            self._check_partitions(parts, partitions, batch.num_rows)
            row_ids += self._row_ids(batch)
            if order is not None:
                check, paths = order
                check.add([parts[path] for path in paths])
        self._close_group(group, in_group, metrics)
        self._findings.equal(Rule.DATA_RECORD_COUNT, "The record count", rows, file.records, file=file.path)
        self._findings.count("rows", rows)
        for column in self._columns:
            counted = metrics[column.node.path]
            if not column.node.repeated:
                check_counts(file, column.field, counted, self._findings)
                self._check_required(column.field, counted)
            check_nans(file, column.field, counted, self._findings)
            check_bounds(file, column.field, counted, self._findings)
        self._check_row_ids(row_ids)
        if order is not None:
            what = f"The rows are not sorted by the file's sort order {file.sort_order_id}"
            self._findings.check(order[0].sorted, Rule.DATA_SORTED, what, file=file.path)

    def _close_group(
        self,
        number: int,
        in_group: dict[tuple[str, ...], ColumnMetrics],
        total: dict[tuple[str, ...], ColumnMetrics],
    ) -> None:
        """Compare a row group with its statistics, which engines use to skip it, and add its metrics to the file's."""
        for column in self._columns:
            counted = in_group[column.node.path]
            total[column.node.path].merge(counted)
            if column.place is None or column.node.repeated or number >= len(self._source.row_groups):
                continue
            chunk = self._source.row_groups[number][column.place]
            ok = chunk.values == counted.values and chunk.nulls in {None, counted.nulls}
            if ok and chunk.lower is not None and chunk.upper is not None:
                ok = _within(counted, (chunk.lower, chunk.upper), column)
            what = f"The statistics of column {column.field.path!r} do not cover its values in row group {number}"
            self._findings.check(ok, Rule.DATA_STATISTICS, what, file=self._file.path)

    def _row_ids(self, batch: pa.RecordBatch) -> list[Any]:
        """Return the row ids stored in a rewritten file; new rows have none."""
        names = [one.path[0] for one in self._nodes if one.id == _ROW_ID and len(one.path) == 1]
        return [batch.column(name).drop_null().to_numpy(zero_copy_only=False) for name in names]

    def _check_row_ids(self, found: list[Any]) -> None:
        if not found:
            return
        ids = np.concatenate(found)
        following = self._metadata.document.get("next-row-id")
        ok = len(np.unique(ids)) == len(ids)
        self._findings.check(ok, Rule.DATA_ROW_IDS, "Two rows have the same row id", file=self._file.path)
        if len(ids) and isinstance(following, int):
            ok = int(ids.min()) >= 0 and int(ids.max()) < following
            what = "A row id is not below next-row-id"
            self._findings.check(
                ok, Rule.DATA_ROW_IDS, what, file=self._file.path, expected=f"below {following}", found=int(ids.max())
            )

    def _leaves(self, batch: pa.RecordBatch) -> dict[tuple[str, ...], pa.Array]:
        kinds = {column.node.path: column.field.type for column in self._columns}
        found: dict[tuple[str, ...], pa.Array] = {}
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            for path, values in column_values(array, (name,)):
                if path in kinds:
                    found[path] = normal(values, kinds[path])
        return found

    def _partition_slots(self) -> list[tuple[Any, Any, Type, tuple[str, ...] | None]]:
        """Return each partition field with its value in the manifest, its source type and its source column."""
        spec = self._metadata.specs.get(self._file.spec_id)
        # Delete files are exempt: an equality delete without matching rows in its partition is harmless.
        if spec is None or len(self._file.partition) != len(spec.fields) or self._file.content != DATA:
            return []
        paths = {column.field.id: column.node.path for column in self._columns if not column.node.repeated}
        slots = []
        for part, value in zip(spec.fields, self._file.partition, strict=True):
            kind = self._metadata.source_type(part.source_id)
            if kind is not None and part.transform.known and part.transform.name != "void":
                slots.append((part, value, kind, paths.get(part.source_id or -1)))
        return slots

    def _check_partitions(
        self, parts: dict[tuple[str, ...], pa.Array], slots: list[tuple[Any, Any, Type, Any]], rows: int
    ) -> None:
        for part, value, kind, path in slots:
            if path is None:
                if part.transform.name == "identity" or not rows:
                    continue  # Files imported from Hive omit identity partition columns.
                results: set[Any] = {None}
                source = self._metadata.all_fields.get(part.source_id)
                if source is not None and source.default is not None:
                    continue
            else:
                results = transformed(parts[path], kind, part.transform)
            expected = canonical(value)
            wrong = [one for one in results if one != expected]
            what = f"Rows do not belong to partition {part.name}={value!r}"
            self._findings.check(
                not wrong, Rule.DATA_PARTITION, what, file=self._file.path, expected=value, found=wrong[:1]
            )

    def _sort_check(self) -> tuple[SortCheck, list[tuple[str, ...]]] | None:
        order = self._metadata.orders.get(self._file.sort_order_id or 0)
        if not order or self._file.content != DATA:
            return None
        paths = {column.field.id: column.node.path for column in self._columns if not column.node.repeated}
        kinds = {column.field.id: column.field.type for column in self._columns}
        if any(one.source_id not in paths or not one.transform.known for one in order):
            return None
        ids = [one.source_id for one in order if one.source_id is not None]
        return SortCheck(order, [kinds[one] for one in ids]), [paths[one] for one in ids]


def _within(counted: ColumnMetrics, pair: tuple[Any, Any], column: Column) -> bool:
    """Whether the values of a row group are within its statistics."""
    kind = column.field.type
    if counted.lower is None or counted.upper is None or kind.name in UNBOUNDED:
        return True
    try:
        lower, upper = _logical(pair, column.node.type, kind)
        # Readers ignore statistics that are NaN.
        return is_nan(lower) or is_nan(upper) or bool(lower <= counted.lower and counted.upper <= upper)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return True


def _logical(pair: tuple[Any, Any], written: pa.DataType, kind: Type) -> tuple[Any, Any]:
    """Convert physical statistics to normalized values."""
    if kind.name in INTEGRAL:
        width = pa.int32() if written.bit_width <= 32 else pa.int64()  # noqa: PLR2004 - Parquet's two integers
        array = pa.array(pair, type=width)
        if written.bit_width < 32:  # noqa: PLR2004 - stored as int32
            written = pa.int32()
        numbers = normal(array.cast(written) if written != width else array, kind)
        return numbers[0].as_py(), numbers[1].as_py()
    if kind.name == "decimal":
        values = [int.from_bytes(one, "big", signed=True) if isinstance(one, bytes) else one for one in pair]
        return values[0], values[1]
    return pair
