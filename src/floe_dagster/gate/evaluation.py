"""Evaluates declared checks: the engine computes most of them in one pass over the table.

Row counts and the age of a table come from its metadata if that is exact, without starting the engine. A relationship
is a separate query, because it joins another table.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.types import DecimalType, IcebergType, IntegerType, LongType

from floe_core.dataplane import OPERATION_ID_PROPERTY, Figure, ReadRequest
from floe_core.errors import InvalidScanError
from floe_core.plugins import CheckedData
from floe_core.schemas import CheckKind
from floe_dagster.gate.aggregates import aggregate_of, freshness, outcome_of, paths_of, rows_of
from floe_dagster.gate.checks import CheckOutcome
from floe_dagster.gate.quality import run_quality_check
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.read.predicates import check_columns, parse_row_filter
from floe_iceberg.read.row_counts import RowCount
from floe_iceberg.read.versions import ref_history, ref_not_found
from floe_iceberg.staging.staged import partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_core.dataplane import Aggregate, DataPlane
    from floe_dagster.gate.checks import TableCheck
    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.read.predicates import RowFilter, RowPredicate

_COMPACTION = "replace"
# Iceberg's metadata columns, which engines provide for every table.
_METADATA_COLUMNS = frozenset({"_file", "_pos", "_partition", "_spec_id", "_deleted", "_row_id"})


@dataclass(frozen=True)
class CheckedRows:
    """The rows to check.

    Attributes:
        table: The table.
        ref: Branch or tag to read; None for main.
        rows: Filter for the written rows; None for all.
        partitions: Partition keys of these rows.
        named: Maps the name of a table in floe.yaml to that of this tenant's table.
        loaded: The table, if it is already loaded.
    """

    table: str
    ref: str | None = None
    rows: RowFilter | None = None
    partitions: tuple[str, ...] = ()
    named: Callable[[str], str] = str
    loaded: Table | None = None


def require_evaluated(outcomes: list[CheckOutcome]) -> list[CheckOutcome]:
    """Return the outcomes if every check was evaluated.

    Raises:
        FloeStorageError: The error of the first check that was not evaluated.
    """
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return outcomes


def evaluate(manager: IcebergTableManager, checks: Sequence[TableCheck], of: CheckedRows) -> list[CheckOutcome]:
    """Evaluate checks; the outcome of an invalid check contains its error, and the others are still evaluated.

    Raises:
        TableNotFoundError: The table does not exist.
        RefNotFoundError: The table has no such branch or tag.
        InvalidScanError: The row filter does not fit the table.
        MissingDependencyError: A check needs the engine, which is not installed.
    """
    return _Evaluation(manager, of).outcomes(checks) if checks else []


class _Evaluation:
    def __init__(self, manager: IcebergTableManager, of: CheckedRows) -> None:
        self._manager = manager
        self._of = of
        self._table = of.loaded or manager.load_table(of.table)
        self._schema = self._table.schema()
        self._rows: RowPredicate | None = None
        if of.rows is not None:
            self._rows = parse_row_filter(of.rows, self._schema, table=of.table)
        if of.ref is not None and of.ref not in self._table.metadata.refs:
            raise ref_not_found(self._table, of.ref, kind="branch")

    def outcomes(self, checks: Sequence[TableCheck]) -> list[CheckOutcome]:
        found: dict[str, CheckOutcome] = {}
        combined: list[TableCheck] = []
        for check in checks:
            started = time.monotonic()
            try:
                self._require_columns(check)
                outcome = self._by_itself(check)
            except InvalidScanError as err:
                outcome = CheckOutcome(check, passed=False, error=err)
            if outcome is None:
                combined.append(check)
            else:
                found[check.name] = replace(outcome, seconds=time.monotonic() - started)
        found |= {outcome.check.name: outcome for outcome in self._in_one_pass(combined)}
        return [found[check.name] for check in checks]

    def _require_columns(self, check: TableCheck) -> None:
        role = f"check '{check.name}'"
        check_columns(check.columns, self._schema, table=self._of.table, role=role)
        # SQL names are not case-sensitive.
        known = {field.name.casefold() for field in self._schema.fields} | _METADATA_COLUMNS
        for condition in check.conditions:
            unknown = [name for name in condition.columns if name.casefold() not in known]
            check_columns(unknown, self._schema, table=self._of.table, role=role)

    def _by_itself(self, check: TableCheck) -> CheckOutcome | None:
        """Evaluate a check that is not part of the common pass; None for the others."""
        kind = check.config.type
        if kind is CheckKind.RELATIONSHIP:
            return self._relationship(check)
        if kind is CheckKind.PLUGIN:
            return run_quality_check(self._manager.plugins, check, self._data(check))
        if kind is CheckKind.FRESHNESS and not check.columns:
            changed = next(self._changes(self._of.ref), None)
            return freshness(check, changed.timestamp_ms / 1000 if changed else None)
        if check.counts_rows and check.config.where is None and rows_of(check, self._rows) is None:
            now = self._recorded_rows(self._head)
            before = self._recorded_rows(self._before) if kind is CheckKind.ROW_COUNT_CHANGE else 0
            if now is not None and before is not None:
                return outcome_of(check, Figure(now), rows_before=before)
        return None

    @property
    def _head(self) -> Snapshot | None:
        return next(ref_history(self._table.metadata, self._of.ref), None)

    @cached_property
    def _before(self) -> Snapshot | None:
        """The version that row_count_change compares with.

        For staged rows, this is main. For main and tags, it is the version before the last write; if only some
        partitions are checked, the version before the last write to one of them.
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
        """Yield the snapshots that changed rows, newest first; an empty first snapshot only exists to hold a branch."""
        for snapshot in ref_history(self._table.metadata, ref):
            operation = snapshot.summary.operation.value if snapshot.summary else ""
            empty = snapshot.parent_snapshot_id is None and self._recorded_rows(snapshot) == 0
            if operation != _COMPACTION and not empty:
                yield snapshot

    @staticmethod
    def _recorded_rows(snapshot: Snapshot | None) -> int | None:
        """Return the row count in the summary of a snapshot; None if only a scan can determine it."""
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
                # The SQL of one check failed the whole pass. Evaluate the checks one by one, to fail only that check.
                return [outcome for check in checks for outcome in self._in_one_pass([check])]
            return [CheckOutcome(checks[0], passed=False, seconds=time.monotonic() - started, error=err)]
        seconds = time.monotonic() - started
        return [replace(outcome, seconds=seconds) for outcome in found]

    def _computed(self, checks: Sequence[TableCheck]) -> list[CheckOutcome]:
        changes = [check for check in checks if check.config.type is CheckKind.ROW_COUNT_CHANGE]
        now = self._pass(checks, self._read(checks))
        before: dict[str, Figure] = {}
        if changes and self._before is not None:
            earlier = replace(self._read(changes), ref=None, snapshot_id=self._before.snapshot_id)
            before = self._pass(changes, earlier)
        return [
            outcome_of(check, now[check.name], rows_before=before[check.name].value if check.name in before else None)
            for check in checks
        ]

    def _pass(self, checks: Sequence[TableCheck], request: ReadRequest) -> dict[str, Figure]:
        """Compute the aggregates of checks in one pass over a version of the table."""
        plane, aggregates = self._plane, [self._aggregate(check) for check in checks]
        with self._naming(checks):
            return plane.aggregate(request, aggregates)

    def _read(self, checks: Sequence[TableCheck]) -> ReadRequest:
        # Rows of other partitions are only read if a check covers the whole table.
        rows = None if any(check.whole_table for check in checks) else self._rows
        return ReadRequest(self._of.table, row_filter=rows, ref=self._of.ref)

    def _aggregate(self, check: TableCheck) -> Aggregate:
        return aggregate_of(check, self._rows, self._schema)

    def _relationship(self, check: TableCheck) -> CheckOutcome:
        """Count the rows without a match in the other table; keys that contain null are ignored."""
        config, table = check.config, self._of.named(str(check.config.to))
        itself = table == self._of.table
        if not itself and not self._manager.table_exists(table):
            return CheckOutcome(check, passed=False, figures={"missing_table": table})
        others = self._schema if itself else self._manager.load_table(table).schema()
        check_columns(config.other_columns, others, table=table, role=f"check '{check.name}'")
        for mine, other in zip(check.columns, config.other_columns, strict=True):
            _require_comparable(check, (mine, self._schema), (f"{table}.{other}", other, others))
        plane, other_read = self._plane, ReadRequest(table, ref=self._of.ref if itself else None)
        with self._naming([check]):
            figure = plane.unmatched(
                self._aggregate(check), self._read([check]), other_read, paths_of(config.other_columns, others)
            )
        return outcome_of(check, figure)

    def _data(self, check: TableCheck) -> CheckedData:
        """Return the rows to check, for a quality plugin."""
        where, columns = check.config.where, check.columns or None

        def batches() -> pa.RecordBatchReader:
            if where is None:
                rows = rows_of(check, self._rows)
                return self._manager.scan_batches(self._of.table, columns=columns, row_filter=rows, ref=self._of.ref)
            plane, request = self._plane, replace(self._read([check]), columns=columns, where=where)
            with self._naming([check]):
                found: pa.Table = plane.read_arrow(request)
            return found.to_reader()

        return CheckedData(self._of.table, self._of.ref, check.columns, batches)

    @property
    def _plane(self) -> DataPlane:
        return self._manager.context.plane()

    @contextmanager
    def _naming(self, checks: Sequence[TableCheck]) -> Iterator[None]:
        """Add the names of the checks to errors about their SQL."""
        try:
            yield
        except InvalidScanError as err:
            named = " and ".join(repr(check.name) for check in checks)
            msg = f"Cannot evaluate the check {named} on table '{self._of.table}': {err.message}"
            raise InvalidScanError(msg, hint="Correct its SQL in floe.yaml.", table=self._of.table) from err


