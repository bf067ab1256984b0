"""Pruning: finds files in which no row, or every row, matches a filter, without reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_iceberg.read.filters.binding import AllOf, AnyOf, In, Matches, leaves
from floe_iceberg.read.filters.holdings import by_partition, by_statistics, by_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table.metadata import TableMetadata

    from floe_iceberg.read.filters.binding import Bound, Leaf
    from floe_iceberg.read.filters.holdings import Holding


class Pruner:
    """Evaluates a filter on the partitions and statistics of a table's files and manifests."""

    def __init__(self, bound: Bound, metadata: TableMetadata) -> None:
        """Store a bound filter and the table's partition specs."""
        self._bound = bound
        self._specs: dict[int, PartitionSpec] = metadata.specs()
        self._fields: dict[int, dict[int, list[tuple[int, PartitionField]]]] = {}

    def may_have(self, file: DataFile) -> bool:
        """Whether a data file may have a matching row."""
        return self._some(self._bound, lambda leaf: self._of_file(file, leaf))

    def may_apply(self, file: DataFile) -> bool:
        """Whether a delete file may apply to matching rows, judged by its partition only."""
        return self._some(self._bound, lambda leaf: self._of_partition(file, leaf))

    def may_list(self, manifest: ManifestFile) -> bool:
        """Whether a manifest may list files with a matching row."""
        return self._some(self._bound, lambda leaf: self._of_manifest(manifest, leaf))

    def passes_all(self, file: DataFile) -> bool:
        """Whether every row of a file matches, proven by its partition."""
        return self._every(self._bound, file)

    def _some(self, bound: Bound, holdings: Callable[[Leaf], Iterator[Holding]]) -> bool:
        match bound:
            case AllOf(operands):
                return all(self._some(operand, holdings) for operand in operands)
            case AnyOf(operands):
                return any(self._some(operand, holdings) for operand in operands)
            case _:
                return all(holding.may_meet(bound.values, bound.column) for holding in holdings(bound))

    def _every(self, bound: Bound, file: DataFile) -> bool:
        match bound:
            case AllOf(operands):
                return all(self._every(operand, file) for operand in operands)
            case AnyOf(operands):
                return any(self._every(operand, file) for operand in operands)
            case In(_, values):
                return any(holding.is_at_or_below(values) for holding in self._of_partition(file, bound))
            case Matches():
                return False

    def _of_file(self, file: DataFile, leaf: Leaf) -> Iterator[Holding]:
        yield from self._of_partition(file, leaf)
        yield by_statistics(file, leaf.column)

    def _of_partition(self, file: DataFile, leaf: Leaf) -> Iterator[Holding]:
        for position, field in self._fields_of(file.spec_id, leaf):
            yield by_partition(field, file.partition[position], leaf.column)

    def _of_manifest(self, manifest: ManifestFile, leaf: Leaf) -> Iterator[Holding]:
        summaries = manifest.partitions or []
        for position, field in self._fields_of(manifest.partition_spec_id, leaf):
            if position < len(summaries):
                yield by_summary(field, summaries[position], leaf.column)

    def _fields_of(self, spec_id: int, leaf: Leaf) -> list[tuple[int, PartitionField]]:
        """Return the partition fields of a spec whose source is the leaf's column."""
        if spec_id not in self._fields:
            fields: dict[int, list[tuple[int, PartitionField]]] = {
                found.column.field_id: [] for found in leaves(self._bound)
            }
            spec = self._specs.get(spec_id)
            for position, field in enumerate(spec.fields if spec else ()):
                if field.source_id in fields:
                    fields[field.source_id].append((position, field))
            self._fields[spec_id] = fields
        return self._fields[spec_id].get(leaf.column.field_id, [])
