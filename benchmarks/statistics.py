"""Ratios with confidence intervals."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

RESAMPLES = 2_000


@dataclass(frozen=True)
class Ratio:
    """A median ratio with a 95 % bootstrap interval."""

    median: float
    low: float
    high: float


def ratio(ours: list[float], theirs: list[float], *, seed: int = 7) -> Ratio:
    """Return ours / theirs, paired by round, with a bootstrap interval."""
    pairs = [a / b for a, b in zip(ours, theirs, strict=True)]
    dice = random.Random(seed)  # noqa: S311 - resampling, not cryptography
    medians = sorted(statistics.median(dice.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return Ratio(
        median=statistics.median(pairs),
        low=medians[int(0.025 * RESAMPLES)],
        high=medians[int(0.975 * RESAMPLES)],
    )
