"""Writes what was measured: JSON for machines, Markdown and SVG for people."""

from __future__ import annotations

import json
import platform
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.statistics import Ratio, ratio

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from benchmarks.harness import Measurement

BAR_WIDTH, BAR_HEIGHT, LABEL_WIDTH = 420, 22, 190


@dataclass(frozen=True)
class Comparison:
    """floe beside one peer."""

    peer: str
    ratio: Ratio
    goal: float | None

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached."""
        return None if self.goal is None else self.ratio.median <= self.goal


@dataclass(frozen=True)
class WorkloadResult:
    """One workload, judged."""

    name: str
    title: str
    scale: float
    measurements: list[Measurement]
    comparisons: list[Comparison]
    figures: dict[str, float]
    figure_goals: dict[str, float]
    peak_rss_goal_mib: float | None
    correct: bool


def judge(name: str, workload: ModuleType, scale: float, measurements: list[Measurement]) -> WorkloadResult:
    """Compare floe with its peers; a wrong answer anywhere is no result."""
    ours, *peers = measurements
    checksums = {checksum for m in measurements if not m.error for checksum in m.checksums}
    compared = getattr(workload, "COMPARED", None)

    def times(measurement: Measurement) -> list[float]:
        return [figure[compared] for figure in measurement.figures] if compared else measurement.seconds

    comparisons = [
        Comparison(peer.arm, ratio(times(ours), times(peer)), workload.GOALS.get(peer.arm))
        for peer in peers
        if not peer.error and not ours.error
    ]
    keys = ours.figures[0] if ours.figures else {}
    return WorkloadResult(
        name=name,
        title=workload.TITLE,
        scale=scale,
        measurements=measurements,
        comparisons=comparisons,
        figures={key: statistics.median(figure[key] for figure in ours.figures) for key in keys},
        figure_goals=getattr(workload, "FIGURE_GOALS", {}),
        peak_rss_goal_mib=getattr(workload, "PEAK_RSS_GOAL_MIB", None),
        correct=not ours.error and len(checksums) == 1,
    )


def machine() -> dict[str, Any]:
    """Describe where it was measured."""
    return {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}


def markdown(results: list[WorkloadResult]) -> str:
    """Render one table row a comparison."""
    lines = [
        "| workload | floe (s) | peer | peer (s) | floe / peer (95 %) | goal | reached |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        ours = result.measurements[0]
        label = f"{result.name} {result.title} (x{result.scale:g})"
        if ours.error or not result.correct:
            lines.append(f"| {label} | **wrong or failed** | | | | | no |")
            continue
        seconds = f"{statistics.median(ours.seconds):.2f}"
        if not result.comparisons:
            lines.append(f"| {label} | {seconds} | none | | | | |")
        for comparison in result.comparisons:
            peer = next(m for m in result.measurements if m.arm == comparison.peer)
            r = comparison.ratio
            goal = "" if comparison.goal is None else f"{comparison.goal:.2f}"
            met = "" if comparison.met is None else "yes" if comparison.met else "no"
            lines.append(
                f"| {label} | {seconds} | {peer.arm} | {statistics.median(peer.seconds):.2f} "
                f"| {r.median:.2f} ({r.low:.2f} to {r.high:.2f}) | {goal} | {met} |"
            )
    lines += ["", "| workload | figure | floe | goal |", "|---|---|---|---|"]
    for result in results:
        if result.measurements[0].error:
            continue
        peak = result.measurements[0].peak_rss_mib
        wanted = f"< {result.peak_rss_goal_mib:g}" if result.peak_rss_goal_mib else ""
        lines.append(f"| {result.name} (x{result.scale:g}) | peak RSS, MiB | {peak:.0f} | {wanted} |")
        for key, value in result.figures.items():
            goal = f"<= {result.figure_goals[key]:g}" if key in result.figure_goals else ""
            lines.append(f"| {result.name} (x{result.scale:g}) | {key} | {value:.3g} | {goal} |")
    return "\n".join(lines) + "\n"


def svg(result: WorkloadResult) -> str:
    """Draw one bar an arm."""
    bars = [(m.arm, statistics.median(m.seconds)) for m in result.measurements if m.seconds]
    longest = max(seconds for _, seconds in bars)
    rows = []
    for index, (arm, seconds) in enumerate(bars):
        top, width = 34 + index * (BAR_HEIGHT + 8), max(2, BAR_WIDTH * seconds / longest)
        colour = "#1f6feb" if arm == "floe" else "#9aa4b2"
        rows.append(
            f'<text x="{LABEL_WIDTH - 8}" y="{top + 15}" text-anchor="end">{arm}</text>'
            f'<rect x="{LABEL_WIDTH}" y="{top}" width="{width:.0f}" height="{BAR_HEIGHT}" rx="3" fill="{colour}"/>'
            f'<text x="{LABEL_WIDTH + width + 6:.0f}" y="{top + 15}">{seconds:.2f} s</text>'
        )
    height = 44 + len(bars) * (BAR_HEIGHT + 8)
    width = LABEL_WIDTH + BAR_WIDTH + 80
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="20" font-weight="bold">{result.name}: {result.title} (x{result.scale:g})</text>'
        f"{''.join(rows)}</svg>\n"
    )


def write(results: list[WorkloadResult], folder: Path) -> None:
    """Write all three forms."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "workloads": [asdict(result) for result in results]}
    (folder / "latest.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "latest.md").write_text(markdown(results), encoding="utf-8")
    for result in results:
        if any(m.seconds for m in result.measurements):
            (folder / f"{result.name}-x{result.scale:g}.svg").write_text(svg(result), encoding="utf-8")
