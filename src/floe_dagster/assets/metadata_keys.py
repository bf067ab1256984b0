"""Metadata keys that floe reads from assets and their inputs; the source of the reference in docs/."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Catches typos without matching keys that users plausibly choose for their own metadata.
_SIMILARITY = 0.82


@dataclass(frozen=True)
class MetadataKey:
    """One metadata key.

    Attributes:
        takes: Accepted values, for the documentation.
        meaning: What it does.
        example: A valid value.
        refused: An invalid value.
        default: The default, for the documentation.
        requires: Other keys that the example requires.
    """

    takes: str
    meaning: str
    example: Any
    refused: Any
    default: str = ""
    requires: Mapping[str, Any] | None = None


_COLUMN_MEANING = "the column that partition keys select rows by; a dict by dimension if there are several"

ASSET_KEYS: dict[str, MetadataKey] = {
    "write_mode": MetadataKey(
        takes="`append`, `overwrite`, `overwrite_partitions` or `upsert`",
        meaning="how existing rows are treated",
        default="**required** without partitions; with partitions, the partitions of the run are replaced",
        example="overwrite",
        refused="replace",
    ),
    "upsert_keys": MetadataKey(
        takes="a column, or a list of columns",
        meaning="the columns that identify a row for an upsert",
        default="`keys` of the table in `floe.yaml`, or else the keys recorded in the table",
        example=["order_id", "line"],
        refused=7,
    ),
    "null_keys": MetadataKey(
        takes="`refuse` or `match`",
        meaning="whether an upsert refuses null in a key, or treats null as equal to null",
        default="`refuse`",
        example="match",
        refused="ignore",
    ),
    "partition_column": MetadataKey(
        takes="a column, or a dict of columns by dimension",
        meaning=_COLUMN_MEANING,
        default="inferred if there is only one candidate",
        example="placed",
        refused=["placed"],
    ),
    "schema_evolution_enabled": MetadataKey(
        takes="true or false",
        meaning="whether the table's schema follows the data: columns are added and widened, never dropped",
        default="`True`",
        example=False,
        refused="no",
    ),
    "table_properties": MetadataKey(
        takes="a dict",
        meaning="Iceberg table properties, set when the table is created and whenever they differ",
        default="none",
        example={"write.parquet.compression-codec": "zstd"},
        refused="zstd",
    ),
    "partition_expr": MetadataKey(
        takes="as `partition_column`",
        meaning="dagster-iceberg's name for `partition_column`; `partition_column` takes precedence",
        example="placed",
        refused=["placed"],
    ),
    "schema_update_mode": MetadataKey(
        takes="`update` or `error`",
        meaning="dagster-iceberg's name for `schema_evolution_enabled`; `schema_evolution_enabled` takes precedence",
        default="`update`",
        example="error",
        refused="drop",
    ),
    "upsert_options": MetadataKey(
        takes="a dict with `join_cols`",
        meaning="dagster-iceberg's name for `upsert_keys`; upserts that only update or only insert are refused",
        example={"join_cols": ["order_id", "line"]},
        refused={"join_cols": ["order_id"], "when_matched_update_all": False},
    ),
}
"""The keys that floe reads from an asset's metadata; all other keys belong to the user."""

INPUT_KEYS: dict[str, MetadataKey] = {
    "columns": MetadataKey(
        takes="a list of columns",
        meaning="the columns to read",
        default="the fields of the type hint, or else all",
        example=["id", "total"],
        refused="id",
    ),
    "row_filter": MetadataKey(
        takes="a predicate, as text",
        meaning="the rows to read; combined with the partition filter by AND",
        default="all",
        example="total > 100",
        refused=100,
    ),
    "incremental": MetadataKey(
        takes="true or false",
        meaning="whether to read only the rows added since this asset last succeeded",
        default="`False`",
        example=True,
        refused="yes",
    ),
    "snapshot_id": MetadataKey(
        takes="a number, or a number as text",
        meaning="the snapshot to read",
        default="the current snapshot",
        example=3051729675574597004,
        refused="first",
    ),
    "as_of": MetadataKey(
        takes="a timestamp: text, a `datetime`, or milliseconds",
        meaning="read the table as of this time",
        default="now",
        example="2026-01-31T12:00:00+00:00",
        refused="yesterday",
    ),
    "branch": MetadataKey(
        takes="text",
        meaning="the branch or tag to read",
        default="`main`",
        example="month-end",
        refused=1,
    ),
    "partition_column": MetadataKey(
        takes="a column, or a dict of columns by dimension",
        meaning="the input's column that partition keys select rows by",
        default="the partition column of the asset that writes the table",
        example="placed",
        refused=["placed"],
    ),
    "partition_expr": MetadataKey(
        takes="as `partition_column`",
        meaning="dagster-iceberg's name for `partition_column`",
        example="placed",
        refused=["placed"],
    ),
}
"""The keys that floe reads from an input's metadata; all other keys belong to the user."""


def mistyped_keys(metadata: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    """Find keys that are probably misspelled; return each with the closest known key."""
    close = {key: get_close_matches(key, known, n=1, cutoff=_SIMILARITY) for key in metadata if "/" not in key}
    return {key: found[0] for key, found in close.items() if found and key not in known}
