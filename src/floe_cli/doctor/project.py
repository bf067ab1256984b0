"""Project checks of ``floe doctor``: configuration, plugins, catalog, storage and Spark."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floe_cli.doctor.connection import probe_catalog, spark_packages
from floe_cli.doctor.leftovers import check_runs
from floe_cli.doctor.machine import (
    Check,
    Status,
    attempt,
    check_clock,
    check_disk,
    check_java,
    check_pyspark,
    check_python,
    check_spark_jars,
    failed,
    ok,
    skipped,
    warning,
)
from floe_cli.output import count
from floe_core.declaration.expansion import expand_section
from floe_core.errors import ConfigurationError, FloeStorageError, PluginError, StorageError
from floe_core.plugins import HealthState, HealthStatus, PluginType
from floe_core.plugins.host.connecting import warehouse_root
from floe_core.plugins.host.discovery import plugin_key
from floe_core.plugins.registry import PluginRegistry
from floe_core.plugins.secrets import open_secrets
from floe_core.schemas import AccessDelegation, ComputeConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from floe_cli.workspace import Workspace
    from floe_core.plugins import StoragePlugin
    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg.catalog.connection import ProjectConnection

_PROJECT_CHECKS = ("plugins", "catalog", "storage", "tables", "runs", "spark")


@dataclass(frozen=True)
class CheckOptions:
    """Which optional checks to run.

    Attributes:
        start_spark: Whether to start a Spark session.
        write: Whether to write and remove a test table and a test file.
        tenant: Tenant whose namespace is used for the test table; None for the project's own.
    """

    start_spark: bool = False
    write: bool = True
    tenant: str | None = None


def examine(workspace: Workspace, options: CheckOptions) -> Iterator[Check]:
    """Run all checks in order."""
    yield check_python()
    config, artifacts = _check_config(workspace)
    root = artifacts.project_root if artifacts else workspace.folder or Path.cwd()
    compute = artifacts.compute if artifacts else ComputeConfig()
    yield check_pyspark()
    yield attempt("java", lambda: check_java(compute))
    yield attempt("jars", lambda: check_spark_jars(compute, root, _packages(artifacts)))
    yield config
    if artifacts is None:
        yield from (skipped(name, "needs a valid floe.yaml") for name in _PROJECT_CHECKS)
    else:
        yield from _check_project(artifacts, options)
    yield attempt("disk", lambda: check_disk(root))
    yield attempt("clock", lambda: check_clock(root, _servers(artifacts)))


def _packages(artifacts: CompiledArtifacts | None) -> tuple[str, ...]:
    """Return the Maven packages of the project's plugins; another check reports a project that cannot be opened."""
    from floe_iceberg.catalog.connection import open_project

    if artifacts is None:
        return ()
    try:
        with open_project(artifacts) as connection:
            return spark_packages(connection)
    except FloeStorageError:
        return ()


def _check_config(workspace: Workspace) -> tuple[Check, CompiledArtifacts | None]:
    found: list[CompiledArtifacts] = []

    def look() -> Check:
        found.append(workspace.artifacts)
        workspace.announce()
        name, environment = found[0].name, found[0].environment or "base environment"
        return ok("config", f"project '{name}' ({environment}), {count(len(found[0].tables), 'table')} declared")

    check = attempt("config", look)
    return check, found[0] if found else None


def _check_project(artifacts: CompiledArtifacts, options: CheckOptions) -> Iterator[Check]:
    registry = PluginRegistry()
    yield attempt("plugins", lambda: _check_plugins(artifacts, registry))
    yield (catalog := attempt("catalog", lambda: _with_connection(artifacts, registry, _check_catalog)))
    if options.write:
        yield attempt("storage", lambda: _check_storage(artifacts, registry))
    else:
        yield skipped("storage", "not tested because of --no-write")
    if not options.write:
        yield skipped("tables", "not tested because of --no-write")
    elif catalog.status is Status.FAILED:
        yield skipped("tables", "needs a working catalog")
    else:
        yield attempt("tables", lambda: _with_connection(artifacts, registry, lambda it: _try_tables(it, options)))
    yield attempt("runs", lambda: check_runs(artifacts, options.tenant))
    if options.start_spark:
        yield attempt("spark", lambda: _with_connection(artifacts, registry, _check_spark))
    else:
        yield skipped("spark", "not started; to test it: floe doctor --spark")


