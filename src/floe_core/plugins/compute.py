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
        """The dialect of the engine's SQL, by sqlglot's name; conditions of checks and SQL models are written in it."""
        return ""

    def reason_of(self, kind: str, message: str) -> str | None:  # noqa: ARG002 - for those who know their errors
        """Return the part of an error's message that says what happened; None when the error is not the engine's.

        Args:
            kind: Full name of the error's class; the error itself may be of another process.
            message: What it says.
        """
        return None

    @abstractmethod
    def data_plane(  # noqa: PLR0913 - keyword-only, and plugins give them by name
        self,
        config: ComputeConfig,
        *,
        catalog_name: str,
        conf: Mapping[str, str],
        packages: Sequence[str] = (),
        project_root: Path,
        catalog: Any = None,  # noqa: ANN401 - a pyiceberg Catalog, which floe_core does not import
    ) -> DataPlane:
        """Return a data plane that sees the catalog under ``catalog_name``.

        Args:
            config: The ``compute`` section.
            catalog_name: Name of the catalog inside the engine.
            conf: What catalog and storage plugins ask the engine to be configured with; holds secrets.
            packages: Maven packages those plugins need.
            project_root: Where relative paths start.
            catalog: The connected catalog, for engines that work in this process; its properties hold secrets.
        """
