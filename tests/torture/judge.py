"""Compares the tables with the outcomes that callers received."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.torture.ledger import Told, read
from tests.torture.operations import OPERATION_ID, WRITES, Kind, Operation, Row

from floe_testing.audit import audited

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table.metadata import TableMetadata
    from tests.torture.arena import Arena

    from floe_iceberg import IcebergTableManager

# Measured over a run, to detect growth.
_PARTS = 10


@dataclass(frozen=True)
class Moment:
    """One operation that was done.

    Attributes:
        writer: Who did it.
        kind: What it was.
        at: When it was done, in seconds that only go forward.
        ms: How long it took.
        rss_kb: The memory of its writer then.
    """

    writer: int
    kind: str
    at: float
    ms: float
    rss_kb: int


@dataclass
class Books:
    """Everything the ledgers of an arena say.

    Attributes:
        told: The last word on each operation.
        operations: The operations by their ids.
        archive: Snapshots written down before they expired, by id: parent and operation id.
    """

    told: dict[str, Told] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    archive: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    raw: list[str] = field(default_factory=list)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    timeline: list[Moment] = field(default_factory=list)
    kills: int = 0


def open_books(ledgers: list[Path], arena: Arena, seed: int) -> Books:
    """Read the ledgers of the writers of one arena."""
    books = Books()
    tables = list(arena.tables)
    for path in ledgers:
        for line in read(path):
            _enter(books, line, seed, int(path.stem.split("-")[-1]), tables)
    for name, told in books.told.items():
        if told is Told.BEGUN:
            # The caller was killed before it received an outcome.
            books.told[name] = Told.UNKNOWN
            books.kills += 1
    return books


def _enter(books: Books, line: dict[str, Any], seed: int, writer: int, tables: list[str]) -> None:
    if "archive" in line:
        for snapshot_id, parent, name in line["snapshots"]:
            books.archive[snapshot_id] = (parent, name)
        return
    if "op" not in line:
        return
    name, told = line["op"], Told(line["told"])
    if told is Told.BEGUN:
        number = line["number"]
        books.operations[name] = Operation.draw(seed, writer, number, tables)
        for fault in filter(None, (line.get("fault") or "").split("; ")):
            books.faults[fault] += 1
        # An earlier attempt with an unknown outcome may have been committed.
        books.told[name] = told
        return
    books.told[name] = told
    if "error" in line:
        books.errors[f"{told.value}: {line['error']}"] += 1
    if "raw" in line:
        books.raw.append(line["raw"])
    if told is Told.DONE:
        books.latencies.setdefault(line["kind"], []).append(line["ms"])
        books.timeline.append(Moment(writer, line["kind"], line["at"], line["ms"], line["rss_kb"]))


def judge_table(manager: IcebergTableManager, table: str, books: Books) -> dict[str, Any]:
    """Replay what landed, in the order it landed, and compare the result with the table and with the ledger."""
    history, broken = _history(manager.load_table(table).metadata, books)
    writes = {name for name, op in books.operations.items() if op.table == table and op.kind in WRITES}
    model: dict[int, Row] = {}
    landed: Counter[str] = Counter()
    strangers: list[str] = []
    twice: list[str] = []
    previous = ""
    for _, name in history:
        if name in writes:
            if name != previous:
                landed[name] += 1
                if books.operations[name].apply(model):
                    twice.append(name)
        elif name and name not in books.operations and not _of_floe(name):
            strangers.append(name)
        previous = name
    lost = [name for name in writes if books.told[name] is Told.DONE and not landed[name]]
    doubled = [name for name, count in landed.items() if count > 1] + twice
    denied = [name for name in landed if books.told[name] in {Told.FAILED, Told.NOTHING}]
    rows = manager.scan(table).to_pylist()
    found: dict[int, Row] = {row["id"]: (row["part"], row["op"], row["n"], row["value"]) for row in rows}
    return {
        "snapshots": len(history),
        "writes": len(writes),
        "landed": len(landed),
        "unknown_landed": sum(books.told[name] is Told.UNKNOWN for name in landed),
        "unknown_not_landed": sum(books.told[name] is Told.UNKNOWN and not landed[name] for name in writes),
        "lost": sorted(lost),
        "doubled": sorted(doubled),
        "landed_though_refused": sorted(denied),
        "strangers": strangers,
        "history_broken": broken,
        "breaches": [str(breach) for breach in audited(manager, table).breaches],
        "rows": len(rows),
        "rows_doubled": len(rows) - len(found),
        "rows_missing": sorted(set(model) - set(found))[:20],
        "rows_extra": sorted(set(found) - set(model))[:20],
        "rows_different": sorted(key for key in set(model) & set(found) if model[key] != found[key])[:20],
    }


def _of_floe(name: str) -> bool:
    # Maintenance uses its own ids.
    return name.count("-") == 4 and not name[0].isspace()


def _history(metadata: TableMetadata, books: Books) -> tuple[list[tuple[int, str]], bool]:
    """Return main's snapshots from the first to the last, expired ones included, and whether the chain broke."""
    known = dict(books.archive)
    for snapshot in metadata.snapshots:
        name = (snapshot.summary or {}).get(OPERATION_ID, "") if snapshot.summary else ""
        known[snapshot.snapshot_id] = (snapshot.parent_snapshot_id, name or "")
    chain: list[tuple[int, str]] = []
    current = metadata.current_snapshot_id
    while current is not None and current in known:
        parent, name = known[current]
        chain.append((current, name))
        current = parent
    return chain[::-1], current is not None


def drift(timeline: list[Moment]) -> dict[str, list[float]]:
    """Follow a run in ten parts of equally many appends: the median append, and the median memory of a writer.

    What grows and grows is a leak; what grows at first and then stays is what a process needs.
    """
    appends = sorted((moment for moment in timeline if moment.kind == Kind.APPEND), key=lambda moment: moment.at)
    part = len(appends) // _PARTS
    if not part:
        return {}
    parts = [appends[start * part : (start + 1) * part] for start in range(_PARTS)]
    return {
        "append_ms": [round(statistics.median(moment.ms for moment in one), 1) for one in parts],
        "memory_mb": [round(statistics.median(moment.rss_kb for moment in one) / 1024, 1) for one in parts],
    }


def percentiles(values: list[float]) -> dict[str, float]:
    """Return the median, the 95th and 99th percentile and the worst, in milliseconds."""
    if len(values) < 2:
        return {"p50": values[0] if values else 0.0}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 1), "p95": round(cuts[94], 1), "p99": round(cuts[98], 1), "max": max(values)}


def maintenance_done(books: Books) -> int:
    """Count the compactions and expiries that went through."""
    return sum(
        books.told[name] is Told.DONE for name, op in books.operations.items() if op.kind in {Kind.COMPACT, Kind.EXPIRE}
    )
