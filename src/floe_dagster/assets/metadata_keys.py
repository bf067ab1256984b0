"""Every key that floe reads from the metadata of assets and of their inputs; the reference in docs/ is made of this."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Close enough to be a slip of the finger, and far enough from what people name their own metadata.
_SLIP = 0.82


@dataclass(frozen=True)
class MetadataKey:
    """One key.

    Attributes:
        takes: Its values, for people.
        meaning: What it does.
        example: A value that is taken.
        refused: A value that is not.
        default: What holds without it, for people.
        beside: Other keys that the example needs.
    """

    takes: str
    meaning: str
    example: Any
    refused: Any
    default: str = ""
    beside: Mapping[str, Any] | None = None


_COLUMN_MEANING = "the column that partition keys select rows by; a dict by dimension where there are several"

ASSET_KEYS: dict[str, MetadataKey] = {
    "write_mode": MetadataKey(
        takes="`append`, `overwrite`, `overwrite_partitions` or `upsert`",
        meaning="what happens to the rows that are there",
        default="**required** without partitions; with them the partition that is written is replaced",
        example="overwrite",
        refused="replace",
    ),
    "upsert_keys": MetadataKey(
        takes="a column, or a list of columns",
        meaning="what identifies a row, for an upsert",
        default="`keys` of the table in `floe.yaml`, else what the table records",
        example=["order_id", "line"],
        refused=7,
    ),
    "null_keys": MetadataKey(
        takes="`refuse` or `match`",
        meaning="whether an upsert refuses null in a key, or takes null for equal to null",
        default="`refuse`",
        example="match",
        refused="ignore",
    ),
    "partition_column": MetadataKey(
        takes="a column, or a dict of columns by dimension",
        meaning=_COLUMN_MEANING,
        default="found where only one column can be meant",
        example="placed",
        refused=["placed"],
    ),
    "schema_evolution_enabled": MetadataKey(
        takes="true or false",
        meaning="whether the table follows the data: new columns are added, types widened, nothing is dropped",
        default="`True`",
        example=False,
        refused="no",
    ),
    "table_properties": MetadataKey(
        takes="a dict",
        meaning="Iceberg table properties, set when the table is made and whenever they differ",
        default="none",
        example={"write.parquet.compression-codec": "zstd"},
        refused="zstd",
    ),
    "partition_expr": MetadataKey(
        takes="as `partition_column`",
        meaning="what dagster-iceberg calls `partition_column`, which comes first where both are there",
        example="placed",
        refused=["placed"],
    ),
    "schema_update_mode": MetadataKey(
        takes="`update` or `error`",
        meaning="what dagster-iceberg calls `schema_evolution_enabled`, which comes first where both are there",
        default="`update`",
        example="error",
        refused="drop",
    ),
    "upsert_options": MetadataKey(
        takes="a dict with `join_cols`",
        meaning="what dagster-iceberg calls `upsert_keys`; upserts that only update or only insert are refused",
        example={"join_cols": ["order_id", "line"]},
        refused={"join_cols": ["order_id"], "when_matched_update_all": False},
    ),
}
"""What an asset's metadata can say to floe; everything else is the user's own."""

INPUT_KEYS: dict[str, MetadataKey] = {
    "columns": MetadataKey(
        takes="a list of columns",
        meaning="the columns to read",
        default="those of the type hint, else all",
        example=["id", "total"],
        refused="id",
    ),
    "row_filter": MetadataKey(
        takes="a predicate, as text",
        meaning="the rows to read, beside those of the partition",
        default="all",
        example="total > 100",
        refused=100,
    ),
    "incremental": MetadataKey(
        takes="true or false",
        meaning="only what was added since this asset last succeeded",
        default="`False`",
        example=True,
        refused="yes",
    ),
    "snapshot_id": MetadataKey(
        takes="a number, also as text",
        meaning="the snapshot to read",
        default="the current one",
        example=3051729675574597004,
        refused="first",
    ),
    "as_of": MetadataKey(
        takes="a moment: text, a `datetime`, or milliseconds",
        meaning="the table as it was then",
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
        meaning="the column of the input that partition keys select rows by",
        default="that of the asset which writes the table",
        example="placed",
        refused=["placed"],
    ),
    "partition_expr": MetadataKey(
        takes="as `partition_column`",
        meaning="what dagster-iceberg calls `partition_column`",
        example="placed",
        refused=["placed"],
    ),
}
"""What an input's metadata can say to floe; everything else is the user's own."""


def mistyped_keys(metadata: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    """Find keys that look like one of floe's and are none; return each with the one that was meant."""
    close = {key: get_close_matches(key, known, n=1, cutoff=_SLIP) for key in metadata if "/" not in key}
    return {key: found[0] for key, found in close.items() if found and key not in known}
