"""Builds Dagster definitions from a compiled project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dagster import AssetChecksDefinition, AssetsDefinition, Definitions, MaterializeResult

from floe_core.declaration.expansion import expand_section
from floe_core.errors import CapabilityError, PluginNotFoundError
from floe_core.observing.observability import configure_observability
from floe_core.plugins import PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_dagster.assets.keys import table_of
from floe_dagster.assets.modules import load_project_module
from floe_dagster.assets.review import ReadInput, WrittenAsset, require_valid
from floe_dagster.assets.settings import NO_ROWS_KEY
from floe_dagster.engine import ProjectEngine
from floe_dagster.gate.publication import audited
from floe_dagster.io.manager import IcebergIOManager
from floe_dagster.io.tables_source import TablesSource
from floe_dagster.maintenance import maintenance_jobs
from floe_dagster.resources import create_iceberg_resources
from floe_dagster.schedules import declared_schedules
from floe_dagster.telemetry.observer import RunObserver
from floe_dagster.tenants import for_each_tenant, tenants_sensor
from floe_dagster.ui.presentation import presented

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dagster import AssetKey, AssetSpec

    from floe_core.schemas import CheckConfig, CompiledArtifacts


def create_definitions(artifacts: CompiledArtifacts, *, registry: PluginRegistry | None = None) -> Definitions:
    """Create Dagster definitions for a compiled project.

    Assets, checks, jobs, schedules and sensors come from ``orchestration.module``; SQL models in the folder
    ``orchestration.models`` add more assets. An asset gets a gate if its table declares checks or if it has blocking
    checks. Resources of the module take precedence over floe's. Logs, spans and metrics of this process are sent to the
    targets in the project's observability section.

    Raises:
        ConfigurationError: The module cannot be imported, a schedule or check is invalid, or a rerun of an asset would
            have an unexpected effect; ``problems`` lists every mistake.
        CapabilityError: A table declares checks, but its catalog does not support branches.
    """
    # floe sends no telemetry; Dagster reads this variable before it sends its own.
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    configure_observability(artifacts.observability)
    observer = RunObserver(artifacts)
    registry = registry or PluginRegistry()
    module = artifacts.orchestration.module
    found = load_project_module(module, artifacts.project_root) if module else Definitions()
    engine = ProjectEngine.of(artifacts.compute, registry)
    found = _with_models(found, artifacts, engine)
    own = create_iceberg_resources(artifacts, registry=registry, observer=observer)
    resources = {**own, **(found.resources or {})}
    project = _ProjectAssets(found, artifacts, resources, engine)
    observer.register_assets(project.assets)
    require_valid(project.written, artifacts.tables, project.inputs)
    if project.gates:
        _require_branches(artifacts, registry)
    source = TablesSource.of_artifacts(artifacts, registry=registry)
    sensors = [tenants_sensor(source)] if artifacts.orchestration.per_tenant else []
    return Definitions(
        assets=[*project.assets, *project.others],
        asset_checks=[*project.gates, *project.checks],
        jobs=[*(found.jobs or ()), *maintenance_jobs(artifacts)],
        schedules=[*(found.schedules or ()), *declared_schedules(artifacts.orchestration.schedules, project.assets)],
        sensors=[*(found.sensors or ()), *sensors],
        resources=resources,
        executor=observer.executor(found.executor),
        loggers=found.loggers,
    )


def _with_models(found: Definitions, artifacts: CompiledArtifacts, engine: ProjectEngine) -> Definitions:
    """Add the project's SQL models to the definitions of its module."""
    folder = artifacts.project_root / artifacts.orchestration.models
    if not folder.is_dir():
        return found
    # Only a project with models needs the SQL parser.
    from floe_dagster.assets.sql_models import load_sql_models

    models = load_sql_models(folder, artifacts.project_root, found.assets or (), engine=engine)
    return Definitions.merge(found, Definitions(assets=models)) if models else found


