"""Show the rows and files of a table."""

import csv
import json
import math
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from floe_cli.commands.tables.options import LimitOption, RefOption, SnapshotOption, TableArgument
from floe_cli.output import Report, UserRows, count, grid, json_text, size, working
from floe_cli.timestamps import parse_timestamp
from floe_cli.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa


class RowFormat(StrEnum):
    """Output format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def scan(
    workspace: Workspace,
    table: TableArgument,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Comma-separated columns.", show_default=False)
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Filter, such as \"status = 'new' and total > 10\".", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows; 0 for all.")] = 20,
    snapshot: SnapshotOption = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="TIME", help="Timestamp such as 2026-05-04T12:00, or age such as 2h.", show_default=False
        ),
    ] = None,
    ref: RefOption = None,
    row_format: Annotated[RowFormat, typer.Option("--format", help="Output format of the rows.")] = RowFormat.TABLE,
) -> Report:
    """Read the rows of a table, now or at an earlier time.

    Examples:
        floe tables scan bronze.orders --columns id,total --where "total > 100" --limit 5
        floe tables scan bronze.orders --as-of 2h  # as of two hours ago
        floe tables scan bronze.orders --limit 0 --format csv > orders.csv
    """
    with working("Reading"), workspace.tables() as manager:
        rows = manager.scan(
            table,
            columns=[name.strip() for name in columns.split(",")] if columns else None,
            row_filter=where,
            snapshot_id=snapshot,
            as_of=parse_timestamp(as_of) if as_of else None,
            ref=ref,
            limit=limit or None,
        )
    records = [{name: _plain(value) for name, value in row.items()} for row in rows.to_pylist(maps_as_pydicts="lossy")]
    data = {"table": table, "columns": rows.column_names, "rows": UserRows(records)}
    if row_format is RowFormat.CSV:
        return Report(data=data, raw=lambda stream: _write_csv(stream, rows.column_names, records))
    if row_format is RowFormat.JSON:
        return Report(data=data, raw=lambda stream: stream.write(json_text(records)))
    note = f"{count(rows.num_rows, 'row')}{'; use --limit to show more' if limit and rows.num_rows == limit else ''}."
    return Report(data=data, text=[_row_grid(rows, records), "", note])


def files(
    workspace: Workspace,
    table: TableArgument,
    limit: LimitOption = None,
    snapshot: SnapshotOption = None,
) -> Report:
    """List the files of a table with their row counts and sizes.

    Examples:
        floe tables files bronze.orders --limit 10
    """
    from floe_iceberg.table.inspection import files as files_of

    with working("Reading the manifests"), workspace.tables() as manager:
        found = files_of(manager.context, table, snapshot_id=snapshot)
    shown = found[:limit]
    rows = [(file.content, file.records, size(file.bytes), file.partition, file.path) for file in shown]
    total = f"{count(len(found), 'file')}, {size(sum(file.bytes for file in found))}."
    return Report(
        data=list(shown),
        text=[grid(["CONTENT", "ROWS", "SIZE", "PARTITION", "PATH"], rows, right=["ROWS", "SIZE"]), "", total],
    )


def _row_grid(rows: "pa.Table", records: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - a rich table
    import pyarrow as pa

    numbers = [
        field.name for field in rows.schema if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    ]
    return grid(rows.column_names, [[_cell(value) for value in record.values()] for record in records], right=numbers)


def _cell(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def _plain(value: object) -> object:
    """Convert values that JSON does not support: NaN and infinity to text, binary to hexadecimal."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _write_csv(stream: TextIO, names: list[str], records: list[dict[str, Any]]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if value is None else _cell(value) for value in record.values()] for record in records])
