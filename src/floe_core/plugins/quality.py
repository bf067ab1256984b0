"""Quality plugins: checks of rows that floe.yaml names and somebody else wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floe_core.errors import CapabilityError
from floe_core.plugins.metadata import PluginMetadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class CheckedData:
    """The rows that a check looks at.

    Attributes:
        table: The table's full name.
        ref: Branch or tag that is read; None for main.
        columns: Columns that the check names; none for all.
        batches: Reads the rows, as a ``pyarrow.RecordBatchReader`` over those columns; nothing is read before.
    """

    table: str
    ref: str | None
    columns: tuple[str, ...]
    batches: Callable[[], Any]


@dataclass(frozen=True)
class QualityResult:
    """What a plugin found.

    Attributes:
        passed: Whether the rows are good enough.
        figures: What it counted, by name.
    """

    passed: bool
    figures: Mapping[str, int | float | str | bool] = field(default_factory=dict)


class QualityPlugin(PluginMetadata):
    """Checks data against expectations.

    A check of type ``plugin`` in floe.yaml names the plugin. For each such check a fresh instance is configured with
    the check's ``options``, started, asked once, and shut down.
    """

    def check(self, data: CheckedData) -> QualityResult:
        """Judge rows.

        Raises:
            CapabilityError: The plugin judges nothing.
        """
        msg = f"The quality plugin '{self.name}' has no check for table '{data.table}'."
        raise CapabilityError(msg, hint="It must implement check(data).")
