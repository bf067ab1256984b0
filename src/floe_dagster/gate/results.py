"""The check results table: one row per check of a gate or of ``floe test``, appended in one commit."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from dagster import MetadataValue
from pyiceberg.table.refs import MAIN_BRANCH

from floe_core.schemas import ColumnConfig, TableConfig
from floe_dagster.assets.keys import shortened
from floe_iceberg.models import Engine, WriteMode
from floe_iceberg.read.integrity import find_table
from floe_iceberg.write.operations import WriteSettings, write_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dagster import AssetCheckResult

    from floe_core.schemas import CompiledArtifacts
    from floe_dagster.gate.checker import Checker
    from floe_dagster.io.tables_source import TablesSource

_COLUMNS = (
    ("checked_at", "timestamptz", "When the results were stored."),
    ("kind", "string", "run for the gate of a run, test for floe test."),
    ("run_id", "string", "Id of the Dagster run, or of the test."),
    ("environment", "string", "Environment in floe.yaml; null for the base environment."),
    ("table_name", "string", "The checked table, as namespace.name."),
    ("asset", "string", "The asset that writes the table; null if no asset does."),
    ("partition_key", "string", "The checked partitions; null for the whole table."),
    ("check_name", "string", "Name of the check."),
    ("severity", "string", "error or warn."),
    ("blocking", "boolean", "Whether a failure prevents publication."),
    ("passed", "boolean", "Whether it passed; null if it was not evaluated."),
    ("state", "string", "passed, failed, warned, error or not evaluated."),
    ("figures", "string", "Measured values, as JSON."),
    ("seconds", "double", "Duration; checks evaluated in one pass have the same."),
    ("ref", "string", "The checked branch or tag."),
    ("snapshot_id", "long", "The checked snapshot."),
)
_ARROW = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "long": pa.int64(),
    "timestamptz": pa.timestamp("us", tz="UTC"),
}
SCHEMA = pa.schema([pa.field(name, _ARROW[kind]) for name, kind, _ in _COLUMNS])


@dataclass(frozen=True)
class CheckRecord:
    """Result of one check; the columns of the check results table describe the fields."""

    table_name: str
    check_name: str
    severity: str
    blocking: bool
    passed: bool | None
    state: str
    asset: str | None = None
    partition_key: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    ref: str = MAIN_BRANCH
    snapshot_id: int | None = None

    @classmethod
    def of(
        cls, result: AssetCheckResult, checker: Checker, *, blocking: bool, ref: str, snapshot: int | None
    ) -> CheckRecord:
        """Convert the result of a gate's check."""
        severity = result.severity.value.lower()
        state = "passed" if result.passed else "warned" if severity == "warn" else "failed"
        return cls(
            table_name=checker.table,
            check_name=str(result.check_name),
            severity=severity,
            blocking=blocking,
            passed=bool(result.passed),
            state=state,
            asset=checker.plan.spec.key.to_user_string(),
            partition_key=shortened(checker.scope.keys) if checker.scope.keys else None,
            figures=plain_figures(result.metadata),
            ref=ref,
            snapshot_id=snapshot,
        )


def plain_figures(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result's metadata as plain values."""
    return {name: value.value if isinstance(value, MetadataValue) else value for name, value in metadata.items()}


def results_operation(origin: str, records: Sequence[CheckRecord]) -> str:
    """Return the operation id for the results of a gate; a retried step does not store them twice.

    If the gate runs again on the same rows with different results, because its checks were corrected, the new results
    are stored as well.
    """
    verdict = [(one.table_name, one.partition_key, one.check_name, one.severity, one.passed) for one in records]
    digest = hashlib.sha256(json.dumps([origin, verdict]).encode()).hexdigest()[:16]
    return f"checks:{origin}:{digest}"


@dataclass(frozen=True)
class CheckResults:
    """The check results table of a project.

    Attributes:
        source: Opens the table.
        name: The table's name in floe.yaml.
        environment: The project's environment.
    """

    source: TablesSource
    name: str
    environment: str | None = None

    @classmethod
    def of(cls, artifacts: CompiledArtifacts, source: TablesSource) -> CheckResults | None:
        """Return the check results table of a project; None if it does not store results."""
        config = artifacts.orchestration.check_results
        return cls(source, config.table, artifacts.environment) if config.enabled else None

    def table(self, tenant: str | None) -> str:
        """Return the table's name; each tenant has its own table."""
        return self.name if tenant is None else self.source.required_tenants().name(tenant, self.name)

    def keep(
        self, records: Sequence[CheckRecord], *, kind: str, run_id: str, operation_id: str, tenant: str | None = None
    ) -> None:
        """Append results in one commit; repeating the same operation has no effect.

        Raises:
            FloeStorageError: The results could not be stored.
        """
        rows = pa.Table.from_pylist([self._row(one, kind, run_id) for one in records], schema=SCHEMA)
        manager, table = self.source.tables(), self.table(tenant)
        # Create the table first: a failed append would appear as an error in logs and traces.
        found = find_table(manager.context, table)
        if found is None:
            manager.create_namespace(table.rpartition(".")[0])
            found = manager.create_from_config(table, self._declaration(tenant), if_not_exists=True)
        options = WriteSettings(operation_id=operation_id, engine=Engine.ARROW)
        write_table(manager.context, table, rows, mode=WriteMode.APPEND, options=options, loaded=found)

    def _row(self, record: CheckRecord, kind: str, run_id: str) -> dict[str, Any]:
        values = {name: getattr(record, name, None) for name, _, _ in _COLUMNS}
        figures = json.dumps(dict(record.figures), default=str, ensure_ascii=False)
        now = datetime.now(UTC)
        return values | {
            "checked_at": now,
            "kind": kind,
            "run_id": run_id,
            "environment": self.environment,
            "figures": figures,
        }

    def _declaration(self, tenant: str | None) -> TableConfig:
        """Return the declaration of the table; floe.yaml can set its properties, partitioning and retention."""
        declared = self.source.declared.get(self.name, TableConfig())
        if tenant is not None:
            declared = self.source.required_tenants().declaration(tenant, self.name)
        columns = tuple(ColumnConfig(name=name, type=kind, doc=doc) for name, kind, doc in _COLUMNS)
        about = declared.description or "Check results of floe run and floe test."
        return declared.model_copy(update={"columns": columns, "description": about})
