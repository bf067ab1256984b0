"""Storage plugins, which store files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from floe_core.errors import CapabilityError
from floe_core.plugins.metadata import PluginMetadata

if TYPE_CHECKING:
    from pathlib import Path

    from floe_core.plugins.object_store import ObjectStore
    from floe_core.schemas import StorageConfig


@runtime_checkable
class FileIO(Protocol):
    """What floe needs from a file client; PyIceberg's ``FileIO`` satisfies it."""

    def new_input(self, location: str) -> Any:  # noqa: ANN401 - PyIceberg's InputFile
        """Open a file for reading."""
        ...

    def new_output(self, location: str) -> Any:  # noqa: ANN401 - PyIceberg's OutputFile
        """Open a file for writing."""
        ...

    def delete(self, location: Any) -> None:  # noqa: ANN401 - a location or a PyIceberg file
        """Delete a file."""
        ...


class StoragePlugin(PluginMetadata):
    """A storage system and its configuration for the catalog, Spark, dbt, Dagster and Helm.

    Five methods are required. The others have defaults for a store that needs no section in floe.yaml.
    """

    def bind(self, config: StorageConfig, *, project_root: Path) -> None:
        """Accept the ``storage`` section, on which the other methods are based; ignored by default.

        Raises:
            ConfigurationError: The section is invalid for this store.
        """

    @abstractmethod
    def get_pyiceberg_fileio(self) -> FileIO:
        """Return a PyIceberg FileIO for reading and writing data."""

    @abstractmethod
    def get_warehouse_uri(self, namespace: str | None = None) -> str:
        """Return the warehouse's URI, or that of a namespace in it, without a trailing slash."""

    @abstractmethod
    def get_dbt_profile_config(self) -> dict[str, Any]:
        """Return an output for dbt's profiles.yml; secrets appear as ``env_var`` calls."""

    @abstractmethod
    def get_dagster_io_manager_config(self) -> dict[str, Any]:
        """Return the storage part of the IO manager's configuration, without secrets.

        Pass it as ``IcebergIOManager(catalog_uri=…, warehouse=…, **config)``; a secret is ``{"env": "VARIABLE"}``.
        """

    @abstractmethod
    def get_helm_values_override(self) -> dict[str, Any]:
        """Return Helm values for a self-hosted store; empty for a managed one."""

    def get_file_io_properties(self) -> dict[str, str]:
        """Return PyIceberg file properties with resolved secrets: never log or store them.

        By default, those of ``get_pyiceberg_fileio()``, with its class.
        """
        file_io = self.get_pyiceberg_fileio()
        properties = getattr(file_io, "properties", None)
        if not isinstance(properties, Mapping):
            return {}
        kind = type(file_io)
        # A class inside a function cannot be imported by its name.
        named = {} if "<locals>" in kind.__qualname__ else {"py-io-impl": f"{kind.__module__}.{kind.__qualname__}"}
        return {**named, **properties}

    def object_store(self, location: str | None = None) -> ObjectStore:
        """Open the object store of a location, by default the warehouse; keys are relative to it.

        Raises:
            CapabilityError: The plugin does not support object stores (the default).
        """
        del location
        msg = f"The storage plugin '{self.name}' does not support object stores."
        raise CapabilityError(msg, hint="Implement object_store() in the plugin.")

    def get_spark_conf(self, catalog_name: str) -> dict[str, str]:
        """Return the Spark configuration for this store; empty if Spark needs none."""
        del catalog_name
        return {}

    def get_spark_packages(self) -> tuple[str, ...]:
        """Return the Maven packages Spark needs for this store."""
        return ()