_FAMILIES = (("int", "long", "decimal"), ("float", "double"), ("string",), ("date",), ("boolean",), ("uuid",))
_TIMES = (("timestamp", "timestamp_ns"), ("timestamptz", "timestamptz_ns"), ("binary", "fixed"))
_MOST_DIGITS = 38
_DIGITS: dict[type[IcebergType], int] = {IntegerType: 10, LongType: 20}


def _require_comparable(check: TableCheck, mine: tuple[str, Schema], other: tuple[str, str, Schema]) -> None:
    """Refuse columns whose values can never be equal, or could only be compared with rounding."""
    (name, schema), (other_name, column, others) = mine, other
    kinds = [str(schema.find_type(name)), str(others.find_type(column))]
    stems = [kind.partition("(")[0].partition("[")[0] for kind in kinds]
    alike = any(set(stems) <= set(family) for family in (*_FAMILIES, *_TIMES))
    digits = [_digits(schema.find_type(name)), _digits(others.find_type(column))]
    # An engine rounds both numbers to a decimal that can hold either.
    rounded = max(whole for whole, _ in digits) + max(scale for _, scale in digits) > _MOST_DIGITS
    if not alike or rounded:
        msg = f"The check '{check.name}' compares {name} ({kinds[0]}) with {other_name} ({kinds[1]})."
        raise InvalidScanError(msg, hint="Compare columns of the same type, or add a column of that type.")


def _digits(kind: IcebergType) -> tuple[int, int]:
    """Return the digits of a number before and after its decimal point; zeros for other types and floats."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    return _DIGITS.get(type(kind), 0), 0
