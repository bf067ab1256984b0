"""The compute plugin ``duckdb``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_core.errors import CapabilityError
from floe_core.plugins import ComputePlugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from floe_core.schemas import ComputeConfig

    from floe_duckdb.plane import DuckDBPlane


class DuckDBComputePlugin(ComputePlugin):
    """DuckDB in this process, for data that fits into the memory of one machine."""

    name = "duckdb"
    version = "0.1.0"
    floe_api_version = "1.0"
    description = "DuckDB in this process, without Java"

    @property
    def sql_dialect(self) -> str:
        """The dialect of conditions and SQL models."""
        return "duckdb"

    def reason_of(self, kind: str, message: str) -> str | None:
        """Return DuckDB's error message without the excerpt of the query."""
        from floe_duckdb.sql import reason

        return reason(message) if kind.startswith(("duckdb.", "_duckdb.")) else None

    def data_plane(  # noqa: PLR0913 - the contract of compute plugins
        self,
        config: ComputeConfig,
        *,
        catalog_name: str,
        conf: Mapping[str, str],
        packages: Sequence[str] = (),
        project_root: Path,
        catalog: Any = None,  # noqa: ANN401 - a pyiceberg Catalog, as the contract says
    ) -> DuckDBPlane:
        """Return a data plane that reads and writes through the connected catalog.

        Args:
            config: The ``compute`` section; its ``conf`` contains DuckDB settings such as ``memory_limit``.
            catalog_name: Name of the catalog, for messages.
            conf: Unused; for engines with their own catalog client.
            packages: Unused, like ``conf``.
            project_root: Unused.
            catalog: The connected catalog.

        Raises:
            CapabilityError: No catalog was passed.
        """
        del conf, packages, project_root
        from floe_duckdb.plane import DuckDBPlane

        if catalog is None:
            msg = f"DuckDB needs the connected catalog to read catalog '{catalog_name}'."
            raise CapabilityError(msg, hint="Pass catalog=, or open the catalog with a project.")
        return DuckDBPlane(catalog, settings=config.conf)
