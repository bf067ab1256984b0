"""Table manager: the facade for all operations on Iceberg tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from floe_core.errors import ConfigurationError
from floe_core.plugins import CatalogPlugin, default_registry
from floe_core.plugins.host.connecting import opened_catalog
from floe_core.telemetry import get_logger, get_tracer
from floe_iceberg import maintenance
from floe_iceberg.catalog.connection import LazyEngine
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.context import ManagerContext
from floe_iceberg.models import CompactionStrategy, IcebergTableManagerConfig, WriteMode
from floe_iceberg.read import integrity, scan
from floe_iceberg.table import inspection, lifecycle, refs, schema
from floe_iceberg.table.declared import applying
from floe_iceberg.table.declared.drift import DriftDetector
from floe_iceberg.table.keys import row_keys
from floe_iceberg.table.properties import set_properties
from floe_iceberg.write import operations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from opentelemetry.trace import Tracer
    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder
    from structlog.typing import FilteringBoundLogger

    from floe_core.dataplane import DataPlane
    from floe_core.declaration.drift import DriftReport
    from floe_core.plugins import ComputePlugin, PluginRegistry, StoragePlugin
    from floe_core.schemas import CatalogConfig, CompiledArtifacts, TableConfig
    from floe_iceberg.catalog.connection import ProjectConnection
    from floe_iceberg.context import TableTarget
    from floe_iceberg.maintenance import Keeping
    from floe_iceberg.models import (
        CommitStrategy,
        CompactionResult,
        Engine,
        ExpiredSnapshots,
        FileInfo,
        HistoryEntry,
        ManifestInfo,
        ManifestRewriteResult,
        NullKeys,
        OrphanSweepResult,
        PartitionInfo,
        PurgeResult,
        RefInfo,
        SchemaChange,
        SnapshotInfo,
        TableHealth,
    )
    from floe_iceberg.options import (
        ApplyOptions,
        BranchOptions,
        CompactionOptions,
        DeleteOptions,
        DropOptions,
        ExpiryOptions,
        FrameOptions,
        IncrementOptions,
        ManagerOptions,
        ModeOptions,
        OverwriteOptions,
        PublishOptions,
        ScanOptions,
        SweepOptions,
        TagOptions,
        VersionOptions,
        WriteOptions,
    )
    from floe_iceberg.read.predicates import RowFilter
    from floe_iceberg.read.versions import TimestampLike
    from floe_iceberg.table.declared.applying import DeclaredPlan


class IcebergTableManager:
    """Creates, writes, reads and maintains Iceberg tables of one catalog.

    Every operation accepts a table as ``namespace.table``, a ``TableIdentifier`` or a loaded ``Table``, and works on
    the current version of the table. Writes land exactly once; a failed write does not change the table.

    Attributes:
        catalog: The catalog, wrapped to reconcile calls after ambiguous replies.
        config: The manager's settings.
    """

    def __init__(  # noqa: PLR0913 - both shapes of the contract
        self,
        catalog: Catalog | CatalogPlugin | None = None,
        storage_plugin: StoragePlugin | None = None,
        config: IcebergTableManagerConfig | None = None,
        *,
        catalog_plugin: CatalogPlugin | None = None,
        catalog_config: CatalogConfig | Mapping[str, object] | None = None,
        compute: DataPlane | ComputePlugin | None = None,
        tracer: Tracer | None = None,
        logger: FilteringBoundLogger | None = None,
    ) -> None:
        """Create a manager from a connected catalog, or from plugins that connect to one.

        Args:
            catalog: A connected PyIceberg catalog; a catalog plugin is used as ``catalog_plugin``.
            storage_plugin: Storage of the files, for connecting a catalog plugin and for an engine.
            config: Settings; defaults if omitted.
            catalog_plugin: Plugin that connects to the catalog if ``catalog`` is omitted.
            catalog_config: Configuration for the plugin; by default its existing connection or configuration.
            compute: Engine for large and row-level operations: a data plane, a plugin, or None for the installed one.
            tracer: Tracer for spans.
            logger: Logger for events.
        """
        if isinstance(catalog, CatalogPlugin):
            catalog, catalog_plugin = None, catalog
        if (catalog is None) == (catalog_plugin is None):
            msg = "A table manager needs either a connected catalog or a catalog plugin."
            raise ConfigurationError(msg)
        if catalog is None and catalog_plugin is not None:
            catalog = cast("Catalog", opened_catalog(catalog_plugin, storage_plugin, catalog_config))
        # A catalog may have its own plugin, which describes its capabilities and how an engine opens it.
        catalog_plugin = catalog_plugin or getattr(catalog, "catalog_plugin", None)
        self._connection: ProjectConnection | None = None
        self._plane = LazyEngine(cast("Catalog", catalog), compute, plugins=(catalog_plugin, storage_plugin))
        self._context = ManagerContext(
            catalog=ReconcilingCatalog.around(cast("Catalog", catalog)),
            config=config or IcebergTableManagerConfig(),
            tracer=tracer or get_tracer("floe.iceberg"),
            logger=logger or get_logger("floe.iceberg"),
            plane=self._plane,
            branches=catalog_plugin.capabilities.branches if catalog_plugin else True,
        )

    @classmethod
    def from_artifacts(cls, artifacts: CompiledArtifacts, **options: Unpack[ManagerOptions]) -> Self:
        """Open the tables of a compiled project; ``close`` ends the connection."""
        from floe_iceberg.catalog.connection import open_project

        return cls.from_project(open_project(artifacts), **options)

    @classmethod
    def from_project(cls, connection: ProjectConnection, **options: Unpack[ManagerOptions]) -> Self:
        """Open the tables of an open project; ``close`` ends the connection."""
        manager = cls(connection.catalog, **options)
        manager._connection = connection
        manager._plane.use(connection)
        manager._context = manager._context.for_project(connection)
        return manager

    def __enter__(self) -> Self:
        """Return the manager itself."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the manager."""
        self.close()

    def __repr__(self) -> str:
        """Show the catalog's name, but not its properties, which contain secrets."""
        return f"IcebergTableManager(catalog={self.catalog.name!r})"

    def close(self) -> None:
        """Release the engine and the connection that this manager opened."""
        try:
            self._plane.close()
        finally:
            if self._connection is not None:
                self._connection.close()

    @property
    def catalog(self) -> Catalog:
        """The catalog, wrapped to reconcile calls after ambiguous replies."""
        return self._context.catalog

    @property
    def config(self) -> IcebergTableManagerConfig:
        """The manager's settings."""
        return self._context.config

    @property
    def context(self) -> ManagerContext:
        """The context of this manager's operations, for extensions."""
        return self._context

    @property
    def plugins(self) -> PluginRegistry:
        """The plugins of the manager's project; all installed plugins if there is no project."""
        return self._connection.plugins if self._connection else default_registry()

    @property
    def spark(self) -> Any:  # noqa: ANN401 - a Spark session, which only the data plane imports
        """The Spark session with access to this catalog, started on first use; needs the extra ``spark``."""
        return self._context.plane().session

    @property
    def namespaces(self) -> Namespaces:
        """The catalog's namespaces."""
        return Namespaces(self.catalog, tracer=self._context.tracer, logger=self._context.logger)

    def create_namespace(self, namespace: str | tuple[str, ...], properties: Mapping[str, str] | None = None) -> bool:
        """Create a namespace and its missing parents; return False if it already exists."""
        return self.namespaces.create(namespace, properties)

    # Tables

    def create_table(  # noqa: PLR0913 - the contract's options
        self,
        identifier: TableTarget,
        schema: pa.Schema | Schema,
        partition_spec: PartitionSpec | Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        sort_order: SortOrder | Sequence[str] | None = None,
        location: str | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table; see ``lifecycle.create_table``."""
        design = lifecycle.TableDesign(schema, partition_spec, sort_order, properties or {}, location)
        return lifecycle.create_table(self._context, identifier, design, if_not_exists=if_not_exists)

    def create_table_if_not_exists(  # noqa: PLR0913 - the contract's options
        self,
        identifier: TableTarget,
        schema: pa.Schema | Schema,
        partition_spec: PartitionSpec | Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        sort_order: SortOrder | Sequence[str] | None = None,
        location: str | None = None,
    ) -> Table:
        """Create a table, or return the existing one unchanged."""
        design = lifecycle.TableDesign(schema, partition_spec, sort_order, properties or {}, location)
        return lifecycle.create_table(self._context, identifier, design, if_not_exists=True)

    def create_from_config(self, identifier: TableTarget, config: TableConfig, *, if_not_exists: bool = False) -> Table:
        """Create a table as declared in floe.yaml; see ``lifecycle.create_from_config``."""
        return lifecycle.create_from_config(self._context, identifier, config, if_not_exists=if_not_exists)

    def load_table(self, identifier: TableTarget) -> Table:
        """Load the current version of a table; see ``integrity.load_table``."""
        return integrity.load_table(self._context, identifier, within=False)

    def table_exists(self, identifier: TableTarget) -> bool:
        """Whether a table exists."""
        return lifecycle.table_exists(self._context, identifier)

    def list_tables(self, namespace: str | tuple[str, ...]) -> list[str]:
        """List the table names of a namespace, sorted."""
        return lifecycle.list_tables(self._context, namespace)

    def rename_table(self, identifier: TableTarget, new_name: TableTarget) -> Table:
        """Rename a table; see ``lifecycle.rename_table``."""
        return lifecycle.rename_table(self._context, identifier, new_name)

    def register_table(self, identifier: TableTarget, metadata_location: str) -> Table:
        """Register an existing table from its metadata file; see ``lifecycle.register_table``."""
        return lifecycle.register_table(self._context, identifier, metadata_location)

    def drop_table(self, identifier: TableTarget, purge: bool = False, **options: Unpack[DropOptions]) -> PurgeResult:  # noqa: FBT001, FBT002 - the contract's signature
        """Drop a table, with ``purge`` also its files; see ``lifecycle.drop_table``."""
        return lifecycle.drop_table(self._context, identifier, purge=purge, **options)

    # Writes

    def write_data(  # noqa: PLR0913 - the contract's options
        self,
        table: TableTarget,
        data: object,
        mode: WriteMode = WriteMode.APPEND,
        commit_strategy: CommitStrategy | None = None,
        *,
        keys: Sequence[str] | None = None,
        overwrite_filter: RowFilter | None = None,
        **options: Unpack[WriteOptions],
    ) -> SnapshotInfo:
        """Write data exactly once; see ``operations.write_data``."""
        chosen = operations.WriteSettings.of(commit_strategy=commit_strategy, **options)
        return operations.write_data(
            self._context, table, data, mode=mode, keys=keys, overwrite_filter=overwrite_filter, options=chosen
        )

    def append(self, identifier: TableTarget, data: object, **options: Unpack[ModeOptions]) -> SnapshotInfo:
        """Append data; see ``write_data`` for the options."""
        return self.write_data(identifier, data, WriteMode.APPEND, **options)

    def overwrite(self, identifier: TableTarget, data: object, **options: Unpack[OverwriteOptions]) -> SnapshotInfo:
        """Replace all rows, or those matching ``overwrite_filter``; see ``write_data`` for the options."""
        return self.write_data(identifier, data, WriteMode.OVERWRITE, **options)

    def overwrite_partitions(
        self, identifier: TableTarget, data: object, **options: Unpack[ModeOptions]
    ) -> SnapshotInfo:
        """Replace the partitions that the data contains; see ``write_data`` for the options."""
        return self.write_data(identifier, data, WriteMode.OVERWRITE_PARTITIONS, **options)

    def upsert(
        self, identifier: TableTarget, data: object, keys: Sequence[str] | None = None, **options: Unpack[ModeOptions]
    ) -> SnapshotInfo:
        """Update rows by key and insert the others; see ``write_data`` for the options."""
        return self.write_data(identifier, data, WriteMode.UPSERT, keys=keys, **options)

    def delete(self, identifier: TableTarget, row_filter: RowFilter, **options: Unpack[DeleteOptions]) -> SnapshotInfo:
        """Delete the rows that match a filter; see ``operations.delete``."""
        return operations.delete(self._context, identifier, row_filter, options=operations.WriteSettings.of(**options))

    # Schema

    def evolve_schema(
        self, identifier: TableTarget, changes: Sequence[SchemaChange], *, allow_incompatible_changes: bool = False
    ) -> Schema:
        """Change the schema in one commit; see ``schema.evolve_schema``."""
        return schema.evolve_schema(
            self._context, identifier, changes, allow_incompatible_changes=allow_incompatible_changes
        )

    def plan_evolution(
        self, identifier: TableTarget, changes: Sequence[SchemaChange], *, allow_incompatible_changes: bool = False
    ) -> Schema:
        """Return the schema that changes would produce; see ``schema.plan_evolution``."""
        return schema.plan_evolution(
            self._context, identifier, changes, allow_incompatible_changes=allow_incompatible_changes
        )

    def set_keys(self, identifier: TableTarget, keys: Sequence[str], *, null_keys: NullKeys | None = None) -> Table:
        """Record the key columns if the rows are unique by them; see ``row_keys.set_keys``."""
        return row_keys.set_keys(self._context, identifier, keys, null_keys=null_keys)

    def set_properties(
        self, identifier: TableTarget, updates: Mapping[str, str], removals: Sequence[str] = ()
    ) -> Table:
        """Set and remove properties in one commit; see ``properties.set_properties``."""
        return set_properties(self._context, identifier, updates, removals)

    def plan_declaration(
        self, table: TableTarget, declared: TableConfig, *, drop_columns: bool = False
    ) -> DeclaredPlan:
        """Plan the changes that make a table match its declaration; see ``applying.plan_declaration``."""
        return applying.plan_declaration(self._context, table, declared, drop_columns=drop_columns)

    def apply_declaration(
        self, table: TableTarget, declared: TableConfig, **options: Unpack[ApplyOptions]
    ) -> DeclaredPlan:
        """Apply a declaration to a table in one commit, or create the table; see ``applying.apply_declaration``."""
        return applying.apply_declaration(self._context, table, declared, **options)

    # Reads

    def scan(  # noqa: PLR0913 - the contract's options
        self,
        identifier: TableTarget,
        columns: Sequence[str] | None = None,
        row_filter: RowFilter | None = None,
        snapshot_id: int | None = None,
        limit: int | None = None,
        *,
        as_of: TimestampLike | None = None,
        ref: str | None = None,
    ) -> pa.Table:
        """Read rows into memory; see ``scan.scan``."""
        return scan.scan(
            self._context,
            identifier,
            columns=columns,
            row_filter=row_filter,
            snapshot_id=snapshot_id,
            as_of=as_of,
            ref=ref,
            limit=limit,
        )

    def scan_batches(self, identifier: TableTarget, **options: Unpack[ScanOptions]) -> pa.RecordBatchReader:
        """Stream rows; see ``scan`` for the options."""
        return scan.scan_batches(self._context, identifier, **options)

    def incremental_scan(self, identifier: TableTarget, **options: Unpack[IncrementOptions]) -> pa.Table:
        """Read the rows appended between two snapshots; see ``scan.incremental_scan``."""
        return scan.incremental_scan(self._context, identifier, **options)

    def incremental_frame(self, identifier: TableTarget, **options: Unpack[IncrementOptions]) -> Any:  # noqa: ANN401 - the engine's own frame
        """Return the engine's lazy frame of appended rows; see ``scan.incremental_frame``."""
        return scan.incremental_frame(self._context, identifier, **options)

    def frame(self, identifier: TableTarget, **options: Unpack[FrameOptions]) -> Any:  # noqa: ANN401 - the engine's own frame
        """Return the engine's lazy frame; see ``scan.frame``."""
        return scan.frame(self._context, identifier, **options)

    # Snapshots and refs

    def list_snapshots(self, identifier: TableTarget, limit: int | None = None) -> list[SnapshotInfo]:
        """List snapshots, newest first."""
        return refs.list_snapshots(self._context, identifier, limit=limit)

    def get_current_snapshot(self, identifier: TableTarget, *, ref: str | None = None) -> SnapshotInfo | None:
        """Return the current snapshot; None if the table has no snapshots."""
        return refs.current_snapshot(self._context, identifier, ref=ref)

    def rollback(
        self, identifier: TableTarget, snapshot_id: int | None = None, *, to: TimestampLike | None = None
    ) -> SnapshotInfo:
        """Make an earlier snapshot current again; see ``refs.rollback``."""
        return refs.rollback(self._context, identifier, snapshot_id=snapshot_id, to=to)

    def create_tag(self, identifier: TableTarget, name: str, **options: Unpack[TagOptions]) -> RefInfo:
        """Create a tag for a snapshot; see ``refs.create_tag``."""
        return refs.create_tag(self._context, identifier, name, **options)

    def create_branch(self, identifier: TableTarget, name: str, **options: Unpack[BranchOptions]) -> RefInfo:
        """Create a branch; see ``refs.create_branch``."""
        return refs.create_branch(self._context, identifier, name, **options)

    def remove_tag(self, identifier: TableTarget, name: str) -> None:
        """Remove a tag; its snapshot stays until it expires."""
        refs.remove_tag(self._context, identifier, name)

    def remove_branch(self, identifier: TableTarget, name: str) -> None:
        """Remove a branch; its snapshots stay until they expire."""
        refs.remove_branch(self._context, identifier, name)

    def list_refs(self, identifier: TableTarget) -> list[RefInfo]:
        """List branches and tags, main first."""
        return refs.list_refs(self._context, identifier)

    def publish_branch(self, identifier: TableTarget, branch: str, **options: Unpack[PublishOptions]) -> SnapshotInfo:
        """Fast-forward main to the head of a branch; see ``refs.publish_branch``."""
        return refs.publish_branch(self._context, identifier, branch, **options)

    # Maintenance

    def expire_snapshots(
        self,
        identifier: TableTarget,
        older_than: TimestampLike | None = None,
        retain_last: int | None = None,
        **options: Unpack[ExpiryOptions],
    ) -> ExpiredSnapshots:
        """Expire snapshots and delete the files that only they reference; see ``maintenance.expire_snapshots``."""
        return maintenance.expire_snapshots(
            self._context, identifier, older_than=older_than, retain_last=retain_last, **options
        )

    def snapshot_retention(self, identifier: TableTarget) -> Keeping:
        """Return the retention of a table's snapshots and its derivation; see ``maintenance.keeping_of``."""
        return maintenance.keeping_of(self._context, self._context.load(identifier))

    def compact_table(
        self,
        identifier: TableTarget,
        strategy: CompactionStrategy = CompactionStrategy.BINPACK,
        **options: Unpack[CompactionOptions],
    ) -> CompactionResult:
        """Rewrite data files into fewer or sorted ones; see ``maintenance.compact_table``."""
        return maintenance.compact_table(self._context, identifier, strategy, **options)

    def rewrite_manifests(self, identifier: TableTarget, *, engine: Engine | None = None) -> ManifestRewriteResult:
        """Rewrite manifests into fewer ones; see ``maintenance.rewrite_manifests``."""
        return maintenance.rewrite_manifests(self._context, identifier, engine=engine)

    def sweep_orphans(self, identifier: TableTarget, **options: Unpack[SweepOptions]) -> OrphanSweepResult:
        """Find, and optionally delete, unreferenced files; see ``maintenance.sweep_orphans``."""
        return maintenance.sweep_orphans(self._context, identifier, **options)

    # Inspection

    def files(self, identifier: TableTarget, **version: Unpack[VersionOptions]) -> list[FileInfo]:
        """List the data and delete files of a version."""
        return inspection.files(self._context, identifier, **version)

    def partitions(self, identifier: TableTarget, **version: Unpack[VersionOptions]) -> list[PartitionInfo]:
        """Summarize the partitions of a version."""
        return inspection.partitions(self._context, identifier, **version)

    def manifests(self, identifier: TableTarget, **version: Unpack[VersionOptions]) -> list[ManifestInfo]:
        """List the manifests of a version."""
        return inspection.manifests(self._context, identifier, **version)

    def history(self, identifier: TableTarget) -> list[HistoryEntry]:
        """List which snapshot was current when, newest first."""
        return inspection.history(self._context, identifier)

    def find_snapshot(self, identifier: TableTarget, **version: Unpack[VersionOptions]) -> SnapshotInfo | None:
        """Return the snapshot for an id, a timestamp, a branch or a tag."""
        return inspection.find_snapshot(self._context, identifier, **version)

    def table_health(self, identifier: TableTarget) -> TableHealth:
        """Summarize a table's state, with maintenance advice."""
        return inspection.health(self._context, identifier)

    def detect_drift(self, identifier: TableTarget, declared: TableConfig) -> DriftReport:
        """Compare a table with its declaration in floe.yaml; see ``drift.DriftDetector``."""
        return DriftDetector(self._context).detect(identifier, declared)
