"""Writes the results as JSON, Markdown and SVG.

``python -m benchmarks.report`` draws the plots of results/latest.json, and replaces the figures between the markers in
docs/performance.md. With ``--check`` it only compares.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.plots import OVERVIEW, Result, described, file_name, label, plots, ratios_in_words

RESULTS = Path(__file__).resolve().parent / "results"
DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
_GIB = 1024**3
# The workload that has its own table.
OPERATIONS = "sc2"

PLOTS = "../benchmarks/results"
"""Path of the plots, relative to the document."""


def markdown(results: list[Result]) -> str:
    """Render all tables."""
    operations = [result for result in results if result["name"] == OPERATIONS]
    others = [result for result in results if result["name"] != OPERATIONS]
    parts = [
        _short(results),
        _comparisons(others),
        _figures(others),
        _operations(operations),
        _cold_and_warm(others),
        _memory(results),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _comparisons(results: list[Result]) -> list[str]:
    lines = [
        "| no. | workload | rounds | floe | peer | peer's time | floe / peer (95 %) | goal | met |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        start = f"| {label(result)} | {result['title']} | {result['rounds']}"
        if not result["correct"]:
            lines.append(f"{start} | **wrong or failed** | {_why(result)} | | | | no |")
            continue
        if len(result["arms"]) == 1:
            lines.append(f"{start} | {_time(_own_seconds(result), 's')} | none | | | | |")
        for found in result["comparisons"]:
            unit, ratio = found["unit"], found["ratio"]
            interval = f" ({ratio['low']:.2f} to {ratio['high']:.2f})" if result["rounds"] > 1 else ""
            goal = "" if found["goal"] is None else f"{found['goal']:.2f}"
            lines.append(
                f"{start} | {_time(found['floe'], unit)} | {found['peer']} | {_time(found['value'], unit)} "
                f"| {ratio['median']:.2f}{interval} | {goal} | {_met(found['met'])} |"
            )
        lines += [
            f"{start} | {_time(_own_seconds(result), 's')} | {arm['arm']} | {arm['error']} | | | |"
            for arm in result["arms"]
            if arm["error"]
        ]
    return lines


def _figures(results: list[Result]) -> list[str]:
    lines = ["| no. | metric of floe | value | goal | met |", "|---|---|---|---|---|"]
    for result in results:
        for found in result["figures"]:
            goal = "" if found["goal"] is None else f"<= {found['goal']:g}"
            what = f"{found['figure']} ({found['requirement']})" if found["requirement"] else found["figure"]
            lines.append(f"| {label(result)} | {what} | {found['value']:.3g} | {goal} | {_met(found['met'])} |")
    return lines


def _operations(results: list[Result]) -> list[str]:
    """Render the operations that SC-002 limits: one row per operation, one column per catalog."""
    ran = [result for result in results if result["correct"]]
    if not ran:
        return []
    catalogs = [result["variant"] for result in ran]
    lines = [
        f"| operation, slowest run (SC-002: at most 2 s) | {' | '.join(catalogs)} |",
        f"|---|{'---|' * len(catalogs)}",
    ]
    for rows in zip(*(result["figures"] for result in ran), strict=True):
        values = " | ".join(f"{row['value']:.1f} ms" for row in rows)
        lines.append(f"| {rows[0]['figure'].removesuffix('_ms').replace('_', ' ')} | {values} |")
    return lines


def _cold_and_warm(results: list[Result]) -> list[str]:
    lines = [
        "| no. | arm on Spark | Spark startup | first round | later rounds |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        for arm in result["arms"]:
            if arm["start_seconds"] is None or not arm["seconds"]:
                continue
            first = "" if arm["first_seconds"] is None else f"{arm['first_seconds']:.2f} s"
            warm = statistics.median(arm["seconds"])
            lines.append(f"| {label(result)} | {arm['arm']} | {arm['start_seconds']:.1f} s | {first} | {warm:.2f} s |")
    return lines if len(lines) > len(("header", "rule")) else []


def _memory(results: list[Result]) -> list[str]:
    lines = [
        "| no. | arm | peak memory | child processes | goal | met |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        for number, arm in enumerate(result["arms"]):
            if arm["error"]:
                continue
            memory = result["memory"] if number == 0 else None
            goal = f"< {memory['goal']:g} MiB" if memory and memory["goal"] else ""
            met = _met(memory["met"]) if memory else ""
            below = f"{arm['children_rss_mib']:.0f} MiB" if arm["children_rss_mib"] else ""
            lines.append(
                f"| {label(result)} | {arm['arm']} | {arm['peak_rss_mib']:.0f} MiB | {below} | {goal} | {met} |"
            )
    return lines


def _short(results: list[Result]) -> list[str]:
    """List the results that do not meet their goals."""
    lines = []
    for result in results:
        if not result["correct"]:
            lines.append(f"- {label(result)}: no result. {_why(result)}")
        lines += [
            f"- {label(result)} vs. {found['peer']}: {found['ratio']['median']:.2f} instead of {found['goal']:.2f}."
            for found in result["comparisons"]
            if found["met"] is False
        ]
        lines += [
            f"- {label(result)}, {found['figure']}: {found['value']:.3g} instead of {found['goal']:g}."
            for found in result["figures"]
            if found["met"] is False
        ]
        memory = result["memory"]
        if memory and memory["met"] is False:
            lines.append(f"- {label(result)}: {memory['peak_rss_mib']:.0f} MiB instead of {memory['goal']:g}.")
    return ["Goals not met:", "", *lines] if lines else ["All goals are met."]


def _why(result: Result) -> str:
    errors = [f"{arm['arm']}: {arm['error']}" for arm in result["arms"] if arm["error"]]
    return "; ".join(errors) or "the arms have different rows"


def _own_seconds(result: Result) -> float:
    return float(statistics.median(result["arms"][0]["seconds"]))


def _time(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if unit != "s" else f"{value:.2f} s"


def _met(met: bool | None) -> str:  # noqa: FBT001 - the rendered value
    return "" if met is None else "yes" if met else "**no**"


def machine() -> dict[str, Any]:
    """Describe the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
    }


