"""The ``row-count`` quality plugin: how few rows are too few."""

from __future__ import annotations

from floe_core.plugins import CheckedData, QualityPlugin, QualityResult
from pydantic import BaseModel, ConfigDict, Field


class RowCountSettings(BaseModel):
    """Configuration of the plugin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_least: int = Field(default=1, ge=0, description="Fewest rows a table may have.")


class RowCountPlugin(QualityPlugin):
    """Judges a table by its number of rows."""

    name = "row-count"
    version = "0.1.0"
    floe_api_version = "1.0"
    description = "Judges a table by its number of rows"

    def __init__(self) -> None:
        """Start with the defaults."""
        self._settings = RowCountSettings()

    def get_config_schema(self) -> type[RowCountSettings]:
        """Return the model of the configuration."""
        return RowCountSettings

    def configure(self, config: BaseModel) -> None:
        """Take the validated configuration."""
        self._settings = RowCountSettings.model_validate(config.model_dump())

    def judge(self, rows: int) -> bool:
        """Whether a table of that many rows is good enough."""
        return rows >= self._settings.at_least

    def check(self, data: CheckedData) -> QualityResult:
        """Count the rows."""
        rows = sum(batch.num_rows for batch in data.batches())
        return QualityResult(self.judge(rows), {"num_rows": rows, "at_least": self._settings.at_least})
