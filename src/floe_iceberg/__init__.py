"""Iceberg tables: created, written exactly once, read at any version, maintained."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from floe_core.errors import (
        CapabilityError,
        CommitStateUnknownError,
        ConcurrencyConflictError,
        CorruptFileError,
        FloeStorageError,
        InvalidDataError,
        InvalidIdentifierError,
        MaintenanceError,
        NamespaceNotFoundError,
        RefExistsError,
        RefNotFoundError,
        ScanError,
        SchemaEvolutionError,
        SnapshotNotFoundError,
        TableExistsError,
        TableNotFoundError,
        WriteError,
    )
    from floe_iceberg.errors import TableAlreadyExistsError
    from floe_iceberg.io_manager import (
        IcebergIOManager,
        IcebergIOManagerConfig,
        create_iceberg_resources,
        create_io_manager,
        create_io_manager_from_artifacts,
    )
    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.models import (
        BranchInfo,
        CommitStrategy,
        CompactionResult,
        CompactionStrategy,
        Engine,
        ExpiredSnapshots,
        IcebergTableManagerConfig,
        ManifestRewriteResult,
        OrphanSweepResult,
        RefInfo,
        SchemaChange,
        SchemaChangeKind,
        SnapshotInfo,
        TableConfig,
        TableHealth,
        TableIdentifier,
        WriteMode,
    )
    from floe_iceberg.reconciling import ReconcilingCatalog

__all__ = [
    "BranchInfo",
    "CapabilityError",
    "CommitStateUnknownError",
    "CommitStrategy",
    "CompactionResult",
    "CompactionStrategy",
    "ConcurrencyConflictError",
    "CorruptFileError",
    "Engine",
    "ExpiredSnapshots",
    "FloeStorageError",
    "IcebergIOManager",
    "IcebergIOManagerConfig",
    "IcebergTableManager",
    "IcebergTableManagerConfig",
    "InvalidDataError",
    "InvalidIdentifierError",
    "MaintenanceError",
    "ManifestRewriteResult",
    "NamespaceNotFoundError",
    "OrphanSweepResult",
    "ReconcilingCatalog",
    "RefExistsError",
    "RefInfo",
    "RefNotFoundError",
    "ScanError",
    "SchemaChange",
    "SchemaChangeKind",
    "SchemaEvolutionError",
    "SnapshotInfo",
    "SnapshotNotFoundError",
    "TableAlreadyExistsError",
    "TableConfig",
    "TableExistsError",
    "TableHealth",
    "TableIdentifier",
    "TableNotFoundError",
    "WriteError",
    "WriteMode",
    "create_iceberg_resources",
    "create_io_manager",
    "create_io_manager_from_artifacts",
]

# Imported when first asked for: plugins need parts of this package, and starting a command should not cost Arrow.
_HOMES = {
    "BranchInfo": "floe_iceberg.models",
    "CapabilityError": "floe_core.errors",
    "CommitStateUnknownError": "floe_core.errors",
    "CommitStrategy": "floe_iceberg.models",
    "CompactionResult": "floe_iceberg.models",
    "CompactionStrategy": "floe_iceberg.models",
    "ConcurrencyConflictError": "floe_core.errors",
    "CorruptFileError": "floe_core.errors",
    "Engine": "floe_iceberg.models",
    "ExpiredSnapshots": "floe_iceberg.models",
    "FloeStorageError": "floe_core.errors",
    "IcebergIOManager": "floe_iceberg.io_manager",
    "IcebergIOManagerConfig": "floe_iceberg.io_manager",
    "IcebergTableManager": "floe_iceberg.manager",
    "IcebergTableManagerConfig": "floe_iceberg.models",
    "InvalidDataError": "floe_core.errors",
    "InvalidIdentifierError": "floe_core.errors",
    "MaintenanceError": "floe_core.errors",
    "ManifestRewriteResult": "floe_iceberg.models",
    "NamespaceNotFoundError": "floe_core.errors",
    "OrphanSweepResult": "floe_iceberg.models",
    "ReconcilingCatalog": "floe_iceberg.reconciling",
    "RefExistsError": "floe_core.errors",
    "RefInfo": "floe_iceberg.models",
    "RefNotFoundError": "floe_core.errors",
    "ScanError": "floe_core.errors",
    "SchemaChange": "floe_iceberg.models",
    "SchemaChangeKind": "floe_iceberg.models",
    "SchemaEvolutionError": "floe_core.errors",
    "SnapshotInfo": "floe_iceberg.models",
    "SnapshotNotFoundError": "floe_core.errors",
    "TableAlreadyExistsError": "floe_iceberg.errors",
    "TableConfig": "floe_iceberg.models",
    "TableExistsError": "floe_core.errors",
    "TableHealth": "floe_iceberg.models",
    "TableIdentifier": "floe_iceberg.models",
    "TableNotFoundError": "floe_core.errors",
    "WriteError": "floe_core.errors",
    "WriteMode": "floe_iceberg.models",
    "create_iceberg_resources": "floe_iceberg.io_manager",
    "create_io_manager": "floe_iceberg.io_manager",
    "create_io_manager_from_artifacts": "floe_iceberg.io_manager",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module."""
    if home := _HOMES.get(name):
        return getattr(import_module(home), name)
    msg = f"module 'floe_iceberg' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