def _check_plugins(artifacts: CompiledArtifacts, registry: PluginRegistry) -> Check:
    wanted = {
        PluginType.CATALOG: artifacts.catalog.type,
        PluginType.STORAGE: artifacts.storage.type,
    }
    if check_pyspark().status is Status.OK:
        wanted[PluginType.COMPUTE] = artifacts.compute.type
    if artifacts.vault.type is not None:
        wanted[PluginType.SECRETS] = artifacts.vault.type
    versions = {plugin_key(kind, name): registry.get(kind, name).version for kind, name in wanted.items()}
    health = _health(artifacts, registry, wanted)
    names = {key: f"{key.rpartition(':')[2]} {versions.get(key, '')}".strip() for key in {**versions, **health}}
    detail = ", ".join(f"{text} ({health[key].state})" if key in health else text for key, text in names.items())
    unhealthy = [f"{key} is {status.state}: {status.message}" for key, status in health.items() if status.message]
    if any(not status.ok for status in health.values()):
        return failed(
            "plugins", "\n".join([detail, *unhealthy]), "See the plugin's logs and check the services it uses."
        )
    if any(status.state is HealthState.DEGRADED for status in health.values()):
        return warning("plugins", "\n".join([detail, *unhealthy]), "The plugin works with limitations.")
    return ok("plugins", detail)


def _health(
    artifacts: CompiledArtifacts, registry: PluginRegistry, wanted: Mapping[PluginType, str]
) -> dict[str, HealthStatus]:
    """Start the project's plugins and return their health; other checks report why a project cannot be opened."""
    from floe_iceberg.catalog.connection import open_project

    try:
        with open_project(artifacts, registry=registry) as connection:
            connection.plugins.startup(wanted.items()).raise_for_failures()
            return connection.health()
    except PluginError:
        raise
    except FloeStorageError:
        return {}


def _with_connection(
    artifacts: CompiledArtifacts, registry: PluginRegistry, look: Callable[[ProjectConnection], Check]
) -> Check:
    from floe_iceberg.catalog.connection import open_project

    with open_project(artifacts, registry=registry) as connection:
        return look(connection)


def _check_catalog(connection: ProjectConnection) -> Check:
    return ok("catalog", probe_catalog(connection))


def _try_tables(connection: ProjectConnection, options: CheckOptions) -> Check:
    from floe_cli.doctor.scratch_table import try_tables

    if options.tenant is None:
        return try_tables(connection, below=None)
    from floe_tenancy import TenantTables, tenant_namespace

    TenantTables(connection).require(options.tenant)
    return try_tables(connection, below=tenant_namespace(connection.artifacts, options.tenant))


def _check_storage(artifacts: CompiledArtifacts, registry: PluginRegistry) -> Check:
    catalog = artifacts.catalog
    vends = registry.get(PluginType.CATALOG, catalog.type).capabilities.vended_credentials
    if vends and catalog.access_delegation is AccessDelegation.VENDED_CREDENTIALS:
        return skipped("storage", "the catalog vends credentials for each table")
    from floe_iceberg.catalog.connection import bound_storage

    plugins = registry.for_project()
    try:
        plugin = bound_storage(artifacts, plugins, open_secrets(artifacts, plugins))
        if plugin is None:
            return skipped("storage", f"the plugin '{artifacts.storage.type}' is not installed")
        plugins.startup([(PluginType.STORAGE, plugin.name)]).raise_for_failures()
        return _write_and_read_back(plugin)
    finally:
        plugins.shutdown()


def _write_and_read_back(plugin: StoragePlugin) -> Check:
    warehouse = warehouse_root(plugin)
    location = f"{warehouse}/.floe-doctor-{uuid.uuid4().hex}"
    files = plugin.get_pyiceberg_fileio()
    try:
        with files.new_output(location).create() as stream:
            stream.write(b"floe")
        with files.new_input(location).open() as stream:
            content = stream.read()
        files.delete(location)
    except OSError as err:
        msg = f"Cannot write, read or delete files in {warehouse}: {err}"
        hint = "Check the storage section: location, endpoint, credentials and permissions."
        raise StorageError(msg, hint=hint) from err
    if content != b"floe":
        return failed(
            "storage", f"{warehouse} returned different content than was written", "Check the storage service."
        )
    return ok("storage", f"wrote, read and deleted a file in {warehouse}")


def _check_spark(connection: ProjectConnection) -> Check:
    plane: Any = connection.data_plane()
    started = f"{plane.name} started on {connection.artifacts.compute.master}"
    if (session := getattr(plane, "session", None)) is None:
        return ok("spark", started)
    rows = session.range(1).count()
    return ok("spark", f"{started}: version {session.version}, a test query returned {count(rows, 'row')}")


def _servers(artifacts: CompiledArtifacts | None) -> list[str]:
    """Return the HTTP addresses of the configured servers."""
    if artifacts is None:
        return []
    addresses = []
    for section, path in ((artifacts.catalog, "catalog"), (artifacts.storage, "storage")):
        try:
            expanded = expand_section(section, path=path)
        except ConfigurationError:
            continue
        addresses.append(getattr(expanded, "uri", None) or getattr(expanded, "endpoint", None))
    return [address for address in addresses if address and address.startswith(("http://", "https://"))]
