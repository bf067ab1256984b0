"""An auditor of Iceberg tables: recomputes from the files what their metadata says, by the table format specification.

It shares no code with what writes tables: metadata is read as plain JSON, manifests with fastavro, rows with PyArrow.
"""

from floe_audit.audit import Snapshots, audit_table
from floe_audit.files.access import FileSource, LocalFiles
from floe_audit.report import AuditDepth, AuditReport, Breach, Checked
from floe_audit.spec.rules import Rule

__all__ = [
    "AuditDepth",
    "AuditReport",
    "Breach",
    "Checked",
    "FileSource",
    "LocalFiles",
    "Rule",
    "Snapshots",
    "audit_table",
]
