"""Audit assertions: verify that a table's metadata and files conform to the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_audit import AuditDepth, AuditReport, Rule, Snapshots, audit_table
from floe_iceberg.read.file_source import FileIOSource

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table

    from floe_iceberg import IcebergTableManager


def audited(
    subject: IcebergTableManager | Table,
    name: str | None = None,
    *,
    depth: AuditDepth = AuditDepth.VALUES,
    snapshots: Snapshots = Snapshots.ALL,
) -> AuditReport:
    """Audit a table, given directly or as a manager and a name."""
    table: Table = subject if name is None else subject.load_table(name)  # type: ignore[union-attr,assignment]
    return audit_table(table.metadata_location, FileIOSource(table.io), depth=depth, snapshots=snapshots)


def assert_audited(
    subject: IcebergTableManager | Table,
    name: str | None = None,
    *,
    depth: AuditDepth = AuditDepth.VALUES,
    snapshots: Snapshots = Snapshots.ALL,
    except_for: Collection[Rule] = (),
) -> AuditReport:
    """Assert that a table's metadata and files are consistent; the message lists the breaches.

    ``except_for`` lists rules that the catalog itself violates.
    """
    report = audited(subject, name, depth=depth, snapshots=snapshots)
    found = [breach for breach in report.breaches if breach.rule not in except_for]
    shown = "\n".join(f"  {breach}" for breach in found[:20])
    assert not found, f"{len(found)} breaches in {report.metadata_location}:\n{shown}"
    return report
