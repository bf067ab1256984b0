"""Starting and stopping plugins: in order, within limits, one failure at a time."""

from __future__ import annotations

import contextvars
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from floe_core.errors import PluginError, PluginLoadError, PluginTimeoutError
from floe_core.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin that did not load, start or stop, and why."""

    plugin: str
    error: PluginError

    def __str__(self) -> str:
        """Render as the error's own text, which names the plugin."""
        return str(self.error)


@dataclass(frozen=True, slots=True)
class StartupReport:
    """What a start came to.

    Attributes:
        started: Plugins that are up, as ``group:name``, in the order of their start.
        failures: Plugins that are not, with the reason of each.
    """

    started: tuple[str, ...]
    failures: tuple[PluginFailure, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every plugin is up."""
        return not self.failures

    def raise_for_failures(self) -> None:
        """Raise the first failure; for callers that need every plugin.

        Raises:
            PluginError: A plugin did not start.
        """
        if self.failures:
            raise self.failures[0].error


def start_order(dependencies: Mapping[str, Sequence[str]]) -> tuple[list[str], list[PluginFailure]]:
    """Order plugins so that each comes after what it needs.

    Args:
        dependencies: What each plugin needs, both as ``group:name``.

    Returns:
        The order, and a failure for each plugin that is part of a cycle.
    """
    order: list[str] = []
    failures: dict[str, PluginFailure] = {}
    done: set[str] = set()

    def visit(key: str, trail: tuple[str, ...]) -> None:
        if key in trail:
            cycle = trail[trail.index(key) :]
            for member in cycle:
                failures.setdefault(member, _cycle_failure(member, cycle))
            return
        if key in done:
            return
        for needed in dependencies.get(key, ()):
            visit(needed, (*trail, key))
        done.add(key)
        order.append(key)

    for key in dependencies:
        visit(key, ())
    return [key for key in order if key in dependencies and key not in failures], list(failures.values())


def _cycle_failure(member: str, cycle: tuple[str, ...]) -> PluginFailure:
    start = cycle.index(member)
    path = " -> ".join((*cycle[start:], *cycle[:start], member))
    msg = f"The plugin {member} needs itself: {path}."
    return PluginFailure(member, PluginLoadError(msg, plugin=member, hint="One of them must drop its dependency."))


class _Call(Generic[T]):
    """A call in a daemon thread, which the caller may give up on."""

    def __init__(self, action: Callable[[], T], on_late: Callable[[], None] | None) -> None:
        self._action = action
        self._on_late = on_late
        self._lock = threading.Lock()
        self._abandoned = False
        self._finished = threading.Event()
        self.result: T
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._action()
        except BaseException as err:  # noqa: BLE001 - the waiting thread raises it again
            self.error = err
        with self._lock:
            self._finished.set()
            late = self._abandoned
        if late and self.error is None and self._on_late:
            self._on_late()

    def wait(self, seconds: float) -> bool:
        self._finished.wait(seconds)
        with self._lock:
            self._abandoned = not self._finished.is_set()
        return not self._abandoned


def call_within(
    seconds: float,
    action: Callable[[], T],
    *,
    plugin: str,
    what: str,
    on_late: Callable[[], None] | None = None,
) -> T:
    """Call a plugin and wait no longer than ``seconds``.

    Args:
        seconds: The limit.
        action: The call.
        plugin: The plugin as ``group:name``.
        what: What it was asked to do, for the message.
        on_late: Called when the action succeeds after all, once nobody waits for it any more.

    Raises:
        PluginTimeoutError: The limit passed; the call goes on in its daemon thread.
        PluginLoadError: The plugin called ``sys.exit``.
    """
    call = _Call(action, on_late)
    # The thread gets the caller's context, so that spans and log fields carry over.
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(call.run,), name=f"floe-{plugin}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # Newer versions of Python start no thread once the interpreter ends, when plugins are stopped.
        call.run()
    if not call.wait(seconds):
        msg = f"The plugin {plugin} did not {what} within {seconds:g} s."
        raise PluginTimeoutError(msg, plugin=plugin, hint="See its logs, and check the services it talks to.")
    if isinstance(call.error, SystemExit):
        # sys.exit() in a plugin would end the command as if nothing were wrong.
        msg = f"The plugin {plugin} tried to end the process when it was asked to {what} (sys.exit: {call.error})."
        raise PluginLoadError(redact_text(msg), plugin=plugin) from call.error
    if call.error is not None:
        raise call.error
    return call.result
