"""An auditor for Iceberg tables: recomputes table metadata from the files, following the Iceberg specification.

It shares no code with table writers: metadata is read as plain JSON, manifests with fastavro, rows with PyArrow.
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
