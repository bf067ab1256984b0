"""Runs the checks of an asset again, on a staged write that was redone during publication."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from dagster import AssetChecksDefinition, AssetKey, DagsterInstance, build_resources

from floe_dagster.assets.keys import table_of
from floe_dagster.engine import ProjectEngine
from floe_dagster.gate.checks import expand_checks
from floe_dagster.gate.evaluation import CheckedRows, evaluate, require_evaluated
from floe_dagster.gate.publication import failing_checks, gate_name
from floe_dagster.runs.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.staging.staged import StagedWrite

    Failing = Callable[[str], list[str]]

_ASSET = "dagster.asset-key"
_TENANT = "floe.tenant"


@contextmanager
def rechecking(artifacts: CompiledArtifacts, manager: IcebergTableManager, staged: StagedWrite) -> Iterator[Failing]:
    """Yield a function that returns the names of the checks that prevent the publication of a branch.

    These are the checks of the asset that made the write, including custom checks. If the project does not have that
    asset, the checks that floe.yaml declares for the table are used.
    """
    tenant, asset = staged.summary.get(_TENANT), staged.summary.get(_ASSET)
    pipeline = Pipeline.of(artifacts, tenant=tenant) if asset and artifacts.orchestration.module else None
    key = AssetKey(asset.split("/")) if asset else None
    gate = _gate(pipeline, key) if pipeline is not None and key is not None else None
    if gate is None or pipeline is None:
        yield lambda branch: _declared(artifacts, manager, staged, branch)
        return
    resources = pipeline.definitions.resources or {}
    needed = {name: resources[name] for name in gate.required_resource_keys if name in resources}
    with DagsterInstance.ephemeral() as instance, build_resources(needed, instance=instance) as opened:
        yield lambda branch: failing_checks(
            gate, opened, branch, tenant=tenant, partitions=staged.partitions, instance=instance
        )


def _gate(pipeline: Pipeline, key: AssetKey) -> AssetChecksDefinition | None:
    name = gate_name(key)
    gates = (check for check in pipeline.definitions.asset_checks or () if isinstance(check, AssetChecksDefinition))
    return next((gate for gate in gates if gate.op.name == name), None)


def _declared(
    artifacts: CompiledArtifacts, manager: IcebergTableManager, staged: StagedWrite, branch: str
) -> list[str]:
    asset = staged.summary.get(_ASSET)
    name = table_of(asset.split("/"), default_namespace="public") if asset else staged.table
    declared = artifacts.tables.get(name)
    if declared is None or not declared.checks:
        return []
    dialect = ProjectEngine.of(artifacts.compute).sql_dialect
    checks = expand_checks(declared.checks, table=staged.table, sql_dialect=dialect)
    prefix = staged.table.removesuffix(name)
    rows = staged.row_filter or None
    of = CheckedRows(staged.table, branch, rows, staged.partitions, lambda other: f"{prefix}{other}")
    outcomes = require_evaluated(evaluate(manager, checks, of))
    return [outcome.check.name for outcome in outcomes if outcome.holds_back]
