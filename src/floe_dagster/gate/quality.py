"""Checks by quality plugins: for each check, the plugin is configured, started, called once and stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from floe_core.errors import FloeStorageError, InvalidScanError
from floe_core.observing.redaction import redact_text
from floe_core.plugins import PluginType, QualityResult
from floe_dagster.gate.checks import CheckOutcome

if TYPE_CHECKING:
    from floe_core.plugins import CheckedData, PluginRegistry
    from floe_dagster.gate.checks import TableCheck


def run_quality_check(registry: PluginRegistry, check: TableCheck, data: CheckedData) -> CheckOutcome:
    """Run a check with its plugin.

    Raises:
        PluginError: The plugin is not installed, or did not start; the message names it.
        ConfigurationError: The check's options are not valid for the plugin.
        InvalidScanError: The plugin failed, or its result is not valid.
    """
    name = str(check.config.plugin)
    # Two checks may configure the same plugin differently.
    plugins = registry.for_project()
    plugin = plugins.get(PluginType.QUALITY, name)
    if check.config.options or plugin.get_config_schema() is not None:
        plugins.configure(PluginType.QUALITY, name, check.config.options)
    try:
        plugins.startup([(PluginType.QUALITY, name)]).raise_for_failures()
        result: object = plugin.check(data)
    except FloeStorageError:
        raise
    except (Exception, SystemExit) as err:
        reason = redact_text(f"{type(err).__name__}: {err}")
        msg = f"The check '{check.name}' of table '{data.table}' failed in the quality plugin '{name}': {reason}"
        raise InvalidScanError(
            msg, hint="Fix the plugin, or correct the options of the check.", table=data.table
        ) from err
    finally:
        plugins.shutdown()
    if not isinstance(result, QualityResult):
        msg = (
            f"The quality plugin '{name}' returned {type(result).__name__} instead of a QualityResult "
            f"for check '{check.name}'."
        )
        raise InvalidScanError(msg, table=data.table)
    given = result.figures if isinstance(result.figures, Mapping) else {"figures": result.figures}
    passed, figures = _plain(result.passed), {key: _plain(value) for key, value in given.items()}
    # In Python, text such as "no" is truthy.
    wrong = [] if isinstance(passed, bool) else [f"passed is {passed!r}, not true or false"]
    wrong += [f"figure {key!r} is {value!r}" for key, value in figures.items() if not _is_figure(key, value)]
    if wrong:
        problems = redact_text("; ".join(wrong))
        msg = f"The quality plugin '{name}' returned an invalid result for check '{check.name}': {problems}."
        raise InvalidScanError(msg, hint="The figures must be numbers, text or booleans by name.", table=data.table)
    return CheckOutcome(check, passed, figures)


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value from a third party
    """Convert a NumPy scalar, as returned by data frames, to a Python number."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def _is_figure(key: object, value: object) -> bool:
    return isinstance(key, str) and isinstance(value, int | float | str | bool)
