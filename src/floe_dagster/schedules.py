"""Schedules declared in floe.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetSelection,
    DagsterError,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    TimeWindowPartitionsDefinition,
    define_asset_job,
    partition_loading_context,
)

from floe_core.errors import ConfigurationError
from floe_dagster.assets.keys import keys_by_table
from floe_dagster.tenants import TENANTS, multi_key, own_partitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dagster import AssetsDefinition, PartitionsDefinition

    from floe_core.schemas import ScheduleConfig

_TABLE = re.compile(r"(?<![\w\"':/])([\w-]+(?:\.[\w-]+)+)(?![\w\"'/])")


def declared_schedules(
    schedules: Mapping[str, ScheduleConfig], assets: Sequence[AssetsDefinition]
) -> list[ScheduleDefinition]:
    """Create Dagster schedules; with time partitions, each tick runs the last complete partition, for every tenant.

    Raises:
        ConfigurationError: A selection matches no asset, or assets with different partitions.
    """
    return [_schedule(name, config, assets) for name, config in schedules.items()]


def _schedule(name: str, config: ScheduleConfig, assets: Sequence[AssetsDefinition]) -> ScheduleDefinition:
    selection = _selection(name, config, assets)
    chosen = selection.resolve(assets)
    kinds = {
        spec.partitions_def
        for asset in assets
        for spec in asset.specs
        if spec.key in chosen and spec.partitions_def is not None
    }
    if len(kinds) > 1:
        msg = f"Schedule '{name}' selects assets with different partitions definitions."
        raise ConfigurationError(msg, hint="Declare one schedule per partitions definition.")
    settings: dict[str, Any] = {
        "name": name,
        "cron_schedule": config.cron,
        "execution_timezone": config.timezone,
        "job": define_asset_job(f"{name}_job", selection=selection),
    }
    if kinds:
        settings["execution_fn"] = _last_partition(name, kinds.pop())
    return ScheduleDefinition(**settings)


def _selection(name: str, config: ScheduleConfig, assets: Sequence[AssetsDefinition]) -> AssetSelection:
    tables = keys_by_table(key for asset in assets for key in asset.keys)

    def key_of(match: re.Match[str]) -> str:
        known = tables.get(match[1])
        return f'key:"{"/".join(known.path) if known else match[1].replace(".", "/")}"'

    query = _TABLE.sub(key_of, config.select)
    try:
        selection = AssetSelection.from_string(query)
        found = selection.resolve(assets)
    except DagsterError:
        found = set()
    if not found:
        known = ", ".join(sorted(key.to_user_string() for asset in assets for key in asset.keys))
        msg = f"Schedule '{name}' selects '{config.select}', which matches no asset."
        raise ConfigurationError(msg, hint=f"Assets: {known or 'none'}.")
    return selection


def _last_partition(name: str, partitions_def: PartitionsDefinition) -> Any:  # noqa: ANN401 - Dagster's execution_fn
    times = own_partitions(partitions_def)
    per_tenant = times is not partitions_def
    if not isinstance(times, TimeWindowPartitionsDefinition | None):
        msg = f"Schedule '{name}' selects assets without time partitions, so the latest partition is not defined."
        raise ConfigurationError(msg, hint="Define a schedule or sensor for them in the project's module.")

    def requests(context: ScheduleEvaluationContext) -> Iterator[RunRequest | SkipReason]:
        with partition_loading_context(effective_dt=context.scheduled_execution_time):
            key = times.get_last_partition_key() if times is not None else None
        if times is not None and key is None:
            yield SkipReason("No partition is complete yet.")
        elif not per_tenant:
            yield RunRequest(partition_key=key)
        else:
            yield from _for_every_tenant(context, key)

    return requests


def _for_every_tenant(context: ScheduleEvaluationContext, key: str | None) -> Iterator[RunRequest | SkipReason]:
    tenants = sorted(context.instance.get_dynamic_partitions(str(TENANTS.name)))
    if not tenants:
        yield SkipReason("There are no tenants yet.")
    for tenant in tenants:
        partition = multi_key(tenant, key) if key else tenant
        yield RunRequest(run_key=f"{context.scheduled_execution_time}:{tenant}", partition_key=partition)
