"""Deadlines, and background calls that a caller can stop waiting for."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from floe_core.errors import DeadlineExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Callable[[], float]

T = TypeVar("T")


class Deadline:
    """A countdown of ``seconds`` that starts on creation; None means no limit."""

    def __init__(self, seconds: float | None, *, clock: Clock = time.monotonic) -> None:
        """Start the countdown."""
        self.seconds = seconds
        self._clock = clock
        self._started = clock()

    def elapsed(self) -> float:
        """Return the seconds since the deadline was created."""
        return self._clock() - self._started

    def remaining(self) -> float:
        """Return the seconds left, never below zero; infinite without a limit."""
        return float("inf") if self.seconds is None else max(0.0, self.seconds - self.elapsed())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining() <= 0

    def check(self, what: str) -> None:
        """Raise an error if the deadline has passed.

        Args:
            what: The current activity, such as ``loading bronze.orders``.

        Raises:
            DeadlineExceededError: The deadline has passed.
        """
        if self.expired:
            msg = f"The deadline of {self.seconds:g} s passed while {what}."
            raise DeadlineExceededError(msg, hint="Raise catalog.timeouts.total_seconds if it needs more time.")

    def __repr__(self) -> str:
        """Return the limit and the remaining time."""
        return f"Deadline(seconds={self.seconds}, remaining={self.remaining():.3f})"


class BackgroundCall(Generic[T]):
    """A call in a daemon thread that the caller can stop waiting for.

    The thread runs in a copy of the caller's context, so it inherits spans and log fields.
    """

    def __init__(self, action: Callable[[], T], *, name: str, on_late: Callable[[], None] | None = None) -> None:
        """Start the call.

        Args:
            action: The call.
            name: Name of the thread.
            on_late: Called if the action succeeds after the caller stopped waiting.
        """
        self._action = action
        self._on_late = on_late
        self._lock = threading.Lock()
        self._abandoned = False
        self._finished = threading.Event()
        self._result: T
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        try:
            threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True).start()
        except RuntimeError:
            # Newer Python versions cannot start threads at interpreter shutdown; run the call in this thread instead.
            self._run()

    def _run(self) -> None:
        try:
            self._result = self._action()
        except BaseException as err:  # noqa: BLE001 - reraised in the waiting thread
            self._error = err
        with self._lock:
            self._finished.set()
            late = self._abandoned
        if late and self._error is None and self._on_late:
            self._on_late()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the call to finish; return whether it has finished."""
        self._finished.wait(seconds)
        with self._lock:
            self._abandoned = not self._finished.is_set()
        return not self._abandoned

    @property
    def finished(self) -> bool:
        """Whether the call has finished."""
        return self._finished.is_set()

    def result(self) -> T:
        """Return the result of a finished call, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._result
