"""The ``local`` storage plugin: a folder on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from floe_storage.warehouse import PYARROW_FILE_IO, WarehousePlugin, problem

if TYPE_CHECKING:
    from floe_core.errors import ConfigProblem
    from floe_core.schemas import StorageConfig

# URIs end their path at these, and neither PyIceberg nor Hadoop decodes an escaped one.
_UNFIT_FOR_A_URI = frozenset("?#")


class LocalStoragePlugin(WarehousePlugin):
    """Keeps files in a folder, by default ``.floe/warehouse`` in the project."""

    @property
    def name(self) -> str:
        """``local``."""
        return "local"

    @property
    def description(self) -> str:
        """One line for people."""
        return "A folder on this machine"

    def _problems(self, config: StorageConfig, project_root: Path) -> list[ConfigProblem]:
        root = _folder(config, project_root)
        if found := sorted(_UNFIT_FOR_A_URI & set(str(root))):
            text = f"the folder {root} has {' and '.join(found)} in its name, which table locations cannot hold"
            return [problem("root", text, "Choose a folder without these characters.")]
        return []

    def _root_uri(self) -> str:
        # Not Path.as_uri(): PyIceberg and Hadoop take spaces and unicode as they are and do not decode escapes.
        return f"file://{_folder(self.config, self._project_root).as_posix()}"

    def _file_io(self) -> dict[str, str]:
        return {"py-io-impl": PYARROW_FILE_IO}

    def _spark(self) -> dict[str, str]:
        return {}


def _folder(config: StorageConfig, project_root: Path) -> Path:
    return (project_root / Path(config.root).expanduser()).resolve()
