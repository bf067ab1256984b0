"""A pipeline for each tenant: assets get a dimension more, and a run is about one tenant.

=============================  ==========================================
partitions of the asset        with ``orchestration.per_tenant``
=============================  ==========================================
none                           one for each tenant: ``acme``
any with one dimension         tenant and its own: ``2026-01-31|acme``
two dimensions                 refused: Dagster knows no third
=============================  ==========================================

The tenants are dynamic partitions. ``floe run --tenant`` enters the one it runs for, and the sensor ``floe_tenants``
keeps the list as the catalog has it.
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
# Before the tenant in the alphabet, and so in the key: Dagster orders dimensions by name.
_OWN = "partition"
_PARTITION_TAG = "dagster/partition"
_RANGE_TAGS = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_SENSOR_SECONDS = 30


@dataclass(frozen=True)
class Scope:
    """What some partition keys mean.

    Attributes:
        tenant: Whose they are; None in a project without tenants.
        partitions_def: The asset's own partitions, None for an asset without.
        keys: Keys of these.
    """

    tenant: str | None = None
    partitions_def: PartitionsDefinition | None = None
    keys: tuple[str, ...] = ()

    @classmethod
    def of(cls, partitions_def: PartitionsDefinition | None, keys: Iterable[str]) -> Scope:
        """Take partition keys apart.

        Raises:
            ConfigurationError: They are of several tenants.
        """
        if partitions_def == TENANTS:
            return cls(_only(set(keys)))
        if not isinstance(partitions_def, MultiPartitionsDefinition):
            return cls(None, partitions_def, tuple(keys))
        own = own_partitions(partitions_def)
        if own is partitions_def:
            # Dagster hands them over in any order, and names made of them must be found again.
            return cls(None, own, tuple(sorted(keys)))
        parts = [partitions_def.get_partition_key_from_str(key).keys_by_dimension for key in keys]
        return cls(_only({part[_TENANT] for part in parts}), own, tuple(sorted(part[_OWN] for part in parts)))


def _only(tenants: set[str]) -> str | None:
    if len(tenants) > 1:
        msg = f"A run is about one tenant, and this one about {len(tenants)}: {', '.join(sorted(tenants))}."
        raise ConfigurationError(msg, hint="Start a run for each of them.")
    return next(iter(tenants), None)


def own_partitions(partitions_def: PartitionsDefinition | None) -> PartitionsDefinition | None:
    """Return the partitions of an asset without its tenants."""
    if partitions_def == TENANTS:
        return None
    if isinstance(partitions_def, MultiPartitionsDefinition):
        dimensions = {dimension.name: dimension.partitions_def for dimension in partitions_def.partitions_defs}
        if dimensions.get(_TENANT) == TENANTS:
            return dimensions[_OWN]
    return partitions_def


def for_tenants(artifacts: CompiledArtifacts) -> CompiledArtifacts:
    """Return a project whose assets have a partition for each tenant."""
    orchestration = artifacts.orchestration.model_copy(update={"per_tenant": True})
    return artifacts.model_copy(update={"orchestration": orchestration}).rooted_at(artifacts.project_root)


def tenant_of(context: AssetExecutionContext) -> str | None:
    """Return the tenant that an asset is materialized for; None in a project without tenants."""
    partitions_def = context.assets_def.partitions_def
    return None if partitions_def is None else Scope.of(partitions_def, context.partition_keys).tenant


def partition_keys_of(context: AssetExecutionContext) -> list[str]:
    """Return the keys of an asset's own partitions that a run writes, for whichever tenant."""
    return list(Scope.of(context.assets_def.partitions_def, context.partition_keys).keys)


def tenant_of_run(tags: Mapping[str, str]) -> str:
    """Return the tenant that a run of a project with tenants is about."""
    key = tags.get(f"{_PARTITION_TAG}/{_TENANT}") or tags.get(_PARTITION_TAG) or tags[_RANGE_TAGS[0]]
    # No tenant's id has a bar in it, and a key ends with the tenant.
    return key.rpartition("|")[2]


