"""Reads Dagster's contexts, both in a run and in tests that build a context manually.

For values that were not passed to ``build_output_context`` or ``build_input_context``, Dagster's properties raise an
error. The functions in this module return a default instead.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dagster import (
    DagsterInvariantViolationError,
    DagsterType,
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
    OutputContext,
    StaticPartitionsDefinition,
)

from floe_core.errors import ConfigurationError
from floe_dagster.assets.keys import FULL_REFRESH_TAG, origin_run_id
from floe_dagster.tenants import Scope, tenant_of_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import InputContext, PartitionsDefinition

_ANYTHING = DagsterType(type_check_fn=lambda _context, _value: True, name="Anything", typing_type=Any)
_HOUR, _DAY = "%Y-%m-%d-%H:%M", "%Y-%m-%d"


class RunOfOutput:
    """The run of an output; empty for a manually built context."""

    def __init__(
        self,
        origin: str = "",
        run_id: str = "",
        *,
        repeated: bool = False,
        full_refresh: bool = False,
        nodes: Sequence[str] = (),
    ) -> None:
        """Store the values."""
        self.origin = origin
        self.run_id = run_id
        self.repeated = repeated
        self.full_refresh = full_refresh
        self._nodes = nodes

    @classmethod
    def of(cls, context: OutputContext) -> RunOfOutput:
        """Read the run of an output."""
        step = step_of(context)
        if step is None:
            return cls()
        run = step.dagster_run
        repeated = run.parent_run_id is not None or step.previous_attempt_count > 0
        nodes = [node.name for node in step.job_def.nodes]
        origin = origin_run_id(run, step.instance)
        return cls(origin, run.run_id, repeated=repeated, full_refresh=FULL_REFRESH_TAG in run.tags, nodes=nodes)

    def require(self, gate: str, asset: str) -> None:
        """Require that the gate of an asset is part of this run.

        Raises:
            ConfigurationError: The gate is not part of the run.
        """
        if gate in self._nodes:
            return
        msg = f"Asset '{asset}' is published by its gate '{gate}', which is not part of this run."
        raise ConfigurationError(msg, hint="Select the asset together with its checks.")


def step_of(context: OutputContext | InputContext) -> Any | None:  # noqa: ANN401 - Dagster does not export its type
    """Return the step of a context; None for a manually built context."""
    try:
        return context.step_context
    except DagsterInvariantViolationError:
        return None


def type_of_input(context: InputContext) -> DagsterType:
    """Return the Dagster type of an input; without one, a type that accepts any value."""
    try:
        return context.dagster_type
    except DagsterInvariantViolationError:
        return _ANYTHING


def scope_of(context: OutputContext | InputContext) -> Scope:
    """Return the partitions and the tenant that a context writes or reads.

    Raises:
        ConfigurationError: There are several tenants, or the context has a key range but no partitions definition.
    """
    if not context.has_asset_key or not context.has_asset_partitions:
        return Scope()
    partitions_def = _partitions_of(context)
    scope = Scope.of(partitions_def, context.asset_partition_keys)
    if scope.tenant is None and scope.partitions_def != partitions_def:
        # Even without partition keys, only this tenant's table may be used.
        return replace(scope, tenant=tenant_of_run(context.step_context.dagster_run.tags))
    return scope


def _partitions_of(context: OutputContext | InputContext) -> PartitionsDefinition:
    try:
        return context.asset_partitions_def
    except DagsterInvariantViolationError:
        return _described(context) or _guess_partitions(context)


def _described(context: OutputContext | InputContext) -> PartitionsDefinition | None:
    """Return the partitions of the asset spec, if the context has one."""
    upstream = context if isinstance(context, OutputContext) else context.upstream_output
    try:
        return upstream.asset_spec.partitions_def if upstream is not None else None
    except DagsterInvariantViolationError:
        return None


def _guess_partitions(context: OutputContext | InputContext) -> PartitionsDefinition:
    """Derive the partitions definition from the format of a single key: hourly, daily or static."""
    try:
        [key] = context.asset_partition_keys
    except NotImplementedError:
        name = context.asset_key.to_user_string()
        msg = f"The context of asset '{name}' has a range of partition keys but no partitions definition."
        raise ConfigurationError(msg, hint="Pass asset_partitions_def as well.") from None
    for form, partitions in ((_HOUR, HourlyPartitionsDefinition), (_DAY, DailyPartitionsDefinition)):
        try:
            datetime.strptime(key, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        context.log.warning("Guessing the partitions definition of key '%s': pass asset_partitions_def.", key)
        return partitions(key)
    return StaticPartitionsDefinition([key])
