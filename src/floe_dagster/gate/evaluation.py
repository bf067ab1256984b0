"""Evaluates declared checks: on Spark in one pass over a table, however many there are.

Numbers of rows and the age of a table come from its metadata where that is enough; then Spark is not started. A
relationship is a query of its own, because it joins another table.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.table.refs import MAIN_BRANCH

from floe_core.dataplane import OPERATION_ID_PROPERTY, ReadRequest
from floe_core.errors import FloeStorageError, InvalidScanError
from floe_core.plugins import CheckedData
from floe_core.schemas import CheckKind
from floe_dagster.gate.check_sql import aggregates, column_sql, count_of, freshness, json_of, outcome_of, scope_of
from floe_dagster.gate.checks import CheckOutcome
from floe_dagster.gate.quality import judge
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.read.predicates import check_columns
from floe_iceberg.read.row_counts import RowCount
from floe_iceberg.read.versions import ref_history, ref_not_found
from floe_iceberg.staging.staged import partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_dagster.gate.checks import TableCheck
    from floe_iceberg.manager import IcebergTableManager

_COMPACTION = "replace"
# Iceberg's own columns, which every table has on Spark.
_METADATA_COLUMNS = frozenset({"_file", "_pos", "_partition", "_spec_id", "_deleted", "_row_id"})


@dataclass(frozen=True)
class CheckedRows:
    """The rows that checks look at.

    Attributes:
        table: The table.
        ref: Branch or tag to read, None for main.
        rows: The rows that were written, as SQL; None for all.
        partitions: Keys of the partitions that these rows are.
        named: Returns the name of another table that floe.yaml speaks of, which differs for a tenant.
        loaded: The table as it was just seen; loaded when None.
    """

    table: str
    ref: str | None = None
    rows: str | None = None
    partitions: tuple[str, ...] = ()
    named: Callable[[str], str] = str
    loaded: Table | None = None


def run_checks(
    manager: IcebergTableManager, table: str, checks: Sequence[TableCheck], *, ref: str | None, rows: str | None
) -> list[CheckOutcome]:
    """Evaluate checks on a branch.

    Args:
        manager: The table manager.
        table: The table.
        checks: What to look at.
        ref: Branch to read, None for main.
        rows: The rows that were written, as SQL; None for all.

    Raises:
        InvalidScanError: A check names a column that the table does not have, or cannot be evaluated.
        MissingDependencyError: Spark is not installed, and a check needs it.
    """
    return require_evaluated(evaluate(manager, checks, CheckedRows(table, ref, rows)))


def require_evaluated(outcomes: list[CheckOutcome]) -> list[CheckOutcome]:
    """Return outcomes, provided every check could be evaluated.

    Raises:
        FloeStorageError: Why the first one could not.
    """
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return outcomes


def evaluate(manager: IcebergTableManager, checks: Sequence[TableCheck], of: CheckedRows) -> list[CheckOutcome]:
    """Evaluate checks; one that its author has to correct ends with an error of its own, and the others go on.

    Raises:
        TableNotFoundError: The table does not exist.
        RefNotFoundError: It has no such branch or tag.
        MissingDependencyError: Spark is not installed, and a check needs it.
    """
    return _Evaluation(manager, of).outcomes(checks) if checks else []


class _Evaluation:
    def __init__(self, manager: IcebergTableManager, of: CheckedRows) -> None:
        self._manager = manager
        self._of = of
        self._table = of.loaded or manager.load_table(of.table)
        self._schema = self._table.schema()
        if of.ref is not None and of.ref not in self._table.metadata.refs:
            raise ref_not_found(self._table, of.ref, kind="branch")

    def outcomes(self, checks: Sequence[TableCheck]) -> list[CheckOutcome]:
        found: dict[str, CheckOutcome] = {}
        together: list[TableCheck] = []
        for check in checks:
            started = time.monotonic()
            try:
                self._require_columns(check)
                outcome = self._by_itself(check)
            except InvalidScanError as err:
                outcome = CheckOutcome(check, passed=False, error=err)
            if outcome is None:
                together.append(check)
            else:
                found[check.name] = replace(outcome, seconds=time.monotonic() - started)
        found |= {outcome.check.name: outcome for outcome in self._in_one_pass(together)}
        return [found[check.name] for check in checks]

    def _require_columns(self, check: TableCheck) -> None:
        role = f"check '{check.name}'"
        check_columns(check.columns, self._schema, table=self._of.table, role=role)
        # Spark does not tell upper case from lower, and neither does SQL.
        known = {field.name.casefold() for field in self._schema.fields} | _METADATA_COLUMNS
        for condition in check.conditions:
            unknown = [name for name in condition.columns if name.casefold() not in known]
            check_columns(unknown, self._schema, table=self._of.table, role=role)

    def _by_itself(self, check: TableCheck) -> CheckOutcome | None:
        """Evaluate a check that needs no pass over the table, or one of its own; None for the others."""
        kind = check.config.type
        if kind is CheckKind.RELATIONSHIP:
            return self._relationship(check)
        if kind is CheckKind.PLUGIN:
            return judge(self._manager.plugins, check, self._data(check))
        if kind is CheckKind.FRESHNESS and not check.columns:
            changed = next(self._changes(self._of.ref), None)
            return freshness(check, changed.timestamp_ms / 1000 if changed else None)
        if check.counts_rows and not scope_of(check, self._of.rows):
            now = self._recorded_rows(self._head)
            before = self._recorded_rows(self._before) if kind is CheckKind.ROW_COUNT_CHANGE else 0
            if now is not None and before is not None:
                return outcome_of(check, {"rows": now}, rows_before=before)
        return None

    @property
    def _head(self) -> Snapshot | None:
        return next(ref_history(self._table.metadata, self._of.ref), None)

    @cached_property
    def _before(self) -> Snapshot | None:
        """The version that a change of the number of rows is measured from.

        For rows that wait on a branch it is main. For main, and for a tag, it is what was there before the last write;
        for some partitions, before the last write that names one of them.
        """
        refs = self._table.metadata.refs
        ref = self._of.ref or MAIN_BRANCH
        if ref != MAIN_BRANCH and ref in refs and refs[ref].snapshot_ref_type == "branch":
            return next(ref_history(self._table.metadata), None)
        writes = list(self._changes(ref))
        named = [one for one in writes if set(partitions_of(summary_of(one))) & set(self._of.partitions)]
        last = next(iter(named or writes), None)
        if last is None:
            return None
        lineage = list(ref_history(self._table.metadata, ref))
        earlier = lineage[[one.snapshot_id for one in lineage].index(last.snapshot_id) + 1 :]
        operation = summary_of(last).get(OPERATION_ID_PROPERTY)
        # One write can make several snapshots.
        same = (one for one in earlier if operation is None or summary_of(one).get(OPERATION_ID_PROPERTY) != operation)
        return next(same, None)

    def _changes(self, ref: str | None) -> Iterator[Snapshot]:
        """Walk the snapshots that changed rows, newest first; an empty first one only made room for a branch."""
        for snapshot in ref_history(self._table.metadata, ref):
            operation = snapshot.summary.operation.value if snapshot.summary else ""
            empty = snapshot.parent_snapshot_id is None and self._recorded_rows(snapshot) == 0
            if operation != _COMPACTION and not empty:
                yield snapshot

    @staticmethod
    def _recorded_rows(snapshot: Snapshot | None) -> int | None:
        """Return the rows of a snapshot as its summary tells; None when only a read does."""
        if snapshot is None:
            return 0
        summary = summary_of(snapshot)
        count = RowCount.of(summary)
        return count.rows if count.exact and "total-records" in summary else None

    def _in_one_pass(self, checks: Sequence[TableCheck]) -> list[CheckOutcome]:
        if not checks:
            return []
        started = time.monotonic()
        try:
            found = self._computed(checks)
        except InvalidScanError as err:
            if len(checks) > 1:
                # Somebody's SQL spoiled the pass for all: alone, each answers for itself.
                return [outcome for check in checks for outcome in self._in_one_pass([check])]
            return [CheckOutcome(checks[0], passed=False, seconds=time.monotonic() - started, error=err)]
        seconds = time.monotonic() - started
        return [replace(outcome, seconds=seconds) for outcome in found]

    def _computed(self, checks: Sequence[TableCheck]) -> list[CheckOutcome]:
        changes = [check for check in checks if check.config.type is CheckKind.ROW_COUNT_CHANGE]
        sql = {check.name: aggregates(check, self._of.rows, self._schema) for check in checks}
        now = self._pass(checks, sql, ReadRequest(self._of.table, ref=self._of.ref))
        before: dict[str, dict[str, Any]] = {}
        if changes and self._before is not None:
            earlier = ReadRequest(self._of.table, snapshot_id=self._before.snapshot_id)
            before = self._pass(changes, sql, earlier)
        return [
            outcome_of(check, now[check.name], rows_before=before.get(check.name, {}).get("rows")) for check in checks
        ]

    def _pass(
        self, checks: Sequence[TableCheck], sql: Mapping[str, Mapping[str, str]], request: ReadRequest
    ) -> dict[str, dict[str, Any]]:
        """Compute the aggregates of checks in one pass over a version of the table."""
        # Rows of other partitions are not even read, unless some check asks for the whole table.
        pushed = self._of.rows if not any(check.whole_table for check in checks) else None
        expressions = [
            f"{expression} as c{number}_{name}"
            for number, check in enumerate(checks)
            for name, expression in sql[check.name].items()
        ]
        names = [check.name for check in checks]
        found = self._row(names, lambda: self._frame(replace(request, row_filter=pushed)).selectExpr(*expressions))
        return {
            check.name: {name: found[f"c{number}_{name}"] for name in sql[check.name]}
            for number, check in enumerate(checks)
        }

    def _relationship(self, check: TableCheck) -> CheckOutcome:
        """Count the rows whose values are not found in the other table; a null in a key looks for nothing."""
        config, table = check.config, self._of.named(str(check.config.to))
        itself = table == self._of.table
        if not itself and not self._manager.table_exists(table):
            return CheckOutcome(check, passed=False, figures={"missing_table": table})
        others = self._schema if itself else self._manager.load_table(table).schema()
        check_columns(config.other_columns, others, table=table, role=f"check '{check.name}'")
        for mine, other in zip(check.columns, config.other_columns, strict=True):
            _require_comparable(check, (mine, self._schema), (f"{table}.{other}", other, others))
        keys = [f"k{number}" for number in range(len(check.columns))]
        columns = [column_sql(name, self._schema) for name in check.columns]
        scope = [*scope_of(check, self._of.rows), *(f"{column} is not null" for column in columns)]
        found = [column_sql(name, others) for name in config.other_columns]
        example = f"cast(min({keys[0]}) as string)"
        if len(keys) > 1:
            example = f"min({json_of(dict(zip(check.columns, keys, strict=True)))})"

        def missing() -> Any:  # noqa: ANN401 - the engine's own frame
            pushed = self._of.rows if not check.whole_table else None
            rows = self._frame(ReadRequest(self._of.table, row_filter=pushed, ref=self._of.ref))
            rows = rows.where(" and ".join(scope)).selectExpr(*_renamed(columns, keys))
            there = self._frame(ReadRequest(table, ref=self._of.ref if itself else None))
            absent = rows.join(there.selectExpr(*_renamed(found, keys)), keys, "left_anti")
            return absent.selectExpr(f"{count_of(())} as bad", f"{example} as example")

        return outcome_of(check, self._row([check.name], missing))

    def _data(self, check: TableCheck) -> CheckedData:
        """Return the rows that a check looks at, to be read by whoever judges them."""
        scope, columns = scope_of(check, self._of.rows), list(check.columns) or None

        def batches() -> Any:  # noqa: ANN401 - a reader, which the plugin contract does not import
            if not scope:
                return self._manager.scan_batches(self._of.table, columns=columns, ref=self._of.ref)
            pushed = self._of.rows if not check.whole_table else None
            request = ReadRequest(self._of.table, row_filter=pushed, ref=self._of.ref)
            rows = self._frame(request).where(" and ".join(scope))
            names = [column_sql(name, self._schema) for name in check.columns]
            return (rows.selectExpr(*names) if names else rows).toArrow().to_reader()

        return CheckedData(self._of.table, self._of.ref, check.columns, batches)

    def _frame(self, request: ReadRequest) -> Any:  # noqa: ANN401 - the engine's own frame
        return self._manager.context.plane().frame(request)

    def _row(self, names: Sequence[str], frame: Callable[[], Any]) -> dict[str, Any]:
        """Return the one row of a query.

        Raises:
            InvalidScanError: The SQL of the checks does not fit the table or its values.
        """
        self._manager.context.plane()
        from floe_spark.plane.errors import mistake_in_sql, translated

        try:
            # A frame is analysed when it is made, or with its first row.
            row: dict[str, Any] = frame().head().asDict()
        except FloeStorageError:
            raise
        except Exception as err:
            if reason := mistake_in_sql(err):
                named = " and ".join(repr(name) for name in names)
                msg = f"Cannot evaluate the check {named} on table '{self._of.table}': {reason}"
                raise InvalidScanError(msg, hint="Correct its SQL in floe.yaml.", table=self._of.table) from err
            with translated(self._of.table):
                raise
        return row


def _renamed(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    return [f"{column} as {name}" for column, name in zip(columns, names, strict=True)]


_FAMILIES = (("int", "long", "decimal"), ("float", "double"), ("string",), ("date",), ("boolean",), ("uuid",))
_TIMES = (("timestamp", "timestamp_ns"), ("timestamptz", "timestamptz_ns"), ("binary", "fixed"))


def _require_comparable(check: TableCheck, mine: tuple[str, Schema], other: tuple[str, str, Schema]) -> None:
    """Refuse columns that no value can be equal in, or that are compared with rounding."""
    (name, schema), (other_name, column, others) = mine, other
    kinds = [str(schema.find_type(name)), str(others.find_type(column))]
    stems = [kind.partition("(")[0].partition("[")[0] for kind in kinds]
    if not any(set(stems) <= set(family) for family in (*_FAMILIES, *_TIMES)):
        msg = f"The check '{check.name}' compares {name} ({kinds[0]}) with {other_name} ({kinds[1]})."
        raise InvalidScanError(msg, hint="Compare columns of one type, or add one that has it.")
