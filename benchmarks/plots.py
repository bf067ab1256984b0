"""Draws the results as SVG without scripts, with descriptions for screen readers."""

from __future__ import annotations

import math
import statistics
from html import escape
from typing import Any

Result = dict[str, Any]

OVERVIEW = "overview.svg"
BAR_WIDTH, BAR_HEIGHT, LABEL_WIDTH = 420, 22, 190
_ROW, _TOP, _LEFT, _SPAN, _RIGHT = 24, 60, 300, 460, 60
_OURS, _PEERS, _MISSED, _RULE = "#1f6feb", "#9aa4b2", "#c2410c", "#d5dae1"
# Ratios have a logarithmic axis, so that half and twice the time are equally far from 1.
_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2)
_LOW, _HIGH = 0.05, 2.5


def label(result: Result) -> str:
    """Return the label of a workload, with its variant and size."""
    where = f"{result['variant']}, " if result["variant"] else ""
    return f"{result['name'].upper()} ({where}x{result['scale']:g})"


def file_name(result: Result) -> str:
    """Return the file name of a workload's plot."""
    parts = (result["name"], result["variant"], f"x{result['scale']:g}")
    return f"{'-'.join(part for part in parts if part)}.svg"


def described(result: Result) -> str:
    """Describe the plot of a workload in words."""
    times = ", ".join(f"{arm} {seconds:.2f} s" for arm, seconds in _bars(result))
    return f"{label(result)}, {result['title']}: {times}"


def plots(results: list[Result]) -> dict[str, str]:
    """Draw all plots, by file name."""
    drawn = {file_name(result): bars(result) for result in results if _bars(result)}
    return drawn | {OVERVIEW: overview(results)}


def bars(result: Result) -> str:
    """Draw one bar per arm."""
    found = _bars(result)
    longest = max(seconds for _, seconds in found)
    rows = []
    for index, (arm, seconds) in enumerate(found):
        top, width = 34 + index * (BAR_HEIGHT + 8), max(2, BAR_WIDTH * seconds / longest)
        color = _OURS if arm == "floe" else _PEERS
        rows.append(
            f'<text x="{LABEL_WIDTH - 8}" y="{top + 15}" text-anchor="end">{escape(arm)}</text>'
            f'<rect x="{LABEL_WIDTH}" y="{top}" width="{width:.0f}" height="{BAR_HEIGHT}" rx="3" fill="{color}"/>'
            f'<text x="{LABEL_WIDTH + width + 6:.0f}" y="{top + 15}">{seconds:.2f} s</text>'
        )
    title = f"{label(result)}: {result['title']}"
    heading = f'<text x="8" y="20" font-weight="bold">{escape(title)}</text>'
    size = (LABEL_WIDTH + BAR_WIDTH + 80, 44 + len(found) * (BAR_HEIGHT + 8))
    return _svg(size, title, described(result), [heading, *rows])


def overview(results: list[Result]) -> str:
    """Draw floe's time relative to each peer, with the goals."""
    rows = [(result, found) for result in results if result["correct"] for found in result["comparisons"]]
    bottom = _TOP + len(rows) * _ROW
    parts = [
        '<text x="8" y="20" font-weight="bold">Time of floe relative to its peers</text>',
        f'<text x="{_x(1) - 6:.0f}" y="42" text-anchor="end">faster than the peer</text>',
        f'<text x="{_x(1) + 6:.0f}" y="42">slower</text>',
    ]
    for tick in _TICKS:
        color, at = ("#57606a" if tick == 1 else _RULE), f"{_x(tick):.1f}"
        parts += [
            f'<line x1="{at}" y1="{_TOP - 8}" x2="{at}" y2="{bottom}" stroke="{color}"/>',
            f'<text x="{at}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>',
        ]
    for index, (result, found) in enumerate(rows):
        parts.append(_comparison(result, found, _TOP + index * _ROW + _ROW // 2))
    goal = (
        f'<path d="M {_LEFT} {bottom + 34} v 12" stroke="#24292f" stroke-width="2"/>'
        f'<text x="{_LEFT + 8}" y="{bottom + 45}">goal; dots are medians, lines 95 % intervals</text>'
    )
    title = "Time of floe relative to its peers"
    return _svg((_LEFT + _SPAN + _RIGHT, bottom + 60), title, ratios_in_words(results), [*parts, goal])


def ratios_in_words(results: list[Result]) -> str:
    """Describe the overview in words."""
    ratios = [
        f"{label(result)} vs. {found['peer']} {found['ratio']['median']:.2f}"
        for result in results
        if result["correct"]
        for found in result["comparisons"]
    ]
    return f"Time of floe relative to its peers: {'; '.join(ratios)}"


def _comparison(result: Result, found: dict[str, Any], y: int) -> str:
    ratio = found["ratio"]
    color = _MISSED if found["met"] is False else _OURS
    what = f"{label(result)} vs. {found['peer']}"
    parts = [
        f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(what)}</text>',
        f'<path d="M {_x(ratio["low"]):.1f} {y} H {_x(ratio["high"]):.1f}" stroke="{color}" stroke-width="3"/>',
        f'<circle cx="{_x(ratio["median"]):.1f}" cy="{y}" r="5" fill="{color}"/>',
    ]
    if found["goal"] is not None:
        parts.append(f'<path d="M {_x(found["goal"]):.1f} {y - 8} v 16" stroke="#24292f" stroke-width="2"/>')
    return "".join(parts)


def _x(ratio: float) -> float:
    """Return the position of a ratio on the axis; ratios beyond its ends are drawn there."""
    low, high = math.log(_LOW), math.log(_HIGH)
    return _LEFT + _SPAN * (math.log(min(max(ratio, _LOW), _HIGH)) - low) / (high - low)


def _bars(result: Result) -> list[tuple[str, float]]:
    return [(arm["arm"], statistics.median(arm["seconds"])) for arm in result["arms"] if arm["seconds"]]


def _svg(size: tuple[int, int], title: str, description: str, parts: list[str]) -> str:
    width, height = size
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )
