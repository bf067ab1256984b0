"""Dagster on Iceberg tables: assets are tables, checks stand before their publication."""

from floe_dagster.config import IcebergIOManagerConfig
from floe_dagster.gate import audited, discard_held, list_held, publish_held
from floe_dagster.inputs import columns
from floe_dagster.io_manager import IcebergIOManager
from floe_dagster.resources import create_iceberg_resources, create_io_manager, create_io_manager_from_artifacts

__all__ = [
    "IcebergIOManager",
    "IcebergIOManagerConfig",
    "audited",
    "columns",
    "create_iceberg_resources",
    "create_io_manager",
    "create_io_manager_from_artifacts",
    "discard_held",
    "list_held",
    "publish_held",
]
