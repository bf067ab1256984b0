"""Schedules that floe.yaml declares."""

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
    """Make Dagster schedules; one over time partitions runs the last partition that is complete, for every tenant.

    Raises:
        ConfigurationError: A selection means no asset, or assets of different partitions.
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
        msg = f"The schedule '{name}' selects assets of different partitions."
        raise ConfigurationError(msg, hint="Declare one schedule for each kind of partitions.")
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
        msg = f"The schedule '{name}' selects '{config.select}', and no asset is meant by that."
        raise ConfigurationError(msg, hint=f"Assets there: {known or 'none'}.")
    return selection


def _last_partition(name: str, partitions_def: PartitionsDefinition) -> Any:  # noqa: ANN401 - what Dagster calls
    times = own_partitions(partitions_def)
    per_tenant = times is not partitions_def
    if not isinstance(times, TimeWindowPartitionsDefinition | None):
        msg = f"The schedule '{name}' selects assets whose partitions are no times, so none of them is the latest."
        raise ConfigurationError(msg, hint="Schedule them with a sensor or schedule of your own.")

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
