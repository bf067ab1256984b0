"""Runs the checks of an asset on a version of its table: those declared in floe.yaml, and custom asset checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dagster import AssetCheckResult, AssetCheckSeverity, AssetCheckSpec, build_op_context

from floe_core.errors import ConfigurationError
from floe_dagster.gate.checks import PUBLISHED
from floe_dagster.gate.evaluation import CheckedRows, evaluate, require_evaluated
from floe_dagster.io.inputs import InputSelection, load
from floe_dagster.io.manager import IcebergIOManager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import AssetChecksDefinition, AssetKey, AssetSpec, DagsterInstance
    from pyiceberg.table import Table

    from floe_dagster.assets.row_ranges import RowSelection
    from floe_dagster.gate.checks import CheckOutcome, TableCheck
    from floe_dagster.tenants import Scope
    from floe_iceberg.manager import IcebergTableManager


@dataclass(frozen=True)
class CheckPlan:
    """The checks of one asset.

    Attributes:
        spec: The asset.
        io_key: The IO manager that writes it.
        declared: Its checks in floe.yaml.
        own: Custom asset checks.
    """

    spec: AssetSpec
    io_key: str
    declared: tuple[TableCheck, ...] = ()
    own: tuple[AssetChecksDefinition, ...] = ()

    def specs(self) -> list[AssetCheckSpec]:
        """Return the Dagster specs of the gate that runs these checks."""
        key = self.spec.key
        declared = [
            AssetCheckSpec(check.name, asset=key, description=f"{check.description}.", blocking=check.config.holds_back)
            for check in self.declared
        ]
        own = [spec for check in self.own for spec in check.check_specs]
        last = AssetCheckSpec(
            PUBLISHED, asset=key, description="The rows passed their checks and were published to main.", blocking=True
        )
        return [*declared, *own, last]

    @property
    def blocking_names(self) -> set[str]:
        """The checks whose failure prevents publication."""
        return {spec.name for spec in self.specs() if spec.blocking}

    @property
    def resource_keys(self) -> set[str]:
        """The resources that the checks need."""
        return {self.io_key, *(needed for check in self.own for needed in check.required_resource_keys)}


class Checker:
    """Runs the checks of an asset on a branch, or on main.

    Attributes:
        plan: The checks.
        manager: The table manager.
        scope: The partitions and the tenant to check.
        table: The asset's table.
    """

    def __init__(self, plan: CheckPlan, resources: object, scope: Scope, instance: DagsterInstance) -> None:
        """Find the asset's table; nothing is read yet.

        Args:
            plan: The checks.
            resources: The resources that the checks require, by name.
            scope: The partitions and the tenant to check.
            instance: The instance for custom checks.

        Raises:
            ConfigurationError: The asset is not written by an ``IcebergIOManager``.
        """
        io_manager = getattr(resources, plan.io_key)
        if not isinstance(io_manager, IcebergIOManager):
            msg = (
                f"Asset '{plan.spec.key.to_user_string()}' has blocking checks, but is not stored in an Iceberg table."
            )
            raise ConfigurationError(msg, hint=f"Use an IcebergIOManager as resource '{plan.io_key}'.")
        self.plan = plan
        self.scope = scope
        self.manager: IcebergTableManager = io_manager.tables
        self.table = io_manager.table_of_asset(plan.spec.key, scope.tenant)
        self.io_manager = io_manager
        self._resources = resources
        self._instance = instance

    def check(self, ref: str | None, table: Table | None = None) -> list[AssetCheckResult]:
        """Run all checks on a branch, or on main if None; raise the first error."""
        outcomes = require_evaluated(self.declared(ref, table=table))
        own = [result for check in self.plan.own for result in self.own(check, ref)]
        return [*(self.result(outcome) for outcome in outcomes), *own]

    def declared(
        self, ref: str | None, checks: Sequence[TableCheck] | None = None, *, table: Table | None = None
    ) -> list[CheckOutcome]:
        """Evaluate declared checks, by default all; pass ``table`` if it is already loaded."""
        chosen = self.plan.declared if checks is None else checks
        if not chosen:
            return []
        rows = self._rows
        table = table or self.manager.load_table(self.table)
        of = CheckedRows(
            self.table,
            ref,
            rows.on(table) if rows is not None else None,
            self.scope.keys,
            lambda name: self.io_manager.table_for(name, self.scope.tenant),
            loaded=table,
        )
        return evaluate(self.manager, chosen, of)

    def own(self, check: AssetChecksDefinition, ref: str | None) -> list[AssetCheckResult]:
        """Run a custom check on the rows of a branch."""
        inputs = {name: self._input(check, name, ref) for name in check.keys_by_input_name if _takes(check, name)}
        names = set(check.required_resource_keys) - {self.plan.io_key}
        resources = {name: getattr(self._resources, name) for name in names}
        # Otherwise Dagster creates an instance, and discards the run's instance when that one is garbage-collected.
        context = build_op_context(resources=resources, instance=self._instance)
        given: Any = check(context, **inputs)
        results = [given] if isinstance(given, AssetCheckResult) else list(given)
        return [self._named(check, result) for result in results]

    def _named(self, check: AssetChecksDefinition, result: AssetCheckResult) -> AssetCheckResult:
        """Fill in the name and asset of a result if they are missing."""
        [*specs] = check.check_specs
        name = result.check_name or specs[0].name
        targets = {spec.asset_key for spec in specs}
        key = self.plan.spec.key
        if len(targets) > 1:
            key = result.asset_key or next((spec.asset_key for spec in specs if spec.name == name), key)
        return result._replace(asset_key=key, check_name=name)

    @cached_property
    def _rows(self) -> RowSelection | None:
        """The rows of the checked partitions; None for all."""
        return self.io_manager.rows_of_partitions(self.plan.spec, self.scope) if self.scope.keys else None

    def _input(self, check: AssetChecksDefinition, name: str, ref: str | None) -> object:
        key: AssetKey = check.keys_by_input_name[name]
        kind = check.node_def.input_def_named(name).dagster_type.typing_type
        is_own = key == self.plan.spec.key
        selection = InputSelection(branch=ref if is_own else None)
        table = self.io_manager.table_of_asset(key, self.scope.tenant)
        return load(self.manager, table, kind, selection, self._rows if is_own else None)

    def holding_back(self, results: Sequence[AssetCheckResult]) -> list[str]:
        """Return the names of the checks that prevent publication."""
        blocking = self.plan.blocking_names
        failed = [
            result.check_name
            for result in results
            if not result.passed and result.severity is AssetCheckSeverity.ERROR and result.check_name in blocking
        ]
        return [name for name in failed if name is not None]

    def result(self, outcome: CheckOutcome) -> AssetCheckResult:
        """Convert the outcome of a declared check into a Dagster result."""
        severity = AssetCheckSeverity.ERROR if outcome.check.config.severity == "error" else AssetCheckSeverity.WARN
        return AssetCheckResult(
            asset_key=self.plan.spec.key,
            check_name=outcome.check.name,
            passed=outcome.passed,
            severity=severity,
            metadata=dict(outcome.figures),
            description=f"{outcome.check.description}.",
        )


def _takes(check: AssetChecksDefinition, name: str) -> bool:
    return not check.node_def.input_def_named(name).dagster_type.is_nothing