def write(results: list[Result], folder: Path, *, quick: bool, whole: bool) -> list[Result]:
    """Write results in all three formats, and return the written results.

    Args:
        results: The new results.
        folder: The folder to write to.
        quick: Whether this was a quick run.
        whole: Whether all workloads were run; otherwise, the results are merged with the existing ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = {"when": datetime.now(UTC).date().isoformat(), "quick": quick}
    results = [result | run for result in results]
    if whole:
        for old in folder.glob("*.svg"):
            old.unlink()
    else:
        results = _among(results, folder)
    content = {"machine": machine(), "workloads": results}
    (folder / "latest.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "latest.md").write_text(markdown(results), encoding="utf-8")
    for name, drawn in plots(results).items():
        (folder / name).write_text(drawn, encoding="utf-8")
    return results


def _among(results: list[Result], folder: Path) -> list[Result]:
    def key(result: Result) -> tuple[Any, ...]:
        return result["name"], result["variant"], result["scale"]

    path = folder / "latest.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["workloads"] if path.exists() else []
    merged = {key(result): result for result in kept} | {key(result): result for result in results}
    return sorted(merged.values(), key=lambda result: (result["name"][:1], int(result["name"].lstrip("psc"))))


def document(content: dict[str, Any]) -> str:
    """Render the part of docs/performance.md between the markers."""
    results, where = content["workloads"], content["machine"]
    days = sorted({result["when"] for result in results})
    kinds = {result["quick"] for result in results}
    kind = "full" if kinds == {False} else "quick" if kinds == {True} else "mixed full and quick"
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    head = (
        f"From a **{kind}** run on {when}: {where['cores']} cores, {where['memory_gib']:g} GiB, {where['system']}, "
        f"Python {where['python']}."
    )
    overview = f"![{ratios_in_words(results)}]({PLOTS}/{OVERVIEW})"
    several = [result for result in results if len([arm for arm in result["arms"] if arm["seconds"]]) > 1]
    by_workload = "\n\n".join(f"![{described(result)}]({PLOTS}/{file_name(result)})" for result in several)
    return f"{head}\n\n{overview}\n\n{markdown(results)}\n### Time per round\n\n{by_workload}\n"


def files() -> dict[Path, str]:
    """Render the files derived from results/latest.json: the tables, the plots, and the document."""
    content = json.loads((RESULTS / "latest.json").read_text(encoding="utf-8"))
    before, begin, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{DOCUMENT} lacks the markers {BEGIN} and {END}.")
    drawn = {RESULTS / name: text for name, text in plots(content["workloads"]).items()}
    drawn[RESULTS / "latest.md"] = markdown(content["workloads"])
    return drawn | {DOCUMENT: f"{before}{BEGIN}\n\n{document(content)}\n{END}{after}"}


def main(arguments: list[str]) -> int:
    """Write the tables, the plots and the document; with --check only compare."""
    wanted = files()
    if "--check" in arguments:
        stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
        if stale:
            print(f"Out of date: {', '.join(stale)}. Run: python -m benchmarks.report")
        return 1 if stale else 0
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    print(f"Wrote {DOCUMENT}, and {len(wanted) - 1} files in {RESULTS}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
