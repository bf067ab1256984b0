"""DuckDB as a compute engine of floe."""

from floe_duckdb.plane import DuckDBPlane
from floe_duckdb.plugin import DuckDBComputePlugin

__all__ = ["DuckDBComputePlugin", "DuckDBPlane"]
