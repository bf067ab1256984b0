"""Dagster integration: assets stored as Iceberg tables, with checks that run before publication."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_dagster.definitions import create_definitions
    from floe_dagster.gate.publication import audited
    from floe_dagster.io.config import IcebergIOManagerConfig
    from floe_dagster.io.inputs import columns
    from floe_dagster.io.manager import IcebergIOManager
    from floe_dagster.plugin import DagsterOrchestratorPlugin
    from floe_dagster.resources import create_iceberg_resources, create_io_manager, create_io_manager_from_artifacts
    from floe_dagster.tenants import partition_keys_of, tenant_of
    from floe_iceberg.staging.staged import discard_staged, list_staged, publish_staged

__all__ = [
    "DagsterOrchestratorPlugin",
    "IcebergIOManager",
    "IcebergIOManagerConfig",
    "audited",
    "columns",
    "create_definitions",
    "create_iceberg_resources",
    "create_io_manager",
    "create_io_manager_from_artifacts",
    "discard_staged",
    "list_staged",
    "partition_keys_of",
    "publish_staged",
    "tenant_of",
]

# Imported lazily: the plugin can be discovered and listed without Dagster, which takes a second to import.
_HOMES = {
    "DagsterOrchestratorPlugin": "floe_dagster.plugin",
    "IcebergIOManager": "floe_dagster.io.manager",
    "IcebergIOManagerConfig": "floe_dagster.io.config",
    "audited": "floe_dagster.gate.publication",
    "columns": "floe_dagster.io.inputs",
    "create_definitions": "floe_dagster.definitions",
    "create_iceberg_resources": "floe_dagster.resources",
    "create_io_manager": "floe_dagster.resources",
    "create_io_manager_from_artifacts": "floe_dagster.resources",
    "discard_staged": "floe_iceberg.staging.staged",
    "list_staged": "floe_iceberg.staging.staged",
    "partition_keys_of": "floe_dagster.tenants",
    "publish_staged": "floe_iceberg.staging.staged",
    "tenant_of": "floe_dagster.tenants",
}

_RENAMED = {
    "discard_held": "floe_dagster.discard_staged",
    "list_held": "floe_dagster.list_staged",
    "publish_held": "floe_dagster.publish_staged",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES, renamed=_RENAMED)
