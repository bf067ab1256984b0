"""Starting and stopping plugins: in order, within limits, one failure at a time."""

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
    call = BackgroundCall(action, name=f"floe-{plugin}", on_late=on_late)
    if not call.wait(seconds):
        msg = f"The plugin {plugin} did not {what} within {seconds:g} s."
        raise PluginTimeoutError(msg, plugin=plugin, hint="See its logs, and check the services it talks to.")
    try:
        return call.result()
    except SystemExit as err:
        # sys.exit() in a plugin would end the command as if nothing were wrong.
        msg = f"The plugin {plugin} tried to end the process when it was asked to {what} (sys.exit: {err})."
        raise PluginLoadError(redact_text(msg), plugin=plugin) from err
