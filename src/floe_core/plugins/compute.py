"""Compute plugins: the engine of the data plane."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from floe_core.plugins.metadata import PluginMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from floe_core.dataplane import DataPlane
    from floe_core.schemas import ComputeConfig


class ComputePlugin(PluginMetadata):
    """Opens an engine that reads and writes a catalog's tables."""

    @property
    def sql_dialect(self) -> str:
        """The engine's SQL dialect, as named by sqlglot, for SQL models and conditions in checks."""
        return ""

    def reason_of(self, kind: str, message: str) -> str | None:  # noqa: ARG002 - for overrides
        """Return the part of an error message that explains the failure; None if the error is not from this engine.

        Args:
            kind: Full name of the error's class; the error may come from another process.
            message: The error's message.
        """
        return None

    @abstractmethod
    def data_plane(  # noqa: PLR0913 - keyword-only
        self,
        config: ComputeConfig,
        *,
        catalog_name: str,
        conf: Mapping[str, str],
        packages: Sequence[str] = (),
        project_root: Path,
        catalog: Any = None,  # noqa: ANN401 - a pyiceberg Catalog, which floe_core does not import
    ) -> DataPlane:
        """Return a data plane for a catalog.

        Args:
            config: The ``compute`` section.
            catalog_name: Name of the catalog in the engine.
            conf: Engine configuration from the catalog and storage plugins; contains secrets.
            packages: Maven packages that those plugins need.
            project_root: Base of relative paths.
            catalog: The connected catalog, for engines that run in this process; its properties contain secrets.
        """