class _ProjectAssets:
    """The module's assets and checks, with gates for assets whose checks run before publication.

    Attributes:
        assets: Assets that can be materialized.
        others: Specs of external assets.
        gates: One for each audited asset.
        checks: Checks that run after publication, on the rows on main.
    """

    def __init__(
        self, found: Definitions, artifacts: CompiledArtifacts, resources: Mapping[str, Any], engine: ProjectEngine
    ) -> None:
        self._declared = artifacts.tables
        self._dialect = engine.sql_dialect
        self._resources = resources
        # Asset checks may be listed among the assets, and after the assets they check.
        given = [*(found.asset_checks or ()), *(found.assets or ())]
        self.checks = [check for check in given if isinstance(check, AssetChecksDefinition)]
        assets = for_each_tenant(found.assets or ()) if artifacts.orchestration.per_tenant else found.assets or ()
        self.others = [asset for asset in assets if not isinstance(asset, AssetsDefinition)]
        self.assets: list[AssetsDefinition] = []
        self.gates: list[AssetChecksDefinition] = []
        self.written: list[WrittenAsset] = []
        for asset in assets:
            if isinstance(asset, AssetsDefinition) and not isinstance(asset, AssetChecksDefinition):
                self._add(asset)

    def _add(self, asset: AssetsDefinition) -> None:
        self.written += [
            WrittenAsset(
                spec, self._name(io, spec.key), io.chosen_write_mode, returns_rows=_returns_rows(asset, spec.key)
            )
            for spec in asset.specs
            if (io := self._io_manager(asset, spec.key)) is not None
        ]
        checks = {key: self._checks_of(asset, key) for key in asset.keys}
        own = self._checks_for_gates(asset, checks)
        presented_asset = asset.map_asset_specs(self._presented(asset))
        marked, gates = audited(presented_asset, checks, asset_checks=own, sql_dialect=self._dialect)
        self.checks = [check for check in self.checks if check not in own]
        self.assets.append(marked)
        self.gates += gates

    @property
    def inputs(self) -> list[ReadInput]:
        """Inputs of the project's assets that floe reads from other assets of the project."""
        written = {asset.spec.key for asset in self.written}
        return [
            ReadInput(_name_of(asset), name, definition.metadata, definition.dagster_type)
            for asset in self.assets
            for name, key in asset.keys_by_input_name.items()
            if key in written and not (definition := asset.node_def.input_def_named(name)).input_manager_key
        ]

    def _checks_of(self, asset: AssetsDefinition, key: AssetKey) -> Sequence[CheckConfig]:
        table = self._declared.get(self._table(asset, key) or "")
        return table.checks if table is not None else ()

    def _presented(self, asset: AssetsDefinition) -> Callable[[AssetSpec], AssetSpec]:
        def present(spec: AssetSpec) -> AssetSpec:
            io, table = self._io_manager(asset, spec.key), self._table(asset, spec.key)
            if io is None or table is None:
                return spec
            if io.chosen_write_mode is not None and "write_mode" not in spec.metadata:
                # Plans and batches read the write mode from the asset's metadata.
                spec = spec.merge_attributes(metadata={"write_mode": io.chosen_write_mode.value})
            if not _returns_rows(asset, spec.key):
                spec = spec.merge_attributes(metadata={NO_ROWS_KEY: True})
            return presented(spec, table, self._declared.get(table))

        return present

    def _table(self, asset: AssetsDefinition, key: AssetKey) -> str | None:
        """Return the table of an asset; None if floe does not store the asset."""
        io_manager = self._io_manager(asset, key)
        return self._name(io_manager, key) if io_manager else None

    @staticmethod
    def _name(io_manager: IcebergIOManager, key: AssetKey) -> str:
        return table_of(key.path, default_namespace=io_manager.default_namespace)

    def _io_manager(self, asset: AssetsDefinition, key: AssetKey) -> IcebergIOManager | None:
        if not asset.is_executable:
            return None
        found = self._resources.get(asset.get_io_manager_key_for_asset_key(key))
        return found if isinstance(found, IcebergIOManager) else None

    def _checks_for_gates(
        self, asset: AssetsDefinition, declared: Mapping[AssetKey, Sequence[CheckConfig]]
    ) -> list[AssetChecksDefinition]:
        """Return the user's own checks that must see the rows before they are published.

        If one check of an asset blocks, all of its checks move into the gate: outside, the others would check main
        before the new rows are published.
        """
        own: dict[AssetKey, list[AssetChecksDefinition]] = {key: [] for key in asset.keys}
        for check in self.checks:
            targets = {spec.asset_key for spec in check.check_specs}
            if len(targets) == 1 and targets <= set(asset.keys):
                own[next(iter(targets))].append(check)
        return [
            check
            for key, checks in own.items()
            if self._io_manager(asset, key) is not None
            and (declared[key] or any(spec.blocking for check in checks for spec in check.check_specs))
            for check in checks
        ]


def _name_of(asset: AssetsDefinition) -> str:
    return ", ".join(sorted(key.to_user_string() for key in asset.keys))


def _returns_rows(asset: AssetsDefinition, key: AssetKey) -> bool:
    """Whether an asset passes rows to its IO manager: not with ``-> None`` or a bare ``-> MaterializeResult``."""
    output = asset.node_def.output_def_named(asset.get_output_name_for_asset_key(key))
    function = getattr(getattr(asset.node_def, "compute_fn", None), "decorated_fn", None)
    annotation = getattr(function, "__annotations__", {}).get("return")
    return not output.dagster_type.is_nothing and annotation is not MaterializeResult


def _require_branches(artifacts: CompiledArtifacts, registry: PluginRegistry) -> None:
    name = expand_section(artifacts.catalog, path="catalog").type
    try:
        plugin = registry.get(PluginType.CATALOG, name)
    except PluginNotFoundError:
        # Connecting to the catalog raises this error with the list of available plugins.
        return
    if not plugin.capabilities.branches:
        msg = f"Some assets have checks that run before publication, but catalog '{name}' does not support branches."
        raise CapabilityError(msg, hint="Remove the checks, or use a catalog that supports branches.")
