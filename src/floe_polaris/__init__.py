"""Polaris, and any other catalog that implements the Iceberg REST specification."""

from floe_polaris.client import PolarisCatalog, create_catalog
from floe_polaris.config import PolarisCatalogConfig
from floe_polaris.management import PolarisManagement

__all__ = ["PolarisCatalog", "PolarisCatalogConfig", "PolarisManagement", "create_catalog"]
