"""The ``hive`` catalog: tables registered in a Hive metastore."""

from __future__ import annotations

from floe_catalogs.hive.plugin import HiveCatalogPlugin

__all__ = ["HiveCatalogPlugin"]
