"""All uses of Dagster's private API.

``tests/unit/dagster/test_dagster_internals.py`` has a test for each use, which tells what an upgrade has changed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from dagster import ConfigurableIOManager

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self


class LaunchHook(ConfigurableIOManager):
    """An IO manager that controls which of its fields the configuration of a run can change."""

    @abstractmethod
    def launch_schema(self, schema: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Dagster does not export its type
        """Return the schema of the run configuration.

        Args:
            schema: Dagster's schema.
            given: The values of this IO manager, as configuration.
        """

    @abstractmethod
    def copy_for_run(self, values: Mapping[str, Any]) -> Self:
        """Return the copy for a run with the values of its configuration; use ``plain_copy`` to create it."""

    def plain_copy(self, values: Mapping[str, Any]) -> Self:
        """Return Dagster's own copy, which has only the fields."""
        return super()._with_updated_values(values)  # type: ignore[return-value] # Dagster names the base class

    @property
    def _config_schema(self) -> Any:  # noqa: ANN401 - Dagster does not export its type
        return self.launch_schema(super()._config_schema, self._resolved_config_dict)

    def _with_updated_values(self, values: Mapping[str, Any] | None) -> Self:
        return self.copy_for_run(values or {})
