"""A point in time after which nobody waits any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from floe_core.errors import DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Callable[[], float]


class Deadline:
    """Counts down from ``seconds`` as soon as it is made; None never ends."""

    def __init__(self, seconds: float | None, *, clock: Clock = time.monotonic) -> None:
        """Start the countdown."""
        self.seconds = seconds
        self._clock = clock
        self._started = clock()

    def elapsed(self) -> float:
        """Seconds since it was made."""
        return self._clock() - self._started

    def remaining(self) -> float:
        """Seconds left, never below zero; infinite for a deadline that never ends."""
        return float("inf") if self.seconds is None else max(0.0, self.seconds - self.elapsed())

    @property
    def expired(self) -> bool:
        """Whether nothing is left."""
        return self.remaining() <= 0

    def check(self, what: str) -> None:
        """Stop here when the time is up.

        Args:
            what: What was under way, such as ``loading bronze.orders``.

        Raises:
            DeadlineExceededError: The time is up.
        """
        if self.expired:
            msg = f"The deadline of {self.seconds:g} s passed while {what}."
            raise DeadlineExceededError(msg, hint="Raise catalog.timeouts.total_seconds if it needs longer.")

    def __repr__(self) -> str:
        """Show what is left."""
        return f"Deadline(seconds={self.seconds}, remaining={self.remaining():.3f})"
