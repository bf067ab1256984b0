"""The plugin registry: finds plugins on demand and manages their life cycle."""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, TypeAlias, overload

from pydantic import BaseModel

from floe_core.errors import (
    ConfigurationError,
    PluginError,
    PluginLoadError,
    PluginNotFoundError,
)
from floe_core.observing.redaction import redact_text
from floe_core.plugins.host.connecting import validated
from floe_core.plugins.host.discovery import (
    Offer,
    PluginInfo,
    PluginStatus,
    discover,
    installed_entry_points,
    plugin_key,
    type_label,
)
from floe_core.plugins.host.lifecycle import PluginFailure, StartupReport, call_within, start_order
from floe_core.plugins.host.loading import check_api_version, contract_type, load
from floe_core.plugins.metadata import PLUGIN_API_VERSION, HealthState, HealthStatus, PluginMetadata, PluginType
from floe_core.telemetry import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from floe_core.plugins.catalog import CatalogPlugin
    from floe_core.plugins.compute import ComputePlugin
    from floe_core.plugins.host.discovery import EntryPointSource
    from floe_core.plugins.orchestrator import OrchestratorPlugin
    from floe_core.plugins.quality import QualityPlugin
    from floe_core.plugins.secrets import SecretsPlugin
    from floe_core.plugins.storage import StoragePlugin

STARTUP_SECONDS = 30.0
HEALTH_CHECK_SECONDS = 5.0

PluginKey: TypeAlias = tuple[PluginType, str]
# Named here, because inside the class `list` is the method.
Plugins: TypeAlias = list[PluginInfo]
Offers: TypeAlias = list[Offer]

_log = get_logger(__name__)


