"""Dagster resources for a project or a catalog: the IO manager, the table manager and the Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster import ResourceDefinition

from floe_core.declaration.expansion import expand_section
from floe_core.errors import PluginNotFoundError
from floe_core.plugins import PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_core.telemetry import get_logger
from floe_dagster.engine import ProjectEngine
from floe_dagster.io.manager import IcebergIOManager
from floe_dagster.io.tables_source import TablesSource

if TYPE_CHECKING:
    from dagster import InitResourceContext
    from pyiceberg.catalog import Catalog

    from floe_core.schemas import CompiledArtifacts
    from floe_dagster.io.config import IcebergIOManagerConfig
    from floe_dagster.telemetry.observer import RunObserver
    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.models import WriteMode

_log = get_logger("floe.dagster")


def create_io_manager(config: IcebergIOManagerConfig, catalog: Catalog | None = None) -> IcebergIOManager:
    """Create an IO manager.

    Args:
        config: Settings of the IO manager.
        catalog: A connected catalog; defaults to the REST catalog in the settings, connected on first use.
    """
    # Dagster shows the fields of a resource to every user, so the secrets go into the source instead.
    connection = {"client_secret": config.client_secret, "token": config.token, "client_id": config.client_id}
    source = (
        TablesSource.of_catalog(catalog)
        if catalog is not None
        else TablesSource.rest(
            uri=config.catalog_uri, warehouse=config.warehouse, properties=config.catalog_properties, **connection
        )
    )
    shown = config.model_fields_set - {"client_secret", "token", "catalog_properties"}
    return IcebergIOManager(source=source, **{name: getattr(config, name) for name in shown})


def create_io_manager_from_artifacts(
    artifacts: CompiledArtifacts,
    *,
    default_namespace: str = "public",
    write_mode: WriteMode | None = None,
) -> IcebergIOManager:
    """Create an IO manager for a compiled project; its catalog is connected on first use.

    Args:
        artifacts: The compiled project.
        default_namespace: Namespace of asset keys with one part.
        write_mode: Write mode for assets that do not set one; by default rows are appended and partitions replaced.
    """
    source = TablesSource.of_artifacts(artifacts)
    return IcebergIOManager(source=source, default_namespace=default_namespace, default_write_mode=write_mode)


def create_iceberg_resources(
    artifacts: CompiledArtifacts,
    *,
    default_namespace: str = "public",
    registry: PluginRegistry | None = None,
    observer: RunObserver | None = None,
) -> dict[str, Any]:
    """Create the resources of a compiled project.

    ``io_manager`` (also available as ``iceberg_io_manager``) reads and writes assets, and ``tables`` is the table
    manager. The engine's session has the name of ``compute.type``, such as ``spark``. They share one connection, which
    is opened on first use. Without the configured storage plugin, the catalog has to provide access to the files; this
    is logged as a warning.

    Args:
        artifacts: The compiled project.
        default_namespace: Namespace of asset keys with one part.
        registry: The plugin registry; all installed plugins by default.
        observer: Records spans and lineage of the runs that use the resources.
    """
    registry = registry or PluginRegistry()
    _report_missing_storage(artifacts, registry)
    source = TablesSource.of_artifacts(artifacts, registry=registry)
    source.observer = observer
    io_manager = IcebergIOManager(source=source, default_namespace=default_namespace)
    engine = ProjectEngine.of(artifacts.compute, registry).name
    return {
        engine: ResourceDefinition(
            lambda context: _session(context, source), description=f"The project's {engine.capitalize()} session."
        ),
        "io_manager": io_manager,
        "iceberg_io_manager": io_manager,
        "tables": ResourceDefinition(
            lambda context: _tables(context, source), description="The project's table manager."
        ),
    }


def _tables(context: InitResourceContext, source: TablesSource) -> IcebergTableManager:
    if source.observer is not None:
        source.observer.follow(context)
    return source.tables()


def _session(context: InitResourceContext, source: TablesSource) -> Any:  # noqa: ANN401 - the engine's own session
    return _tables(context, source).context.plane().session


def _report_missing_storage(artifacts: CompiledArtifacts, registry: PluginRegistry) -> None:
    name = expand_section(artifacts.storage, path="storage").type
    try:
        registry.get(PluginType.STORAGE, name)
    except PluginNotFoundError as err:
        _log.warning(
            "storage_plugin_missing", storage=name, reason=str(err), effect="files are reached as the catalog says"
        )
