"""Dagster's private API that floe uses: this module, and no other.

``tests/unit/dagster/test_dagster_internals.py`` has a test for each use; it says which of them an upgrade changed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from dagster import ConfigurableIOManager

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


class LaunchHook(ConfigurableIOManager):
    """An IO manager that decides what the configuration of a launch changes of it."""

    @abstractmethod
    def launch_schema(self, schema: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Dagster does not export its type
        """Return the schema of a launch's configuration.

        Args:
            schema: The schema as Dagster makes it.
            given: What this IO manager was made with, as configuration.
        """

    @abstractmethod
    def copy_for_run(self, values: Mapping[str, Any]) -> Self:
        """Return the copy that a run uses, with the values of its configuration; ``plain_copy`` makes it."""

    def plain_copy(self, values: Mapping[str, Any]) -> Self:
        """Return a copy out of the fields alone, as Dagster makes it."""
        return super()._with_updated_values(values)  # type: ignore[return-value] # Dagster names the base class

    @property
    def _config_schema(self) -> Any:  # noqa: ANN401 - Dagster does not export its type
        return self.launch_schema(super()._config_schema, self._resolved_config_dict)

    def _with_updated_values(self, values: Mapping[str, Any] | None) -> Self:
        return self.copy_for_run(values or {})
