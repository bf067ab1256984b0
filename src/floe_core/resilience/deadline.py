"""A point in time after which nobody waits any more, and calls that are not waited for longer."""

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


class BackgroundCall(Generic[T]):
    """A call in a daemon thread, which the caller may give up on.

    The thread has the caller's context, so that spans and log fields carry over.
    """

    def __init__(self, action: Callable[[], T], *, name: str, on_late: Callable[[], None] | None = None) -> None:
        """Start the call.

        Args:
            action: The call.
            name: Name of the thread.
            on_late: Called when the action succeeds after all, once nobody waits for it any more.
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
            # Newer versions of Python start no thread once the interpreter ends; then the caller waits for the call.
            self._run()

    def _run(self) -> None:
        try:
            self._result = self._action()
        except BaseException as err:  # noqa: BLE001 - the waiting thread raises it again
            self._error = err
        with self._lock:
            self._finished.set()
            late = self._abandoned
        if late and self._error is None and self._on_late:
            self._on_late()

    def wait(self, seconds: float) -> bool:
        """Wait for the end, and give up after some seconds; return whether it has ended."""
        self._finished.wait(seconds)
        with self._lock:
            self._abandoned = not self._finished.is_set()
        return not self._abandoned

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self._finished.is_set()

    def result(self) -> T:
        """Return what a call that has ended returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._result
