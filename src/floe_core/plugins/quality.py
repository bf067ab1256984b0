"""Quality plugins: third-party data checks that floe.yaml refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floe_core.errors import CapabilityError
from floe_core.plugins.metadata import PluginMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class CheckedData:
    """The data to check.

    Attributes:
        table: The table's full name.
        ref: Branch or tag to read; None for main.
        columns: Columns of the check; empty for all.
        batches: Returns the rows as a ``pyarrow.RecordBatchReader`` over those columns; reading starts with the call.
    """

    table: str
    ref: str | None
    columns: tuple[str, ...]
    batches: Callable[[], Any]


@dataclass(frozen=True)
class QualityResult:
    """The result of a check.

    Attributes:
        passed: Whether the data meets the expectations.
        figures: Measured values by name.
    """

    passed: bool
    figures: Mapping[str, int | float | str | bool] = field(default_factory=dict)


class QualityPlugin(PluginMetadata):
    """Checks data against expectations.

    A check of type ``plugin`` in floe.yaml refers to the plugin. For each such check, a fresh instance is configured
    with the check's ``options``, started, called once, and shut down.
    """

    def check(self, data: CheckedData) -> QualityResult:
        """Check the rows of a table.

        Raises:
            CapabilityError: The plugin does not implement checks.
        """
        msg = f"The quality plugin '{self.name}' cannot check table '{data.table}'."
        raise CapabilityError(msg, hint="It must implement check(data).")
