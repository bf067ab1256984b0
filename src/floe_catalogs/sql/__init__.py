"""The ``sql`` catalog: tables registered in a SQLite file or a PostgreSQL database."""

from __future__ import annotations

from floe_catalogs.sql.plugin import SqlCatalogPlugin

__all__ = ["SqlCatalogPlugin"]
