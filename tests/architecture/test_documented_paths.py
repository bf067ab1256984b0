"""The import paths in the specifications exist and contain the specified names."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PATHS = {
    "floe_core.plugin_metadata": ["HealthStatus", "PluginMetadata"],
    "floe_core.plugin_registry": ["PluginRegistry", "PluginType"],
    "floe_core.plugins.catalog": ["Catalog", "CatalogPlugin"],
    "floe_core.plugins.storage": ["FileIO", "StoragePlugin"],
    "floe_core.schemas": ["CompiledArtifacts"],
    "floe_iceberg": [
        "CommitStrategy",
        "FloeStorageError",
        "IcebergIOManager",
        "IcebergIOManagerConfig",
        "IcebergTableManager",
        "IcebergTableManagerConfig",
        "ScanError",
        "SchemaChange",
        "SchemaEvolutionError",
        "SnapshotInfo",
        "TableConfig",
        "TableExistsError",
        "TableIdentifier",
        "TableNotFoundError",
        "WriteError",
        "WriteMode",
        "create_iceberg_resources",
        "create_io_manager",
        "create_io_manager_from_artifacts",
    ],
    "floe_iceberg.compaction": ["CompactionStrategy", "compact_table"],
    "floe_iceberg.errors": ["TableAlreadyExistsError"],
    "floe_iceberg.io_manager": ["IcebergIOManager"],
    "floe_iceberg.manager": ["IcebergTableManager"],
    "floe_iceberg.models": ["SchemaChange", "TableConfig"],
    "floe_iceberg.telemetry": ["get_tracer", "traced"],
    "floe_polaris": ["PolarisCatalogConfig", "create_catalog"],
    "iceberg": ["CatalogProvider", "IcebergCatalogBootstrapper", "IcebergCatalogConfig"],
    "iceberg.bootstrap": ["CatalogBootstrapResult", "IcebergCatalogBootstrapper", "_load_pyiceberg_catalog"],
    "iceberg.config": ["CatalogProvider", "IcebergCatalogConfig"],
    "iceberg.schema": ["SchemaEvolutionManager"],
    "iceberg.storage": ["ObjectStore", "WarehouseStorageManager"],
    "iceberg.tables": ["IcebergTableSpec"],
}
RE_EXPORTS = [
    "floe_core.plugin_metadata",
    "floe_core.plugin_registry",
    "floe_iceberg.compaction",
    "floe_iceberg.telemetry",
    "iceberg",
    "iceberg.bootstrap",
    "iceberg.config",
    "iceberg.schema",
    "iceberg.storage",
    "iceberg.tables",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_documented_path_has_the_documented_names(path):
    module = importlib.import_module(path)
    missing = [name for name in PATHS[path] if not hasattr(module, name)]
    assert missing == []


@pytest.mark.parametrize("path", RE_EXPORTS)
def test_a_re_export_is_the_very_object_and_lists_what_it_has(path):
    module = importlib.import_module(path)
    assert {*module.__all__} <= {*dir(module)}
    for name in module.__all__:
        found = getattr(module, name)
        assert getattr(importlib.import_module(module._HOMES[name]), name) is found
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = module.nothing_of_the_kind


def test_re_exports_import_nothing_until_a_name_is_asked_for():
    code = f"import importlib, sys\nfor path in {RE_EXPORTS!r}: importlib.import_module(path)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "iceberg.tables" in loaded
    assert not {"floe_tenancy", "floe_core.plugins", "pyiceberg", "pyarrow"} & loaded
