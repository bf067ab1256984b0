"""``floe tables audit``: verify that table metadata matches the files."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from floe_cli.output import Report, count, grid, mark, working
from floe_cli.workspace import Workspace
from floe_core.errors import SYSTEM_ERROR, ConfigurationError, FloeStorageError

if TYPE_CHECKING:
    from floe_audit import AuditReport
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.read.file_source import FileIOSource


class Depth(StrEnum):
    """How much of a table an audit reads."""

    METADATA = "metadata"
    FILES = "files"
    VALUES = "values"


def audit(
    workspace: Workspace,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="Table, such as bronze.orders.", show_default=False)
    ] = None,
    depth: Annotated[
        Depth, typer.Option(help="Read only metadata, also file footers (files), or also all values (values).")
    ] = Depth.VALUES,
    metadata: Annotated[
        str | None,
        typer.Option(
            metavar="LOCATION", help="Audit this metadata file instead of a table's current one.", show_default=False
        ),
    ] = None,
    *,
    current_only: Annotated[
        bool, typer.Option("--current-only", help="Audit only the current snapshot; default: all snapshots.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Audit all tables in the catalog.")] = False,
) -> Report:
    """Verify a table's metadata against its files.

    The audit follows the Iceberg spec and changes nothing. The exit code is 2 if the audit finds a breach, or if a
    table cannot be audited.

    Examples:
        floe tables audit bronze.orders
        floe tables audit --all --depth files --current-only
        floe tables audit --metadata s3://lake/bronze/orders/metadata/00041.metadata.json
    """
    if sum((table is not None, every, metadata is not None)) != 1:
        msg = "Pass exactly one of TABLE, --all and --metadata."
        raise ConfigurationError(msg)
    from floe_audit import AuditDepth, Snapshots, audit_table

    chosen = Snapshots.CURRENT if current_only else Snapshots.ALL
    reports: dict[str, AuditReport] = {}
    failures: dict[str, str] = {}
    with workspace.tables() as manager:
        for name in _names(manager) if every else [table or metadata or ""]:
            with working(f"Auditing {name}"), _noted(name, failures, keep=every):
                location, source = _located(manager, name, metadata)
                report = audit_table(location, source, depth=AuditDepth(depth), snapshots=chosen)
                _require_reachable(report, source, name)
                reports[name] = report
    return _verdict(reports, failures)


def _names(manager: "IcebergTableManager") -> list[str]:
    places = manager.namespaces.tree(None)
    return [f"{place}.{name}" for place in places for name in sorted(manager.list_tables(place))]


def _require_reachable(report: "AuditReport", source: "FileIOSource", name: str) -> None:
    """Fail the audit if a file was unreadable because the storage is unreachable; that is not a breach."""
    from floe_audit import Rule
    from floe_iceberg.read.file_source import require_reachable

    unread = next((breach.file for breach in report.breaches if breach.rule == Rule.FILE_UNREADABLE), None)
    if unread is not None:
        require_reachable(source, unread, table=name)


def _located(manager: "IcebergTableManager", name: str, metadata: str | None) -> "tuple[str, FileIOSource]":
    from floe_iceberg.read.file_source import locate, source_of

    if metadata is not None:
        return metadata, source_of(manager.context, metadata)
    return locate(manager.context, name)


@contextmanager
def _noted(name: str, failures: dict[str, str], *, keep: bool) -> Iterator[None]:
    """Record the failure of one table so that the others are still audited."""
    try:
        yield
    except FloeStorageError as err:
        if not keep:
            raise
        failures[name] = err.message


def _verdict(reports: "dict[str, AuditReport]", failures: dict[str, str]) -> Report:
    rows = [
        (
            name,
            mark("ok" if report.ok else "failed"),
            f"{len(report.breaches) + report.withheld:,}",
            f"{report.checked.snapshots:,}",
            f"{report.checked.files:,}",
            f"{report.checked.rows:,}",
            f"{sum(report.checked.rules.values()):,}",
        )
        for name, report in reports.items()
    ]
    headers = ["TABLE", "VERDICT", "BREACHES", "SNAPSHOTS", "FILES", "ROWS", "CHECKS"]
    text: list[object] = [grid(headers, rows, right=headers[2:])] if rows else []
    for name, report in reports.items():
        text += ["", f"{name}:"] if report.breaches else []
        for breach in report.breaches:
            figures = f" Expected {breach.expected}, found {breach.found}." if breach.expected is not None else ""
            text += [f"  {breach.rule}: {breach.message}.{figures}", f"    {breach.file}"]
        if report.withheld:
            text.append(
                f"  … and {report.withheld:,} more {'breach' if report.withheld == 1 else 'breaches'} of these rules"
            )
    text += [line for name, message in failures.items() for line in ("", f"Cannot audit {name}: {message}")]
    wrong = sum(not report.ok for report in reports.values()) + len(failures)
    checked = count(len(reports) + len(failures), "table")
    text += ["", f"{checked} audited: " + (f"{wrong} failed." if wrong else "no breaches.")]
    data = {
        "tables": {name: report.to_dict() for name, report in reports.items()},
        "failures": failures,
    }
    return Report(data=data, text=text, exit_code=SYSTEM_ERROR if wrong else 0)  # type: ignore[arg-type]
