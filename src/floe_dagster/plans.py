"""What a run would read and write, told before it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_dagster.checks import PUBLISHED
from floe_iceberg.models import WriteMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import AssetKey

    from floe_dagster.pipeline import Pipeline
    from floe_iceberg.manager import IcebergTableManager


@dataclass(frozen=True)
class PlannedAsset:
    """What a run would do to one asset.

    Attributes:
        asset: The asset, as ``namespace/name``.
        table: The table it writes.
        reads: The tables it reads.
        mode: What happens to the rows already there.
        keys: Columns that identify a row, for an upsert.
        partitions: Partition keys that are written; empty for an asset without partitions.
        checks: What has to hold before the rows are published; empty when they are written straight to main.
        exists: Whether the table is there already.
        rows: Rows it has now.
    """

    asset: str
    table: str
    reads: tuple[str, ...]
    mode: WriteMode
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    checks: tuple[str, ...]
    exists: bool
    rows: int

    @property
    def effect(self) -> str:
        """What the write does, in a few words."""
        if self.mode is WriteMode.UPSERT:
            return "upsert"
        if self.mode is WriteMode.APPEND:
            return "append"
        if not self.partitions:
            return "replace all rows"
        return f"replace {_counted(self.partitions)}"


def plan_assets(
    pipeline: Pipeline, tables: IcebergTableManager, keys: Sequence[AssetKey], partitions: Sequence[str]
) -> list[PlannedAsset]:
    """Plan a run over some assets, upstream first; nothing is changed and no engine is started."""
    return [_planned(pipeline, tables, key, tuple(partitions)) for key in keys]


def _planned(
    pipeline: Pipeline, tables: IcebergTableManager, key: AssetKey, partitions: tuple[str, ...]
) -> PlannedAsset:
    table, settings, declared = pipeline.table(key), pipeline.settings(key), pipeline.declared(key)
    exists = tables.table_exists(table)
    snapshot = tables.get_current_snapshot(table) if exists else None
    partitioned = pipeline.partitioned(key)
    mode = settings.write_mode or (WriteMode.OVERWRITE if partitioned else WriteMode.APPEND)
    keys = settings.keys or (declared.keys if declared else ())
    checks = [name for name in pipeline.check_names(key) if name != PUBLISHED]
    return PlannedAsset(
        asset=key.to_user_string(),
        table=table,
        reads=tuple(sorted(pipeline.table(dependency) for dependency in pipeline.upstream(key))),
        mode=mode,
        keys=keys if mode is WriteMode.UPSERT else (),
        partitions=partitions if partitioned else (),
        checks=tuple(checks) if settings.gate else (),
        exists=exists,
        rows=int(snapshot.summary.get("total-records", 0)) if snapshot else 0,
    )


def _counted(partitions: Sequence[str]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"
