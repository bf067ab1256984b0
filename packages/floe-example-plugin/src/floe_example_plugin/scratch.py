"""The ``scratch`` storage plugin: stores tables for experiments in the system's temporary directory."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floe_core.errors import ConfigurationError
from floe_core.plugins import FileIO, StoragePlugin
from pydantic import BaseModel, ConfigDict, Field
from pyiceberg.io import load_file_io

if TYPE_CHECKING:
    from floe_core.schemas import StorageConfig


class ScratchSettings(BaseModel):
    """Configuration of the plugin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    clean_up: bool = Field(default=False, description="Delete all files when the plugin shuts down.")


class ScratchStoragePlugin(StoragePlugin):
    """Stores each project's files in a separate folder in the temporary directory."""

    name = "scratch"
    version = "0.1.0"
    floe_api_version = "1.0"
    description = "Temporary storage for experiments"

    def __init__(self) -> None:
        """Create an unbound plugin."""
        self._settings = ScratchSettings()
        self._folder: Path | None = None

    def get_config_schema(self) -> type[ScratchSettings]:
        """Return the configuration model."""
        return ScratchSettings

    def configure(self, config: BaseModel) -> None:
        """Apply the validated configuration."""
        self._settings = ScratchSettings.model_validate(config.model_dump())

    def shutdown(self) -> None:
        """Delete the files if configured."""
        if self._settings.clean_up and self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def bind(self, config: StorageConfig, *, project_root: Path) -> None:
        """Choose the project's folder; the same project always gets the same folder."""
        del config
        project = hashlib.sha256(str(project_root.resolve()).encode()).hexdigest()[:16]
        self._folder = Path(tempfile.gettempdir()).resolve() / "floe-scratch" / project

    @property
    def folder(self) -> Path:
        """Folder of the project's files.

        Raises:
            ConfigurationError: ``bind`` has not been called yet.
        """
        if self._folder is None:
            msg = "The storage plugin 'scratch' is not configured yet."
            raise ConfigurationError(msg, hint="Call bind() first.")
        return self._folder

    def get_pyiceberg_fileio(self) -> FileIO:
        """Return PyIceberg's client for local files."""
        return load_file_io(self.get_file_io_properties(), self.get_warehouse_uri())

    def get_warehouse_uri(self, namespace: str | None = None) -> str:
        """Return the URI of the folder, or of a namespace in it."""
        uri = f"file://{self.folder.as_posix()}"
        return "/".join([uri, *namespace.split(".")]) if namespace else uri

    def get_file_io_properties(self) -> dict[str, str]:
        """Return PyIceberg's properties; a local folder needs no secrets."""
        return {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"} if self.folder else {}

    def get_dbt_profile_config(self) -> dict[str, Any]:
        """Return a dbt-spark output."""
        parameters = {"spark.sql.catalog.floe.warehouse": self.get_warehouse_uri()}
        return {"type": "spark", "method": "session", "host": "localhost", "server_side_parameters": parameters}

    def get_dagster_io_manager_config(self) -> dict[str, Any]:
        """Return the storage part of the IO manager's configuration."""
        return {"catalog_properties": self.get_file_io_properties()}

    def get_helm_values_override(self) -> dict[str, Any]:
        """Return an empty dict: no server is needed."""
        return {}
