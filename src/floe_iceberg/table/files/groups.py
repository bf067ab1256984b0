"""Groups data files that are rewritten together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.utils.bin_packing import ListPacker

from floe_core.dataplane import CompactionKind
from floe_iceberg.formats.partitioning import record_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.table import FileScanTask
    from pyiceberg.typedef import Record

# Files outside this range of the target size are rewritten, as in Iceberg's rewrite_data_files procedure.
_TOO_SMALL = 0.75
_TOO_LARGE = 1.8
# Sorting loads a group into memory, where Parquet data is several times larger.
_MAX_SORT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class FileGroup:
    """Data files of one partition that are rewritten into fewer or sorted files.

    Attributes:
        tasks: The files, each with the delete files that apply to it.
        spec_id: Partition spec that they were written with.
        partition: Their partition.
        files: Number of files after the rewrite.
    """

    tasks: tuple[FileScanTask, ...]
    spec_id: int
    partition: Record
    files: int

    @property
    def size(self) -> int:
        """Bytes in storage."""
        return sum(task.file.file_size_in_bytes for task in self.tasks)

    @property
    def rows(self) -> int:
        """Number of rows, including rows deleted by delete files."""
        return sum(task.file.record_count for task in self.tasks)


def plan_groups(
    tasks: Iterable[FileScanTask], *, kind: CompactionKind, target_size: int, current_spec_id: int
) -> list[FileGroup]:
    """Group the files that are worth rewriting, each group within one partition."""
    partitions: dict[tuple[Any, ...], list[FileScanTask]] = {}
    for task in tasks:
        partitions.setdefault((task.file.spec_id, *record_key(task.file.partition)), []).append(task)
    groups: list[FileGroup] = []
    for members in partitions.values():
        spec_id, partition = members[0].file.spec_id, members[0].file.partition
        stale = spec_id != current_spec_id
        bins = _packed(members, target_size, stale=stale) if kind is CompactionKind.BINPACK else _for_sorting(members)
        groups.extend(
            FileGroup(tuple(bin_), spec_id, partition, max(1, -(-_size(bin_) // int(target_size * _TOO_LARGE))))
            for bin_ in bins
        )
    return groups


def _packed(members: list[FileScanTask], target_size: int, *, stale: bool) -> Iterator[list[FileScanTask]]:
    packer: ListPacker[FileScanTask] = ListPacker(target_weight=target_size, lookback=32, largest_bin_first=False)
    candidates = [task for task in members if stale or _worth_rewriting(task, target_size)]
    for bin_ in packer.pack(candidates, lambda task: task.file.file_size_in_bytes):
        if len(bin_) > 1 or stale or any(_worth_rewriting_alone(task, target_size) for task in bin_):
            yield bin_


def _worth_rewriting(task: FileScanTask, target_size: int) -> bool:
    return task.file.file_size_in_bytes < target_size * _TOO_SMALL or _worth_rewriting_alone(task, target_size)


def _worth_rewriting_alone(task: FileScanTask, target_size: int) -> bool:
    return bool(task.delete_files) or task.file.file_size_in_bytes > target_size * _TOO_LARGE


def _for_sorting(members: list[FileScanTask]) -> Iterator[list[FileScanTask]]:
    packer: ListPacker[FileScanTask] = ListPacker(target_weight=_MAX_SORT_BYTES, lookback=1, largest_bin_first=False)
    yield from packer.pack(members, lambda task: task.file.file_size_in_bytes)


def _size(tasks: list[FileScanTask]) -> int:
    return sum(task.file.file_size_in_bytes for task in tasks)
