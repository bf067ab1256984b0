"""Divides a run into batches: assets and partitions that are written together, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_dagster.runs.pipeline import Due
from floe_dagster.runs.run_history import WHOLE, RunHistory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagster import AssetKey, DagsterInstance

    from floe_dagster.runs.pipeline import PartitionChoice, Pipeline


@dataclass(frozen=True)
class Batch:
    """Assets that are written together.

    Attributes:
        keys: The assets, upstream first.
        partitions: A contiguous range of partition keys; empty if none of the assets is partitioned.
    """

    keys: tuple[AssetKey, ...]
    partitions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Format the partitions as on the command line."""
        if len(self.partitions) > 1:
            return f"{self.partitions[0]}...{self.partitions[-1]}"
        return self.partitions[0] if self.partitions else ""


def batches_of(
    pipeline: Pipeline, keys: Sequence[AssetKey], choice: PartitionChoice, instance: DagsterInstance
) -> list[Batch]:
    """Return the batches of a run over the given assets; empty if nothing is due.

    Raises:
        ConfigurationError: Partitions or a tenant are missing, unexpected or unknown.
    """
    partitions = pipeline.partitions(keys, choice, instance)
    if choice.due in {Due.MISSING, Due.FAILED}:
        due = _due(pipeline, keys, partitions, choice.due, RunHistory(pipeline, instance))
        chosen = [key for key in keys if due[key]]
    elif len(partitions) <= 1 or pipeline.in_one_run(keys):
        return [Batch(tuple(keys), tuple(partitions))]
    else:
        # Some asset takes one partition per run. Unpartitioned assets are still written once, not once per partition.
        due, chosen = {key: set(partitions) for key in keys}, list(keys)
    batches: list[Batch] = []
    for stage in pipeline.stages(chosen):
        if pipeline.partitioned(stage[0]):
            batches += _ranges(pipeline, stage, partitions, due)
        else:
            batches.append(Batch(tuple(stage)))
    return batches


def _due(
    pipeline: Pipeline, keys: Sequence[AssetKey], partitions: Sequence[str], wanted: Due, history: RunHistory
) -> dict[AssetKey, set[str]]:
    due: dict[AssetKey, set[str]] = {}
    for key in keys:
        partitioned = pipeline.partitioned(key)
        everything = set(partitions) if partitioned else {WHOLE}
        if wanted is Due.FAILED:
            due[key] = history.failed(key) & everything
            continue
        missing = everything - history.written(key)
        # Assets downstream of a partition that is written in this run have to be rebuilt.
        upstream = [one for one in pipeline.upstream(key) if due.get(one)]
        behind = [due[one] if partitioned else {WHOLE} for one in upstream]
        due[key] = (missing.union(*behind)) & everything
    return due


def _ranges(
    pipeline: Pipeline, stage: Sequence[AssetKey], partitions: Sequence[str], due: Mapping[AssetKey, set[str]]
) -> list[Batch]:
    """Merge adjacent partitions that are due for the same assets, if those assets accept ranges."""
    found: list[Batch] = []
    open_keys: tuple[AssetKey, ...] = ()
    for partition in partitions:
        keys = tuple(key for key in stage if partition in due[key])
        if keys and keys == open_keys and pipeline.takes_ranges(keys):
            found[-1] = Batch(keys, (*found[-1].partitions, partition))
        elif keys:
            found.append(Batch(keys, (partition,)))
        open_keys = keys
    return found
