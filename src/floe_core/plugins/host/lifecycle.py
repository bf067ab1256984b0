"""Start and stop plugins in order, within time limits, isolating failures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from floe_core.errors import PluginError, PluginLoadError, PluginTimeoutError
from floe_core.observing.redaction import redact_text
from floe_core.resilience.deadline import BackgroundCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin that did not load, start or stop, and why."""

    plugin: str
    error: PluginError

    def __str__(self) -> str:
        """Return the error's message, which names the plugin."""
        return str(self.error)


@dataclass(frozen=True, slots=True)
class StartupReport:
    """The result of starting plugins.

    Attributes:
        started: Running plugins, as ``group:name``, in start order.
        failures: Plugins that did not start, each with its reason.
    """

    started: tuple[str, ...]
    failures: tuple[PluginFailure, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every plugin started."""
        return not self.failures

    def raise_for_failures(self) -> None:
        """Raise the first failure, for callers that need every plugin.

        Raises:
            PluginError: A plugin did not start.
        """
        if self.failures:
            raise self.failures[0].error


def start_order(dependencies: Mapping[str, Sequence[str]]) -> tuple[list[str], list[PluginFailure]]:
    """Order plugins so that each one follows its dependencies.

    Args:
        dependencies: The dependencies of each plugin, all as ``group:name``.

    Returns:
        The start order, and a failure for each plugin in a dependency cycle.
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
    msg = f"The plugin {member} depends on itself: {path}."
    return PluginFailure(member, PluginLoadError(msg, plugin=member, hint="Remove one of these dependencies."))


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
        seconds: The time limit.
        action: The call.
        plugin: The plugin as ``group:name``.
        what: The action as a verb, for messages.
        on_late: Called if the action succeeds after the time limit.

    Raises:
        PluginTimeoutError: The time limit was exceeded; the call continues in its daemon thread.
        PluginLoadError: The plugin called ``sys.exit``.
    """
    call = BackgroundCall(action, name=f"floe-{plugin}", on_late=on_late)
    if not call.wait(seconds):
        msg = f"The plugin {plugin} did not {what} within {seconds:g} s."
        raise PluginTimeoutError(msg, plugin=plugin, hint="Check its logs and the services it connects to.")
    try:
        return call.result()
    except SystemExit as err:
        # sys.exit() in a plugin would otherwise end the command without an error.
        msg = f"The plugin {plugin} tried to exit the process when asked to {what} (sys.exit: {err})."
        raise PluginLoadError(redact_text(msg), plugin=plugin) from err
