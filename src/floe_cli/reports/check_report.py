"""The report of ``floe test``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from floe_cli.output import Report, count, grid
from floe_dagster.gate.published import CheckedState, TableState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from floe_dagster.gate.published import CheckedCheck, CheckedTable

_STYLES = {
    CheckedState.PASSED: "green",
    CheckedState.WARNED: "yellow",
    CheckedState.FAILED: "bold red",
    CheckedState.ERROR: "bold red",
    CheckedState.NOT_EVALUATED: "dim",
}
_HEADERS = ("TABLE", "CHECK", "OUTCOME", "DETAILS", "SECONDS")


@dataclass(frozen=True)
class Tested:
    """The results of one ``floe test``.

    Attributes:
        test_id: Id of the test, also stored with its results.
        tables: Results per table.
        ref: Branch or tag that was checked, None for main.
        partition: Partition that was checked, None for all rows.
        tenant: Tenant whose tables were checked.
        kept: Table that the results were appended to.
        not_kept: Why the results were not stored.
    """

    test_id: str
    tables: Sequence[CheckedTable]
    ref: str | None = None
    partition: str | None = None
    tenant: str | None = None
    kept: str | None = None
    not_kept: str | None = None

    @property
    def checks(self) -> Iterator[tuple[CheckedTable, CheckedCheck]]:
        """All checks, each with its table."""
        return ((table, check) for table in self.tables for check in table.checks)


def report(tested: Tested) -> Report:
    """Report a test; warnings do not change the exit code."""
    exit_code = max((check.exit_code for _, check in tested.checks), default=0)
    return Report(
        data={
            "success": exit_code == 0,
            "id": tested.test_id,
            "ref": tested.ref or "main",
            "partition": tested.partition,
            "tenant": tested.tenant,
            "tables": [
                {"table": one.table, "asset": one.asset, "state": one.state.value, "checks": len(one.checks)}
                for one in tested.tables
            ],
            "checks": [_data(table, check) for table, check in tested.checks],
            "results": tested.kept,
            "results_not_kept": tested.not_kept,
        },
        text=[grid(_HEADERS, _rows(tested), right=["SECONDS"]), "", _summary(tested), *_notes(tested)],
        exit_code=exit_code,
    )


def _data(table: CheckedTable, check: CheckedCheck) -> dict[str, Any]:
    return {
        "table": table.table,
        "asset": table.asset,
        "partition": table.partition,
        "check": check.check,
        "state": check.state.value,
        "passed": check.passed,
        "severity": check.severity,
        "blocking": check.blocking,
        "description": check.description,
        "figures": dict(check.figures),
        "seconds": round(check.seconds, 3),
        "reason": check.reason,
        "error": check.error,
        "ref": table.ref,
        "snapshot_id": table.snapshot_id,
    }


def _rows(tested: Tested) -> Iterator[tuple[Any, ...]]:
    for table in tested.tables:
        if not table.checks:
            yield table.table, "", Text(table.state.value, style="dim"), "", ""
        for check in table.checks:
            state = table.state.value if table.state is TableState.MISSING else check.state.value
            seconds = f"{check.seconds:.1f}" if check.state is not CheckedState.NOT_EVALUATED else ""
            yield table.table, check.check, Text(state, style=_STYLES[check.state]), _figures(check), seconds


def _figures(check: CheckedCheck) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in check.figures.items())


def _summary(tested: Tested) -> str:
    states = [check.state for _, check in tested.checks]
    counted = [f"{states.count(state):,} {state.value}" for state in CheckedState if state in states]
    where = (f" on {tested.ref}" if tested.ref else "") + (f" for {tested.partition}" if tested.partition else "")
    where += f" of tenant {tested.tenant}" if tested.tenant else ""
    checks, tables = count(len(states), "check"), count(len(tested.tables), "table")
    return f"{checks} of {tables}{where}" + (f": {', '.join(counted)}." if counted else ".")


def _notes(tested: Tested) -> list[str]:
    """Explain why checks failed or were not evaluated."""
    lines = [_sentence(table, check) for table, check in tested.checks if not check.passed]
    if tested.not_kept is not None:
        lines += [f"The results were not stored: {tested.not_kept}"]
    return ["", *lines] if lines else []


def _sentence(table: CheckedTable, check: CheckedCheck) -> str:
    severity = f" (severity {check.severity})" if check.state is CheckedState.WARNED else ""
    why = check.reason or f"expected: {check.description.rstrip('.')}"
    return f"{table.table}: check '{check.check}' {check.state.value}{severity}; {why}"
