"""Audits the tables that a workload has written: a result counts only if they are correct."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from floe_audit import audit_table

if TYPE_CHECKING:
    from pathlib import Path

_TABLES = "SELECT table_namespace || '.' || table_name, metadata_location FROM iceberg_tables"


def audited(folder: Path) -> dict[str, list[str]]:
    """Audit all tables of the embedded catalogs in a folder completely; return the breaches of each table."""
    return {
        name: [str(breach) for breach in audit_table(location).breaches]
        for database in sorted(folder.rglob("*.db"))
        for name, location in _tables(database)
    }


def _tables(database: Path) -> list[tuple[str, str]]:
    """List the tables of a catalog without floe's own code."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone()
        return [] if known is None else connection.execute(_TABLES).fetchall()
