"""The ``row-count`` quality plugin: requires a minimum number of rows."""

from __future__ import annotations

from floe_core.plugins import CheckedData, QualityPlugin, QualityResult
from pydantic import BaseModel, ConfigDict, Field


class RowCountSettings(BaseModel):
    """Configuration of the plugin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_least: int = Field(default=1, ge=0, description="Minimum number of rows in the table.")


class RowCountPlugin(QualityPlugin):
    """Checks that a table has a minimum number of rows."""

    name = "row-count"
    version = "0.1.0"
    floe_api_version = "1.0"
    description = "Checks the number of rows of a table"

    def __init__(self) -> None:
        """Create a plugin with default settings."""
        self._settings = RowCountSettings()

    def get_config_schema(self) -> type[RowCountSettings]:
        """Return the configuration model."""
        return RowCountSettings

    def configure(self, config: BaseModel) -> None:
        """Apply the validated configuration."""
        self._settings = RowCountSettings.model_validate(config.model_dump())

    def judge(self, rows: int) -> bool:
        """Whether a table with this many rows passes."""
        return rows >= self._settings.at_least

    def check(self, data: CheckedData) -> QualityResult:
        """Count the rows."""
        rows = sum(batch.num_rows for batch in data.batches())
        return QualityResult(self.judge(rows), {"num_rows": rows, "at_least": self._settings.at_least})
