"""Calls Iceberg's maintenance procedures in Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from floe_core.dataplane import CompactionKind, MaintenanceFigures
from floe_spark.plane.filters import filter_sql
from floe_spark.plane.sql import map_literal, quoted, table_name, text_literal, timestamp_literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import Row, SparkSession

_SORT_TERM = re.compile(
    r"(?P<column>.+?)(?P<direction>(?:\s+(?:asc|desc))?(?:\s+nulls\s+(?:first|last))?)", re.IGNORECASE
)


# Path parts that clients may normalize or cut: dots (plain or encoded), backslashes, queries and fragments.
_AMBIGUOUS = ("/../", "/./", "%2e", "%25", "\\", "?", "#")


class Procedures:
    """The ``system`` procedures of a catalog."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        """Use a session and a catalog."""
        self._session = session
        self._catalog = catalog

    def rewrite_data_files(
        self,
        table: str,
        *,
        kind: CompactionKind,
        order: Sequence[str] = (),
        row_filter: object | None = None,
        options: Mapping[str, str] | None = None,
    ) -> MaintenanceFigures:
        """Rewrite data files into fewer, larger or sorted ones."""
        arguments = {"strategy": text_literal("binpack" if kind is CompactionKind.BINPACK else "sort")}
        if order and kind is not CompactionKind.BINPACK:
            arguments["sort_order"] = text_literal(_sort_order(kind, order))
        if rows := filter_sql(row_filter):
            arguments["where"] = text_literal(rows)
        if options:
            arguments["options"] = map_literal(options)
        row = self._call("rewrite_data_files", table, arguments)[0]
        return MaintenanceFigures(
            rewritten_files=_metric(row, "rewritten_data_files_count"),
            added_files=_metric(row, "added_data_files_count"),
            rewritten_bytes=_metric(row, "rewritten_bytes_count"),
            deleted_delete_files=_metric(row, "removed_delete_files_count"),
        )

    def rewrite_position_deletes(self, table: str) -> MaintenanceFigures:
        """Rewrite position delete files, dropping deletes that no longer apply to any row."""
        row = self._call("rewrite_position_delete_files", table, {"options": map_literal({"rewrite-all": "true"})})[0]
        return MaintenanceFigures(
            rewritten_files=_metric(row, "rewritten_delete_files_count"),
            added_files=_metric(row, "added_delete_files_count"),
        )

    def rewrite_manifests(self, table: str) -> MaintenanceFigures:
        """Rewrite manifests into fewer, better clustered ones."""
        row = self._call("rewrite_manifests", table, {})[0]
        return MaintenanceFigures(
            rewritten_files=_metric(row, "rewritten_manifests_count"),
            added_files=_metric(row, "added_manifests_count"),
        )

    def files_outside(self, table: str, *, prefixes: Sequence[str], limit: int) -> tuple[str, ...]:
        """Return files of all snapshots that are outside the prefixes or have an ambiguous path."""
        name = table_name(self._catalog, table)
        found = " UNION ALL ".join(
            f"SELECT {column} AS path FROM {name}.{view}"  # noqa: S608 - names are quoted
            for column, view in (("file_path", "all_files"), ("path", "all_manifests"), ("manifest_list", "snapshots"))
        )
        inside = " OR ".join(f"startswith(path, {text_literal(prefix)})" for prefix in prefixes) or "false"
        ambiguous = " OR ".join(f"contains(lower(path), {text_literal(sign)})" for sign in _AMBIGUOUS)
        rows = self._session.sql(
            f"SELECT DISTINCT path FROM ({found}) WHERE NOT ({inside}) OR {ambiguous} LIMIT {limit}"  # noqa: S608 - literals are quoted
        ).collect()
        return tuple(sorted(row["path"] for row in rows))

    def expire_snapshots(
        self, table: str, *, older_than: datetime, retain_last: int, snapshot_ids: Sequence[int] = ()
    ) -> MaintenanceFigures:
        """Expire snapshots, and delete the files that only they referenced."""
        arguments = {
            "older_than": timestamp_literal(older_than),
            "retain_last": str(retain_last),
            # A table with a long history has more files than fit into the driver's memory.
            "stream_results": "true",
        }
        if snapshot_ids:
            arguments["snapshot_ids"] = f"array({', '.join(f'{number}L' for number in snapshot_ids)})"
        row = self._call("expire_snapshots", table, arguments)[0]
        return MaintenanceFigures(
            deleted_data_files=_metric(row, "deleted_data_files_count"),
            deleted_delete_files=_metric(row, "deleted_position_delete_files_count")
            + _metric(row, "deleted_equality_delete_files_count"),
            deleted_manifests=_metric(row, "deleted_manifest_files_count"),
            deleted_manifest_lists=_metric(row, "deleted_manifest_lists_count"),
            deleted_statistics_files=_metric(row, "deleted_statistics_files_count"),
        )

    def remove_orphan_files(
        self, table: str, *, older_than: datetime, location: str | None = None, dry_run: bool = True
    ) -> MaintenanceFigures:
        """Find files that no snapshot references; delete them unless ``dry_run`` is set."""
        arguments = {"older_than": timestamp_literal(older_than), "dry_run": str(dry_run).lower()}
        if location is not None:
            arguments["location"] = text_literal(location)
        rows = self._call("remove_orphan_files", table, arguments)
        return MaintenanceFigures(orphan_files=tuple(sorted(row["orphan_file_location"] for row in rows)))

    def _call(self, procedure: str, table: str, arguments: Mapping[str, str]) -> list[Row]:
        name = ".".join(quoted(part) for part in table.split("."))
        named = {"table": text_literal(name), **arguments}
        listed = ", ".join(f"{key} => {value}" for key, value in named.items())
        return self._session.sql(f"CALL {quoted(self._catalog)}.system.{procedure}({listed})").collect()


def _sort_order(kind: CompactionKind, order: Sequence[str]) -> str:
    if kind is CompactionKind.ZORDER:
        return f"zorder({', '.join(_column(name) for name in order)})"
    return ", ".join(_sort_term(term) for term in order)


def _sort_term(term: str) -> str:
    """Quote the column of a sort term, such as ``amount desc nulls last``."""
    found = _SORT_TERM.fullmatch(term)
    return f"{_column(found['column'])}{found['direction']}" if found else _column(term)


def _column(name: str) -> str:
    return name if name.replace("_", "").replace(".", "").isalnum() else quoted(name)


def _metric(row: Row, name: str) -> int:
    return int(row[name] or 0) if name in row else 0
