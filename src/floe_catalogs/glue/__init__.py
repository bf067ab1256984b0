"""The ``glue`` catalog: tables registered in the AWS Glue data catalog."""

from __future__ import annotations

from floe_catalogs.glue.plugin import GlueCatalogPlugin

__all__ = ["GlueCatalogPlugin"]