def partition_tags(tenant: str | None, partitions: Sequence[str]) -> dict[str, str]:
    """Return the tags by which Dagster knows what a run writes.

    Args:
        tenant: Whom it is about.
        partitions: Keys of the assets' own partitions, in order; more than one is a range.
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
    """Return the key of a tenant's partition."""
    return MultiPartitionKey({_OWN: partition, _TENANT: tenant})


def for_each_tenant(assets: Iterable[Any]) -> list[Any]:
    """Give every asset that can be run a partition for each tenant; what others make stays as it is.

    Raises:
        ConfigurationError: An asset has two dimensions already, or a partition mapping that cannot be kept.
    """
    found = list(assets)
    own = {
        spec.key: spec.partitions_def
        for asset in found
        if isinstance(asset, AssetsDefinition) and asset.is_executable
        for spec in asset.specs
    }
    return [_for_each_tenant(asset, own) if _runs(asset) else asset for asset in found]


def _runs(asset: Any) -> bool:  # noqa: ANN401 - whatever stands among assets
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
    # A run of many partitions that Dagster puts together may be about several tenants. There is no public way to
    # replace a policy.
    attributes = {**mapped.get_attributes_dict(), "backfill_policy": BackfillPolicy.multi_run(1)}
    return AssetsDefinition.dagster_internal_init(**attributes)


def _widened(key: AssetKey, own: PartitionsDefinition | None) -> PartitionsDefinition:
    if own is None:
        return TENANTS
    if isinstance(own, MultiPartitionsDefinition):
        msg = f"The asset '{key.to_user_string()}' has two dimensions of partitions, so tenants cannot be a third."
        raise ConfigurationError(msg, hint="Give it one dimension, or set orchestration.per_tenant to false.")
    return MultiPartitionsDefinition({_OWN: own, _TENANT: TENANTS})


def _with_tenant(spec: AssetSpec, dep: AssetDep, own: Mapping[AssetKey, PartitionsDefinition | None]) -> AssetDep:
    """Keep a dependency within its tenant."""
    if dep.asset_key not in own:
        return dep
    upstream, downstream = own[dep.asset_key], spec.partitions_def
    mapping = dep.partition_mapping
    if upstream is None or downstream is None:
        if upstream is not None and mapping is not None:
            names = f"'{spec.key.to_user_string()}' reads '{dep.asset_key.to_user_string()}'"
            msg = f"The partition mapping by which {names} cannot be kept for each tenant."
            raise ConfigurationError(msg, hint="Give the asset partitions of its own, or read all partitions.")
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
    """Return what Dagster takes when nobody says anything."""
    both = isinstance(upstream, TimeWindowPartitionsDefinition), isinstance(downstream, TimeWindowPartitionsDefinition)
    return TimeWindowPartitionMapping() if all(both) else IdentityPartitionMapping()


def tenants_sensor(source: TablesSource) -> SensorDefinition:
    """Make the sensor that keeps Dagster's list of tenants as the catalog has it."""

    def look(context: SensorEvaluationContext) -> SensorResult:
        try:
            there = set(source.required_tenants().tenants())
        except CatalogAuthorizationError as err:
            # A tenant runs its own pipeline and sees no other; those that were entered stay.
            return SensorResult(skip_reason=str(err))
        known = set(context.instance.get_dynamic_partitions(str(TENANTS.name)))
        requests: list[Any] = []
        if new := sorted(there - known):
            requests.append(TENANTS.build_add_request(new))
        if gone := sorted(known - there):
            requests.append(TENANTS.build_delete_request(gone))
        return SensorResult(dynamic_partitions_requests=requests)

    return SensorDefinition(
        name="floe_tenants",
        description="Keeps the partitions of tenants as the catalog has them.",
        evaluation_fn=look,
        minimum_interval_seconds=_SENSOR_SECONDS,
        default_status=DefaultSensorStatus.RUNNING,
    )
