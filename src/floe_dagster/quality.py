"""Checks that a quality plugin makes: the plugin is configured for the check, started, asked once, and stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import FloeStorageError, InvalidScanError
from floe_core.plugins import PluginType, QualityResult
from floe_core.redaction import redact_text
from floe_dagster.checks import CheckOutcome

if TYPE_CHECKING:
    from floe_core.plugins import CheckedData, PluginRegistry
    from floe_dagster.checks import TableCheck


def judge(registry: PluginRegistry, check: TableCheck, data: CheckedData) -> CheckOutcome:
    """Let the plugin of a check judge rows.

    Raises:
        PluginError: The plugin is not installed, or did not start; the message names it.
        ConfigurationError: The check's options do not fit the plugin.
        InvalidScanError: The plugin failed, or gave no result.
    """
    name = str(check.config.plugin)
    # Two checks may ask one plugin for different things.
    plugins = registry.for_project()
    plugin = plugins.get(PluginType.QUALITY, name)
    if check.config.options or plugin.get_config_schema() is not None:
        plugins.configure(PluginType.QUALITY, name, check.config.options)
    try:
        plugins.startup([(PluginType.QUALITY, name)]).raise_for_failures()
        result: object = plugin.check(data)
    except FloeStorageError:
        raise
    except Exception as err:
        reason = redact_text(f"{type(err).__name__}: {err}")
        msg = f"The check '{check.name}' of table '{data.table}' failed in the quality plugin '{name}': {reason}"
        raise InvalidScanError(msg, hint="Correct the plugin, or the check's options.", table=data.table) from err
    finally:
        plugins.shutdown()
    if not isinstance(result, QualityResult):
        given = type(result).__name__
        msg = f"The quality plugin '{name}' gave a {given} for check '{check.name}', not a QualityResult."
        raise InvalidScanError(msg, table=data.table)
    return CheckOutcome(check, result.passed, dict(result.figures))