class PluginRegistry:
    """Installed plugins by type and name; each is imported on first use and then cached.

    Plugins fail independently: a failure is reported with the plugin's name and does not affect the others.
    """

    def __init__(
        self,
        *,
        source: EntryPointSource = installed_entry_points,
        api_version: str = PLUGIN_API_VERSION,
        startup_seconds: float = STARTUP_SECONDS,
        health_check_seconds: float = HEALTH_CHECK_SECONDS,
    ) -> None:
        """Create a registry without looking up plugins yet.

        Args:
            source: Returns the entry points; those of the running environment by default.
            api_version: The plugin API version to check plugins against.
            startup_seconds: Time limit for each plugin's start and shutdown.
            health_check_seconds: Time limit for each health check.
        """
        self._source = source
        self._api_version = api_version
        self._startup_seconds = startup_seconds
        self._health_check_seconds = health_check_seconds
        self._lock = threading.RLock()
        self._offers: dict[PluginKey, Offers] | None = None
        self._plugins: dict[PluginKey, PluginMetadata] = {}
        self._started: list[PluginKey] = []
        self._shared: PluginRegistry | None = None

    def for_project(self) -> PluginRegistry:
        """Return a registry of the same plugins with instances that belong to a single project.

        Two projects can configure, start and stop the same plugin independently.
        """
        registry = PluginRegistry(
            source=self._source,
            api_version=self._api_version,
            startup_seconds=self._startup_seconds,
            health_check_seconds=self._health_check_seconds,
        )
        registry._shared = self
        return registry

    @property
    def started(self) -> tuple[PluginKey, ...]:
        """The running plugins, in start order."""
        return tuple(self._started)

    def list(self, plugin_type: PluginType | None = None, *, load: bool = False) -> Plugins:
        """List installed plugins, ordered by type and name.

        Args:
            plugin_type: Only this group.
            load: Import each plugin to determine its version and whether it works.
        """
        found = [info for key in self._keys(plugin_type) for info in self._describe(key, load=load)]
        order = [*PluginType]
        return sorted(found, key=lambda info: (order.index(info.type), info.name, info.distribution))

    @overload
    def get(self, plugin_type: Literal[PluginType.CATALOG], name: str) -> CatalogPlugin: ...
    @overload
    def get(self, plugin_type: Literal[PluginType.STORAGE], name: str) -> StoragePlugin: ...
    @overload
    def get(self, plugin_type: Literal[PluginType.COMPUTE], name: str) -> ComputePlugin: ...
    @overload
    def get(self, plugin_type: Literal[PluginType.ORCHESTRATOR], name: str) -> OrchestratorPlugin: ...
    @overload
    def get(self, plugin_type: Literal[PluginType.SECRETS], name: str) -> SecretsPlugin: ...
    @overload
    def get(self, plugin_type: Literal[PluginType.QUALITY], name: str) -> QualityPlugin: ...
    @overload
    def get(self, plugin_type: PluginType, name: str) -> PluginMetadata: ...
    def get(self, plugin_type: PluginType, name: str) -> PluginMetadata:
        """Return the plugin, always the same instance.

        Raises:
            PluginNotFoundError: No installed distribution provides it; the message lists the installed plugins.
            PluginLoadError: It cannot be imported, does not match its entry point, or several distributions provide it.
            PluginIncompatibleError: It was written for another plugin API version.
        """
        key = (plugin_type, name)
        with self._lock:
            if key not in self._plugins:
                self._plugins[key] = self._load(key)
            return self._plugins[key]

    def register(self, plugin: PluginMetadata, plugin_type: PluginType | None = None) -> None:
        """Add a plugin that is not installed, or replace an installed one; for tests and embedding.

        Raises:
            PluginLoadError: It does not implement any of the contracts.
            PluginIncompatibleError: It was written for another plugin API version.
        """
        plugin_type = plugin_type or contract_type(plugin)
        check_api_version(plugin, plugin_type, api_version=self._api_version)
        with self._lock:
            self._plugins[plugin_type, plugin.name] = plugin

    def configure(self, plugin_type: PluginType, name: str, config: Mapping[str, object] | BaseModel) -> None:
        """Validate a configuration with the plugin's schema and pass it to the plugin.

        Raises:
            ConfigurationError: The configuration is not valid, or the plugin does not accept one.
        """
        plugin = self.get(plugin_type, name)
        schema = plugin.get_config_schema()
        values = config.model_dump() if isinstance(config, BaseModel) else dict(config)
        if schema is None:
            if values:
                msg = f"The {type_label(plugin_type)} plugin '{name}' does not accept a configuration."
                raise ConfigurationError(msg, hint=f"Remove: {', '.join(sorted(values))}.")
            return
        plugin.configure(config if isinstance(config, schema) else validated(schema, values, plugin_type, name))

    def startup(self, selection: Iterable[PluginKey] | None = None) -> StartupReport:
        """Start plugins after their dependencies; running plugins are not restarted.

        Args:
            selection: Plugins to start; every installed one by default.
        """
        with self._lock:
            wanted = self._keys(None) if selection is None else tuple(selection)
            failures: dict[str, PluginFailure] = {}
            needs = self._dependencies(wanted, failures)
            names = {plugin_key(*key): key for key in needs}
            order, cycles = start_order({plugin_key(*k): [plugin_key(*n) for n in ns] for k, ns in needs.items()})
            failures.update({failure.plugin: failure for failure in cycles})
            for name in order:
                self._start(names[name], needs[names[name]], failures)
            for failure in failures.values():
                _log.warning("plugin.startup", plugin=failure.plugin, outcome="failed", reason=str(failure))
            return StartupReport(tuple(plugin_key(*key) for key in self._started), tuple(failures.values()))

    def health_check(self, plugin_type: PluginType, name: str) -> HealthStatus:
        """Check a plugin's health; an exception, an invalid result or a timeout makes it unhealthy.

        Raises:
            PluginNotFoundError: The plugin does not exist.
        """
        key = plugin_key(plugin_type, name)
        try:
            plugin = self.get(plugin_type, name)
            status: object = call_within(
                self._health_check_seconds, plugin.health_check, plugin=key, what="respond to its health check"
            )
        except PluginNotFoundError:
            raise
        except Exception as err:  # noqa: BLE001 - any exception of a third party means it is unhealthy
            return HealthStatus(HealthState.UNHEALTHY, redact_text(str(err) or type(err).__name__))
        if isinstance(status, HealthStatus):
            return status
        return HealthStatus(HealthState.UNHEALTHY, f"it returned {type(status).__name__} instead of a HealthStatus")

    def shutdown(self) -> tuple[PluginFailure, ...]:
        """Stop all running plugins in reverse start order, and return those that failed to stop."""
        failures = []
        with self._lock:
            while self._started:
                key = self._started.pop()
                name = plugin_key(*key)
                try:
                    call_within(self._startup_seconds, self._plugins[key].shutdown, plugin=name, what="shut down")
                except Exception as err:  # noqa: BLE001 - the others must still be stopped
                    failures.append(_failure(name, err, "shut down"))
                    _log.warning("plugin.shutdown", plugin=name, outcome="failed", reason=str(failures[-1]))
        return tuple(failures)

    def _found(self) -> dict[PluginKey, Offers]:
        if self._shared is not None:
            return self._shared._found()  # noqa: SLF001 - of the same class
        with self._lock:
            if self._offers is None:
                offers: dict[PluginKey, Offers] = defaultdict(list)
                for offer in discover(self._source):
                    offers[offer.type, offer.name].append(offer)
                self._offers = dict(offers)
            return self._offers

    def _keys(self, plugin_type: PluginType | None) -> tuple[PluginKey, ...]:
        shared = self._shared._plugins if self._shared else {}  # noqa: SLF001 - of the same class
        known = {**self._found(), **shared, **self._plugins}
        return tuple(key for key in known if plugin_type in (None, key[0]))

    def _describe(self, key: PluginKey, *, load: bool) -> Plugins:
        offers = self._found().get(key, [])
        infos = [offer.info() for offer in offers] or [PluginInfo(type=key[0], name=key[1])]
        if not load and key not in self._plugins:
            return infos
        try:
            plugin = self.get(*key)
        except PluginError as err:
            return [replace(info, status=PluginStatus.FAILED, reason=str(err)) for info in infos]
        return [
            replace(
                infos[0],
                status=PluginStatus.OK,
                version=plugin.version,
                api_version=plugin.floe_api_version,
                description=plugin.description,
            )
        ]

    def _load(self, key: PluginKey) -> PluginMetadata:
        if self._shared is not None:
            return self._shared.get(*key).fresh()
        offers = self._found().get(key)
        if not offers:
            raise self._not_found(*key)
        if len(offers) > 1:
            origins = " and ".join(offer.origin for offer in offers)
            msg = f"The {type_label(key[0])} plugin '{key[1]}' is provided by {origins}."
            raise PluginLoadError(msg, plugin=plugin_key(*key), hint="Uninstall all but one of them.")
        return load(offers[0], api_version=self._api_version)

    def _not_found(self, plugin_type: PluginType, name: str) -> PluginNotFoundError:
        names = sorted(known for _, known in self._keys(plugin_type))
        msg = (
            f"No {type_label(plugin_type)} plugin '{name}' is installed. "
            f"Installed {type_label(plugin_type)} plugins: {', '.join(names) or 'none'}."
        )
        hint = f"Install the distribution that provides '{name}' under the entry-point group {plugin_type.value}."
        if elsewhere := [type_label(kind) for kind, known in self._keys(None) if known == name]:
            hint = f"'{name}' is a {elsewhere[0]} plugin."
        elif close := get_close_matches(name, names, n=1):
            hint = f"Did you mean '{close[0]}'?"
        return PluginNotFoundError(msg, plugin=plugin_key(plugin_type, name), hint=hint)

    def _dependencies(
        self, wanted: Iterable[PluginKey], failures: dict[str, PluginFailure]
    ) -> dict[PluginKey, Iterable[PluginKey]]:
        needs: dict[PluginKey, Iterable[PluginKey]] = {}
        waiting = [*wanted]
        while waiting:
            key = waiting.pop(0)
            if key in needs or plugin_key(*key) in failures:
                continue
            try:
                needs[key] = [_dependency(key, text) for text in self.get(*key).dependencies]
            except Exception as err:  # noqa: BLE001 - any exception of a third party is that plugin's failure
                failures[plugin_key(*key)] = _failure(plugin_key(*key), err, "load")
                continue
            waiting.extend(needs[key])
        return needs

    def _start(self, key: PluginKey, needs: Iterable[PluginKey], failures: dict[str, PluginFailure]) -> None:
        name = plugin_key(*key)
        if key in self._started:
            return
        if missing := [plugin_key(*needed) for needed in needs if needed not in self._started]:
            msg = f"The plugin {name} depends on {' and '.join(missing)}, which did not start."
            hint = "Install or fix its dependencies."
            failures[name] = PluginFailure(name, PluginLoadError(msg, plugin=name, hint=hint))
            return
        plugin = self._plugins[key]
        if getattr(plugin.startup, "__func__", None) is PluginMetadata.startup:
            # There is nothing to wait for, so no thread is needed.
            self._started.append(key)
            return
        try:
            # A start that succeeds after the time limit is undone, because its resources would otherwise stay open.
            call_within(self._startup_seconds, plugin.startup, plugin=name, what="start", on_late=plugin.shutdown)
        except Exception as err:  # noqa: BLE001 - any exception of a third party is that plugin's failure
            failures[name] = _failure(name, err, "start")
        else:
            self._started.append(key)


@functools.cache
def default_registry() -> PluginRegistry:
    """Return the process-wide registry of the running environment."""
    return PluginRegistry()


def _dependency(key: PluginKey, text: str) -> PluginKey:
    group, separator, name = text.rpartition(":")
    if not separator:
        return key[0], text
    try:
        return PluginType(group), name
    except ValueError as err:
        groups = ", ".join(plugin_type.value for plugin_type in PluginType)
        msg = f"The plugin {plugin_key(*key)} depends on '{text}', but the plugin group '{group}' does not exist."
        raise PluginLoadError(msg, plugin=plugin_key(*key), hint=f"Groups: {groups}.") from err


def _failure(name: str, err: Exception, what: str) -> PluginFailure:
    # An error raised by the plugin itself may not name it.
    if isinstance(err, PluginError) and err.plugin == name:
        return PluginFailure(name, err)
    msg = f"The plugin {name} failed to {what}: {redact_text(f'{type(err).__name__}: {err}')}"
    wrapped = PluginLoadError(msg, plugin=name)
    wrapped.__cause__ = err
    return PluginFailure(name, wrapped)
