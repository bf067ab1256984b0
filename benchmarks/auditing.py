"""Audits the tables that a workload leaves: a fast answer on broken files is no result."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from floe_audit import audit_table

if TYPE_CHECKING:
    from pathlib import Path

_TABLES = "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"


def audited(folder: Path) -> dict[str, list[str]]:
    """Audit every table of the embedded catalogs below a folder, each value of it; return what was found by table."""
    return {
        name: [str(breach) for breach in audit_table(location).breaches]
        for database in sorted(folder.rglob("*.db"))
        for name, location in _tables(database)
    }


def _tables(database: Path) -> list[tuple[str, str]]:
    """Read a catalog without the code that wrote it."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone()
        return [] if known is None else connection.execute(_TABLES).fetchall()
