"""Compute plugins: the engine of the data plane."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from floe_core.plugins.metadata import PluginMetadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from floe_core.dataplane import DataPlane
    from floe_core.schemas import ComputeConfig


class ComputePlugin(PluginMetadata):
    """Opens an engine that reads and writes a catalog's tables."""

    @abstractmethod
    def data_plane(
        self,
        config: ComputeConfig,
        *,
        catalog_name: str,
        conf: Mapping[str, str],
        packages: Sequence[str] = (),
        project_root: Path,
    ) -> DataPlane:
        """Return a data plane that sees the catalog under ``catalog_name``.

        Args:
            config: The ``compute`` section.
            catalog_name: Name of the catalog inside the engine.
            conf: What catalog and storage plugins ask the engine to be configured with; holds secrets.
            packages: Maven packages those plugins need.
            project_root: Where relative paths start.
        """
