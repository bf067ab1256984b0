"""Plans a run: what it would read and write, without changing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.declaration.drift import DriftItem, DriftKind, DriftSeverity
from floe_core.schemas import TableConfig
from floe_dagster.assets.partitions import bind_partitions
from floe_dagster.assets.upsert_keys import DeclaredKeys
from floe_dagster.gate.checks import PUBLISHED
from floe_dagster.tenants import own_partitions
from floe_iceberg.models import WriteMode
from floe_iceberg.read.row_counts import RowCount
from floe_iceberg.table.declared.drift import differences
from floe_iceberg.table.keys.row_keys import recorded_keys
from floe_iceberg.table.schema import declared_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagster import AssetKey
    from pyiceberg.table import Table

    from floe_dagster.assets.settings import AssetSettings
    from floe_dagster.runs.batches import Batch
    from floe_dagster.runs.pipeline import Pipeline
    from floe_iceberg.manager import IcebergTableManager


_NO_KEYS = DriftItem(
    kind=DriftKind.KEYS,
    path="keys",
    declared=None,
    actual=None,
    severity=DriftSeverity.BREAKING,
    fix="The run would fail before writing. Set keys for the table in floe.yaml.",
)


@dataclass(frozen=True)
class PlannedAsset:
    """What a run would do to one asset.

    Attributes:
        asset: The asset, as ``namespace/name``.
        table: The table it writes.
        reads: The tables it reads.
        mode: How existing rows are treated.
        keys: Columns that identify a row for an upsert.
        partitions: Partition keys to write; empty for an unpartitioned asset.
        checks: Checks that run before publication; empty if rows are written directly to main.
        exists: Whether the table exists.
        rows: Current number of rows.
        differences: Where the table differs from its declaration, and what the run does about it.
        rows_exact: Whether ``rows`` is exact; with delete files, only a scan can count the rows.
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
    differences: tuple[DriftItem, ...] = ()
    rows_exact: bool = True

    @property
    def effect(self) -> str:
        """The effect of the write as a short phrase."""
        if self.mode is WriteMode.UPSERT:
            return "upsert"
        if self.mode is WriteMode.APPEND:
            return "append"
        if not self.partitions:
            return "replace all rows"
        return f"replace {_counted(self.partitions)}"


def plan_assets(pipeline: Pipeline, tables: IcebergTableManager, batches: Sequence[Batch]) -> list[PlannedAsset]:
    """Plan a run for each asset, upstream first, without changing anything or starting an engine."""
    written: dict[AssetKey, dict[str, None]] = {}
    for batch in batches:
        for key in batch.keys:
            written.setdefault(key, {}).update(dict.fromkeys(batch.partitions))
    return [_planned(pipeline, tables, key, tuple(partitions)) for key, partitions in written.items()]


def _planned(
    pipeline: Pipeline, tables: IcebergTableManager, key: AssetKey, partitions: tuple[str, ...]
) -> PlannedAsset:
    table, settings, declared = pipeline.table(key), pipeline.settings(key), pipeline.declared(key)
    found = tables.load_table(table) if tables.table_exists(table) else None
    snapshot = found.current_snapshot() if found is not None else None
    partitioned = pipeline.partitioned(key)
    mode = settings.write_mode or (WriteMode.OVERWRITE if partitioned else WriteMode.APPEND)
    asset = key.to_user_string()
    upserts = mode is WriteMode.UPSERT
    wanted = DeclaredKeys.of_table(declared)
    if upserts:
        wanted = DeclaredKeys.of(settings, declared, asset=asset, table=table)
    keys = wanted.keys or (recorded_keys(found) if found is not None else ())
    compared = _compared(found, declared or TableConfig(), wanted, settings)
    if upserts and not keys:
        compared = (_NO_KEYS, *compared)
    checks = [name for name in pipeline.check_names(key) if name != PUBLISHED]
    count = RowCount.of(snapshot.summary.additional_properties) if snapshot and snapshot.summary else RowCount()
    return PlannedAsset(
        asset=asset,
        table=table,
        reads=tuple(sorted(pipeline.table(dependency) for dependency in pipeline.upstream(key))),
        mode=mode,
        keys=keys if upserts else (),
        partitions=partitions if partitioned else (),
        checks=tuple(checks) if settings.gate else (),
        exists=found is not None,
        rows=count.rows,
        rows_exact=count.exact,
        differences=compared,
    )


def _compared(
    table: Table | None, declared: TableConfig, keys: DeclaredKeys, settings: AssetSettings
) -> tuple[DriftItem, ...]:
    """Return how a table differs from what floe.yaml and its asset declare."""
    if table is None:
        return ()
    wanted = declared.model_copy(
        update={
            "keys": keys.keys,
            "null_keys": keys.null_keys,
            "properties": {**declared.properties, **settings.properties},
        }
    )
    return differences(table, wanted)


def partition_terms(pipeline: Pipeline, tables: Mapping[str, TableConfig]) -> dict[str, tuple[str, ...]]:
    """Return the partition terms of new tables without declared partitioning, from the partitions of their assets.

    Raises:
        ConfigurationError: The column for an asset's partition keys cannot be determined.
    """
    terms = {}
    for key in pipeline.keys:
        table, partitions = pipeline.table(key), own_partitions(pipeline.spec(key).partitions_def)
        if table in tables and partitions is not None and tables[table].columns:
            schema = declared_schema(tables[table].columns)
            terms[table] = tuple(bind_partitions(partitions, schema, pipeline.column_choice(key)).terms)
    return terms


def _counted(partitions: Sequence[str]) -> str:
    return "1 partition" if len(partitions) == 1 else f"{len(partitions)} partitions"
