"""One pipeline per tenant: assets gain a tenant dimension, and each run writes for one tenant.

=============================  ==========================================
partitions of the asset        with ``orchestration.per_tenant``
=============================  ==========================================
none                           one per tenant: ``acme``
one dimension                  that dimension and tenant: ``2026-01-31|acme``
two dimensions                 refused: Dagster supports at most two
=============================  ==========================================

The tenants are dynamic partitions. ``floe run --tenant`` adds its tenant; the sensor ``floe_tenants`` syncs the list
with the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetDep,
    AssetsDefinition,
    BackfillPolicy,
    DefaultSensorStatus,
    DimensionPartitionMapping,
    DynamicPartitionsDefinition,
    IdentityPartitionMapping,
    MultiPartitionKey,
    MultiPartitionMapping,
    MultiPartitionsDefinition,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    TimeWindowPartitionMapping,
    TimeWindowPartitionsDefinition,
)

from floe_core.errors import CatalogAuthorizationError, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dagster import AssetExecutionContext, AssetKey, AssetSpec, PartitionMapping, PartitionsDefinition

    from floe_core.schemas import CompiledArtifacts
    from floe_dagster.io.tables_source import TablesSource

TENANTS = DynamicPartitionsDefinition(name="floe_tenants")
IN_ONE_RUN = "floe/in_one_run"

_TENANT = "tenant"
# Sorts before the tenant dimension, and so comes first in the key: Dagster orders dimensions by name.
_OWN = "partition"
_PARTITION_TAG = "dagster/partition"
_RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_SENSOR_SECONDS = 30


@dataclass(frozen=True)
class Scope:
    """The tenant and partitions that a set of partition keys selects.

    Attributes:
        tenant: The tenant; None in a project without tenants.
        partitions_def: The asset's partitions without the tenant dimension; None for an unpartitioned asset.
        keys: Partition keys without the tenant.
    """

    tenant: str | None = None
    partitions_def: PartitionsDefinition | None = None
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, partitions_def: PartitionsDefinition | None, keys: Iterable[str]) -> Scope:
        """Parse partition keys.

        Raises:
            ConfigurationError: The keys belong to several tenants.
        """
        if partitions_def == TENANTS:
            return cls(_only(set(keys)))
        if not isinstance(partitions_def, MultiPartitionsDefinition):
            return cls(None, partitions_def, tuple(keys))
        own = own_partitions(partitions_def)
        if own is partitions_def:
            # Dagster passes keys in any order; names derived from them must be reproducible.
            return cls(None, own, tuple(sorted(keys)))
        parts = [partitions_def.get_partition_key_from_str(key).keys_by_dimension for key in keys]
        return cls(_only({part[_TENANT] for part in parts}), own, tuple(sorted(part[_OWN] for part in parts)))


def _only(tenants: set[str]) -> str | None:
    if len(tenants) > 1:
        msg = f"A run writes for one tenant, but this run has {len(tenants)}: {', '.join(sorted(tenants))}."
        raise ConfigurationError(msg, hint="Start one run per tenant.")
    return next(iter(tenants), None)


def own_partitions(partitions_def: PartitionsDefinition | None) -> PartitionsDefinition | None:
    """Return the partitions of an asset without the tenant dimension."""
    if partitions_def == TENANTS:
        return None
    if isinstance(partitions_def, MultiPartitionsDefinition):
        dimensions = {dimension.name: dimension.partitions_def for dimension in partitions_def.partitions_defs}
        if dimensions.get(_TENANT) == TENANTS:
            return dimensions[_OWN]
    return partitions_def


def for_tenants(artifacts: CompiledArtifacts) -> CompiledArtifacts:
    """Return the project with assets partitioned by tenant."""
    orchestration = artifacts.orchestration.model_copy(update={"per_tenant": True})
    return artifacts.model_copy(update={"orchestration": orchestration}).rooted_at(artifacts.project_root)


def tenant_of(context: AssetExecutionContext) -> str | None:
    """Return the tenant that an asset is materialized for; None in a project without tenants."""
    partitions_def = context.assets_def.partitions_def
    return None if partitions_def is None else Scope.of(partitions_def, context.partition_keys).tenant


def partition_keys_of(context: AssetExecutionContext) -> list[str]:
    """Return the partition keys that a run writes for an asset, without the tenant."""
    return list(Scope.of(context.assets_def.partitions_def, context.partition_keys).keys)


def tenant_of_run(tags: Mapping[str, str]) -> str:
    """Return the tenant of a run in a project with tenants."""
    key = tags.get(f"{_PARTITION_TAG}/{_TENANT}") or tags.get(_PARTITION_TAG) or tags[_RANGE_TAGS[0]]
    # A tenant id cannot contain a bar, and a key ends with the tenant.
    return key.rpartition("|")[2]


def partition_tags(tenant: str | None, partitions: Sequence[str]) -> dict[str, str]:
    """Return the tags that tell Dagster which partitions a run writes.

    Args:
        tenant: The tenant that the run writes for.
        partitions: Partition keys of the assets, without the tenant and in order; more than one is a range.
    """
    if tenant is None:
        keys: list[str] = list(partitions)
    else:
        keys = [str(multi_key(tenant, key)) for key in partitions] or [tenant]
    if len(keys) > 1:
        return dict(zip(_RANGE_TAGS, (keys[0], keys[-1]), strict=True))
    if not keys:
        return {}
    tags = {_PARTITION_TAG: keys[0]}
    if tenant is not None and partitions:
        tags |= {f"{_PARTITION_TAG}/{_TENANT}": tenant, f"{_PARTITION_TAG}/{_OWN}": partitions[0]}
    return tags


def multi_key(tenant: str, partition: str) -> MultiPartitionKey:
    """Return the partition key for a tenant and a partition."""
    return MultiPartitionKey({_OWN: partition, _TENANT: tenant})


def for_each_tenant(assets: Iterable[Any]) -> list[Any]:
    """Add a tenant dimension to every executable asset; external assets stay unchanged.

    Raises:
        ConfigurationError: An asset has two dimensions already, or a partition mapping that cannot be kept per tenant.
    """
    found = list(assets)
    own = {
        spec.key: spec.partitions_def
        for asset in found
        if isinstance(asset, AssetsDefinition) and asset.is_executable
        for spec in asset.specs
    }
    return [_for_each_tenant(asset, own) if _runs(asset) else asset for asset in found]


def _runs(asset: Any) -> bool:  # noqa: ANN401 - Definitions accept several types as assets
    return isinstance(asset, AssetsDefinition) and asset.is_executable and bool(asset.keys)


def _for_each_tenant(asset: AssetsDefinition, own: Mapping[AssetKey, PartitionsDefinition | None]) -> AssetsDefinition:
    policy = asset.backfill_policy
    at_once = policy is not None and policy.max_partitions_per_run is None

    def widened(spec: AssetSpec) -> AssetSpec:
        return spec.replace_attributes(
            partitions_def=_widened(spec.key, spec.partitions_def),
            deps=[_with_tenant(spec, dep, own) for dep in spec.deps],
        ).merge_attributes(metadata={IN_ONE_RUN: True} if at_once else {})

    mapped = asset.map_asset_specs(widened)
    if policy is None:
        return mapped
    # A multi-partition run created by Dagster could span several tenants. There is no public API to replace a backfill
    # policy.
    attributes = {**mapped.get_attributes_dict(), "backfill_policy": BackfillPolicy.multi_run(1)}
    return AssetsDefinition.dagster_internal_init(**attributes)


def _widened(key: AssetKey, own: PartitionsDefinition | None) -> PartitionsDefinition:
    if own is None:
        return TENANTS
    if isinstance(own, MultiPartitionsDefinition):
        msg = f"Asset '{key.to_user_string()}' has two partition dimensions; tenants would be a third."
        raise ConfigurationError(msg, hint="Use one dimension, or set orchestration.per_tenant to false.")
    return MultiPartitionsDefinition({_OWN: own, _TENANT: TENANTS})


def _with_tenant(spec: AssetSpec, dep: AssetDep, own: Mapping[AssetKey, PartitionsDefinition | None]) -> AssetDep:
    """Restrict a dependency to partitions of the same tenant."""
    if dep.asset_key not in own:
        return dep
    upstream, downstream = own[dep.asset_key], spec.partitions_def
    mapping = dep.partition_mapping
    if upstream is None or downstream is None:
        if upstream is not None and mapping is not None:
            names = f"'{spec.key.to_user_string()}' reads '{dep.asset_key.to_user_string()}'"
            msg = f"Asset {names} with a partition mapping that cannot be kept per tenant."
            raise ConfigurationError(msg, hint="Partition the asset, or remove the mapping to read all partitions.")
        return AssetDep(dep.asset_key)
    if mapping is None and upstream == downstream:
        return dep
    within = mapping or _default_mapping(upstream, downstream)
    same_tenant = DimensionPartitionMapping(_TENANT, IdentityPartitionMapping())
    return AssetDep(
        dep.asset_key,
        partition_mapping=MultiPartitionMapping({_OWN: DimensionPartitionMapping(_OWN, within), _TENANT: same_tenant}),
    )


def _default_mapping(upstream: PartitionsDefinition, downstream: PartitionsDefinition) -> PartitionMapping:
    """Return the mapping that Dagster uses by default."""
    both = isinstance(upstream, TimeWindowPartitionsDefinition), isinstance(downstream, TimeWindowPartitionsDefinition)
    return TimeWindowPartitionMapping() if all(both) else IdentityPartitionMapping()


def tenants_sensor(source: TablesSource) -> SensorDefinition:
    """Create the sensor that syncs Dagster's list of tenants with the catalog."""

    def look(context: SensorEvaluationContext) -> SensorResult:
        try:
            in_catalog = set(source.required_tenants().tenants())
        except CatalogAuthorizationError as err:
            # A tenant's own principal cannot list the others; tenants added earlier stay.
            return SensorResult(skip_reason=str(err))
        known = set(context.instance.get_dynamic_partitions(str(TENANTS.name)))
        requests: list[Any] = []
        if new := sorted(in_catalog - known):
            requests.append(TENANTS.build_add_request(new))
        if gone := sorted(known - in_catalog):
            requests.append(TENANTS.build_delete_request(gone))
        return SensorResult(dynamic_partitions_requests=requests)

    return SensorDefinition(
        name="floe_tenants",
        description="Syncs the tenant partitions with the catalog.",
        evaluation_fn=look,
        minimum_interval_seconds=_SENSOR_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
