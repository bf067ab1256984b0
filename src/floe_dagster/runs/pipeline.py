"""A project's assets: selection, partitions, settings and dependencies."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from dagster import (
    AssetSelection,
    BetaWarning,
    DagsterError,
    MultiPartitionsDefinition,
    PartitionKeyRange,
    PreviewWarning,
)

from floe_core.errors import ConfigurationError
from floe_core.plugins import PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_dagster.assets.keys import DEFAULT_NAMESPACE, keys_by_table, table_of
from floe_dagster.assets.partitions import ColumnChoice
from floe_dagster.assets.settings import AssetSettings, settings_from
from floe_dagster.io.manager import IcebergIOManager
from floe_dagster.telemetry.lineage import Lineage
from floe_dagster.tenants import IN_ONE_RUN, for_tenants, own_partitions
from floe_tenancy import tenant_namespace, validate_tenant_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagster import AssetKey, AssetsDefinition, AssetSpec, DagsterInstance, Definitions, PartitionsDefinition

    from floe_core.schemas import CompiledArtifacts, TableConfig

_NAME = re.compile(r"^(\+?)([\w./*-]+?)(\+?)$")
_SHOWN = 12


class Due(StrEnum):
    """Which of the selected partitions and unpartitioned assets a run writes."""

    MISSING = "missing"
    FAILED = "failed"
    ALL = "all"


@dataclass(frozen=True)
class PartitionChoice:
    """Partitions requested for a run: none, one, a range, or those that are due."""

    first: str | None = None
    last: str | None = None
    due: Due | None = None

    def __str__(self) -> str:
        """Format the choice as on the command line."""
        keys = (self.first or "") if self.first == self.last else f"{self.first}...{self.last}"
        if self.due is None:
            return keys
        which = f"{self.due} partitions"
        return f"{which} of {keys}" if keys else which


@dataclass(frozen=True)
class Pipeline:
    """The assets of a compiled project.

    Attributes:
        artifacts: The project.
        definitions: Its Dagster definitions.
        tenant: The tenant whose tables it reads and writes; None for the project's own tables.
    """

    artifacts: CompiledArtifacts
    definitions: Definitions = field(repr=False)
    tenant: str | None = None

    @classmethod
    def of(
        cls, artifacts: CompiledArtifacts, *, tenant: str | None = None, registry: PluginRegistry | None = None
    ) -> Pipeline:
        """Load a project's assets through its orchestrator plugin.

        Raises:
            ConfigurationError: The project has no assets, or another orchestrator runs them.
            InvalidIdentifierError: The tenant id is not valid.
        """
        if tenant is not None:
            validate_tenant_id(tenant)
            artifacts = for_tenants(artifacts)
        if artifacts.orchestration.type != "dagster":
            msg = f"The assets of this project run with '{artifacts.orchestration.type}', not with Dagster."
            raise ConfigurationError(msg, hint="Run them there, or set orchestration.type to dagster.")
        models = artifacts.project_root / artifacts.orchestration.models
        if artifacts.orchestration.module is None and not models.is_dir():
            msg = f"Project '{artifacts.name}' has no assets."
            hint = f"Set orchestration.module in floe.yaml (for example: assets), or add SQL models to {models.name}/."
            raise ConfigurationError(msg, hint=hint)
        quiet_beta_warnings()
        plugins, name = (registry or PluginRegistry()).for_project(), artifacts.orchestration.type
        try:
            plugins.startup([(PluginType.ORCHESTRATOR, name)]).raise_for_failures()
            definitions = plugins.get(PluginType.ORCHESTRATOR, name).create_definitions(artifacts)
        finally:
            plugins.shutdown()
        return cls(artifacts, definitions, tenant)

    @cached_property
    def lineage(self) -> Lineage | None:
        """Sends lineage of the pipeline's runs; None without a lineage receiver."""
        return Lineage.of(self.artifacts)

    @cached_property
    def keys(self) -> list[AssetKey]:
        """All assets that can be materialized, upstream first."""
        graph = self.definitions.resolve_asset_graph()
        return [key for key in graph.toposorted_asset_keys if key in graph.materializable_asset_keys]

    def select(self, text: str) -> list[AssetKey]:
        """Return the assets that match a selection, upstream first.

        A selection is a comma-separated list of tables: ``gold.daily``, ``bronze.flights+`` with everything downstream,
        ``+gold.daily`` with everything upstream, ``gold.*`` or ``*``. Dagster's selection syntax works as well.

        Raises:
            ConfigurationError: A part matches no asset.
        """
        graph = self.definitions.resolve_asset_graph()
        parts = [text] if ":" in text else [part.strip() for part in text.split(",") if part.strip()]
        tables = keys_by_table(graph.get_all_asset_keys())
        chosen: set[AssetKey] = set()
        for part in parts:
            try:
                found = AssetSelection.from_string(_query(part, tables)).resolve(graph)
            except DagsterError:
                found = set()
            if not found:
                raise self._nothing_selected(part)
            chosen |= found
        return [key for key in self.keys if key in chosen]

    def _nothing_selected(self, part: str) -> ConfigurationError:
        names = [self.table(key) for key in self.keys]
        close = get_close_matches(part.strip("+").replace("/", "."), names, n=1)
        shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        hint = f"Did you mean '{close[0]}'?" if close else f"Assets: {shown}."
        return ConfigurationError(f"No asset matches '{part}'.", hint=hint)

    def table(self, key: AssetKey) -> str:
        """Return the table of an asset."""
        table = table_of(key.path, default_namespace=DEFAULT_NAMESPACE)
        return table if self.tenant is None else f"{tenant_namespace(self.artifacts, self.tenant)}.{table}"

    def declared(self, key: AssetKey) -> TableConfig | None:
        """Return the declaration of an asset's table in floe.yaml; None if there is none."""
        return self.artifacts.tables.get(table_of(key.path, default_namespace=DEFAULT_NAMESPACE))

    def spec(self, key: AssetKey) -> AssetSpec:
        """Return the spec of an asset."""
        return self.definition(key).specs_by_key[key]

    def definition(self, key: AssetKey) -> AssetsDefinition:
        """Return the definition that contains an asset."""
        return self.definitions.resolve_assets_def(key)

    def settings(self, key: AssetKey) -> AssetSettings:
        """Return the IO manager settings of an asset."""
        return settings_from(self.spec(key).metadata, asset=key.to_user_string())

    def column_choice(self, key: AssetKey) -> ColumnChoice:
        """Return how the partition columns of an asset are determined."""
        asset, chosen = key.to_user_string(), self.settings(key).partition_columns
        io_manager = (self.definitions.resources or {}).get(self.definition(key).get_io_manager_key_for_asset_key(key))
        if not isinstance(io_manager, IcebergIOManager):
            return ColumnChoice(asset, chosen)
        return ColumnChoice(asset, {**io_manager.partition_columns, **chosen}, default=io_manager.partition_column)

    def check_names(self, key: AssetKey) -> list[str]:
        """Return the names of an asset's checks."""
        graph = self.definitions.resolve_asset_graph()
        return sorted(check.name for check in graph.get_check_keys_for_assets({key}))

    def partitions(
        self, keys: Iterable[AssetKey], choice: PartitionChoice, instance: DagsterInstance | None = None
    ) -> list[str]:
        """Return the partition keys that a run over the given assets writes; empty if none of them is partitioned.

        Raises:
            ConfigurationError: Partitions or a tenant are missing, unexpected or unknown.
        """
        if self.artifacts.orchestration.per_tenant and self.tenant is None:
            msg = "The assets of this project run per tenant, but no tenant is given."
            raise ConfigurationError(msg, hint="Pass --tenant ID. List the tenants with: floe tenants list")
        definitions = {definition for key in keys if (definition := self._own_partitions(key)) is not None}
        if not definitions:
            if choice.first is not None:
                msg = "None of the selected assets has partitions."
                raise ConfigurationError(msg, hint="Remove --partition.")
            return []
        if len(definitions) > 1:
            msg = "The selected assets have different partitions definitions; a run supports only one."
            raise ConfigurationError(msg, hint="Use --select to choose assets with the same partitions.")
        return _keys_of(next(iter(definitions)), choice, instance)

    def in_one_run(self, keys: Sequence[AssetKey]) -> bool:
        """Whether all of these assets write a range of partitions in a single run."""
        if self.tenant is not None:
            return all(IN_ONE_RUN in self.spec(key).metadata for key in keys if self.partitioned(key))
        policies = [self.definition(key).backfill_policy for key in keys if self.partitioned(key)]
        return all(policy is not None and policy.max_partitions_per_run is None for policy in policies)

    def takes_ranges(self, keys: Sequence[AssetKey]) -> bool:
        """Whether one run of these assets can write a contiguous range of the partition list."""
        # A range over several dimensions is a block, not a contiguous part of the list.
        lists = not any(isinstance(self._own_partitions(key), MultiPartitionsDefinition) for key in keys)
        return lists and self.in_one_run(keys)

    def stages(self, keys: Sequence[AssetKey]) -> list[list[AssetKey]]:
        """Split assets into stages of only partitioned or only unpartitioned assets, each after its upstream stages."""
        stage_of: dict[AssetKey, int] = {}
        for key in keys:
            kind = self.partitioned(key)
            known = [dependency for dependency in self.upstream(key) if dependency in stage_of]
            stage_of[key] = max((stage_of[one] + (self.partitioned(one) is not kind) for one in known), default=0)
        # Partitioned and unpartitioned assets can be at the same depth, so the kind is part of the stage.
        order = sorted({(stage, self.partitioned(key)) for key, stage in stage_of.items()})
        return [[key for key in keys if (stage_of[key], self.partitioned(key)) == one] for one in order]

    def partitioned(self, key: AssetKey) -> bool:
        """Whether an asset is partitioned, apart from the tenant dimension."""
        return self._own_partitions(key) is not None

    def _own_partitions(self, key: AssetKey) -> PartitionsDefinition | None:
        return own_partitions(self.spec(key).partitions_def)

    def upstream(self, key: AssetKey) -> list[AssetKey]:
        """Return the upstream assets of an asset."""
        return [dependency.asset_key for dependency in self.spec(key).deps]


def _keys_of(definition: PartitionsDefinition, choice: PartitionChoice, instance: DagsterInstance | None) -> list[str]:
    known = definition.get_partition_keys(dynamic_partitions_store=instance)
    what = f"Partitions: {known[0]} to {known[-1]}." if known else "There are no partitions yet."
    if choice.due is not None and choice.first is None:
        return list(known)
    if choice.first is None or choice.last is None:
        msg = "The selected assets are partitioned, but no partition is given."
        raise ConfigurationError(
            msg, hint=f"Pass --partition, --partition-range A...B, --missing or --all-partitions. {what}"
        )
    for key in (choice.first, choice.last):
        if key not in known:
            msg = f"Partition '{key}' does not exist."
            raise ConfigurationError(msg, hint=what)
    keys = known[known.index(choice.first) : known.index(choice.last) + 1]
    if isinstance(definition, MultiPartitionsDefinition):
        # A range over several dimensions is a block, not a contiguous part of the list.
        keys = definition.get_partition_keys_in_range(PartitionKeyRange(choice.first, choice.last))
    if not keys:
        msg = f"The range {choice} contains no partitions."
        raise ConfigurationError(msg, hint="Pass the earlier partition first.")
    return list(keys)


def _query(part: str, tables: Mapping[str, AssetKey]) -> str:
    """Convert a table name or a pattern of table names to Dagster's selection syntax."""
    match = _NAME.match(part)
    if part == "*" or match is None:
        return part
    before, name, after = match.groups()
    # Table names do not map back to asset keys: public.orders is orders, gold.a_b may be gold/a/b.
    keys = ["/".join(key.path) for table, key in tables.items() if fnmatchcase(table, name)]
    return " or ".join(f'{before}key:"{key}"{after}' for key in keys or [name.replace(".", "/")])


def quiet_beta_warnings() -> None:
    """Suppress Dagster's beta and preview warnings in commands."""
    for category in (BetaWarning, PreviewWarning):
        warnings.filterwarnings("ignore", category=category)
