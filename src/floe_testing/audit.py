"""The auditor as an assertion: what a test did to a table left it right by the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_audit import AuditDepth, AuditReport, Snapshots, audit_table
from floe_iceberg.file_source import FileIOSource

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from floe_iceberg import IcebergTableManager


def audited(
    subject: IcebergTableManager | Table,
    name: str | None = None,
    *,
    depth: AuditDepth = AuditDepth.VALUES,
    snapshots: Snapshots = Snapshots.ALL,
) -> AuditReport:
    """Audit a table, given itself or as a manager and a name."""
    table: Table = subject if name is None else subject.load_table(name)  # type: ignore[union-attr,assignment]
    return audit_table(table.metadata_location, FileIOSource(table.io), depth=depth, snapshots=snapshots)


def assert_audited(
    subject: IcebergTableManager | Table,
    name: str | None = None,
    *,
    depth: AuditDepth = AuditDepth.VALUES,
    snapshots: Snapshots = Snapshots.ALL,
) -> AuditReport:
    """Fail with every breach unless a table's metadata and files agree."""
    report = audited(subject, name, depth=depth, snapshots=snapshots)
    shown = "\n".join(f"  {breach}" for breach in report.breaches[:20])
    assert report.ok, f"{len(report.breaches)} breaches in {report.metadata_location}:\n{shown}"
    return report
