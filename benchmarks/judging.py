"""Compares floe with its peers and with the goals, and returns plain data."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.statistics import ratio

if TYPE_CHECKING:
    from types import ModuleType

    from benchmarks.harness import Measurement
    from benchmarks.plan import Size, Step


def judge(step: Step, size: Size, workload: ModuleType, measurements: list[Measurement]) -> dict[str, Any]:
    """Judge one workload; if any result is wrong, there are no figures."""
    ours, *peers = measurements
    checksums = {checksum for m in measurements if not m.error for checksum in m.checksums}
    correct = not ours.error and len(checksums) == 1 and not ours.breaches
    ran = [peer for peer in peers if correct and not peer.error]
    return {
        "name": step.name,
        "variant": step.variant,
        "title": workload.TITLE,
        "scale": size.scale,
        "rounds": size.rounds,
        "warm_up": step.warm_up,
        "correct": correct,
        "arms": [asdict(measurement) for measurement in measurements],
        "comparisons": [_comparison(workload, ours, peer, size.scale) for peer in ran],
        "figures": [*_figures(workload, ours), *_differences(workload, ours, ran)] if correct else [],
        "memory": _memory(workload, ours) if correct else None,
    }


def _times(workload: ModuleType, measurement: Measurement) -> list[float]:
    compared = getattr(workload, "COMPARED", None)
    return [figure[compared] for figure in measurement.figures] if compared else measurement.seconds


def _comparison(workload: ModuleType, ours: Measurement, peer: Measurement, scale: float) -> dict[str, Any]:
    mine, theirs = _times(workload, ours), _times(workload, peer)
    found = ratio(mine, theirs)
    # Some goals are set for one size only.
    sizes = getattr(workload, "GOAL_SIZES", {}).get(peer.arm, {scale})
    goal = workload.GOALS.get(peer.arm) if scale in sizes else None
    return {
        "peer": peer.arm,
        "floe": statistics.median(mine),
        "value": statistics.median(theirs),
        "unit": getattr(workload, "UNIT", "s"),
        "ratio": asdict(found),
        "goal": goal,
        "met": None if goal is None else found.median <= goal,
    }


def _figures(workload: ModuleType, ours: Measurement) -> list[dict[str, Any]]:
    goals: dict[str, float] = getattr(workload, "FIGURE_GOALS", {})
    requirements: dict[str, str] = getattr(workload, "REQUIREMENTS", {})
    keys = ours.figures[0] if ours.figures else {}
    return [
        _figure(key, statistics.median(figure[key] for figure in ours.figures), goals.get(key), requirements.get(key))
        for key in keys
    ]


def _differences(workload: ModuleType, ours: Measurement, peers: list[Measurement]) -> list[dict[str, Any]]:
    """Return how much longer floe takes than its peers, for goals that are differences instead of ratios."""
    goals: dict[str, float] = getattr(workload, "DIFFERENCE_GOALS", {})
    unit = getattr(workload, "UNIT", "s")
    found = []
    for peer in peers:
        if peer.arm in goals:
            pairs = zip(_times(workload, ours), _times(workload, peer), strict=True)
            difference = statistics.median(mine - theirs for mine, theirs in pairs)
            found.append(_figure(f"{unit} over {peer.arm}", difference, goals[peer.arm], None))
    return found


def _figure(key: str, value: float, goal: float | None, requirement: str | None) -> dict[str, Any]:
    met = None if goal is None else value <= goal
    return {"figure": key, "value": value, "goal": goal, "met": met, "requirement": requirement}


def _memory(workload: ModuleType, ours: Measurement) -> dict[str, Any]:
    goal = getattr(workload, "PEAK_RSS_GOAL_MIB", None)
    met = None if goal is None else ours.peak_rss_mib < goal
    return {"peak_rss_mib": ours.peak_rss_mib, "goal": goal, "met": met}
