"""Writes the results of a run to ``docs/reliability.md``: ``python -m tests.torture.figures RESULT``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.torture.run import ROOT

PAGE = ROOT / "docs" / "reliability.md"
_PLACE = re.compile(r"(<!-- figures -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def render(result: dict[str, Any]) -> str:
    """Render the results as Markdown."""
    outcomes, wrong = result["outcomes"], sum(map(bool, result["wrong_rows"].values()))
    rows = {
        "seed": result["seed"],
        "minutes": round(result["seconds"] / 60, 1),
        "operations": result["operations"],
        "commits": result["commits"],
        "compactions and expiries": result["maintenance"],
        "faults injected": sum(result["faults"].values()),
        "writers killed with kill -9": result["kills"],
        "operations reported as done": outcomes.get("done", 0) + outcomes.get("nothing to do", 0),
        "operations reported as failed": outcomes.get("failed", 0),
        "operations with an unknown outcome (including killed writers)": outcomes.get("unknown", 0),
        "**lost writes**": result["lost"],
        "**duplicated writes**": result["doubled"],
        "**writes committed although reported as failed**": result["landed_though_refused"],
        "**kinds of wrong rows**": wrong,
        "**breaches found by the auditor**": len(result["breaches"]),
        "errors that are not floe errors": len(result["raw_errors"]) + len(result["read_raw_errors"]),
        "concurrent reads": result["reads"],
        "**partial reads**": len(result["partial_reads"]),
    }
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    lines += ["", "| fault | times |", "|---|---|"]
    lines += [f"| {name} | {count} |" for name, count in result["faults"].items() if count]
    lines += ["", "| operation | median ms | 95 % | 99 % |", "|---|---|---|---|"]
    lines += [
        f"| {kind} | {cuts['p50']} | {cuts.get('p95', '')} | {cuts.get('p99', '')} |"
        for kind, cuts in result["latency_ms"].items()
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    result = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PLACE.sub(lambda match: f"{match[1]}\n{render(result)}\n{match[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
