"""The base class of all storage plugins: a bound ``storage`` section and its configuration for other components."""

from __future__ import annotations

import re
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floe_core.errors import ConfigProblem, ConfigurationError
from floe_core.plugins import BuiltInPlugin, StoragePlugin
from floe_core.schemas import CatalogConfig, StorageConfig

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pyiceberg.io import FileIO

    from floe_core.plugins.object_store import ObjectStore
    from floe_core.secrets import SecretReference

_BUCKET_NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$")

PYARROW_FILE_IO = "pyiceberg.io.pyarrow.PyArrowFileIO"
FSSPEC_FILE_IO = "pyiceberg.io.fsspec.FsspecFileIO"


class WarehousePlugin(BuiltInPlugin, StoragePlugin):
    """Base class of floe's storage plugins: one warehouse below one root.

    A subclass defines the root, the properties that PyIceberg and Spark need to access it, and which are secret.
    """

    def __init__(self) -> None:
        """Start unbound."""
        self._config: StorageConfig | None = None
        self._project_root = Path()

    def __repr__(self) -> str:
        """Return the warehouse without credentials."""
        location = self.get_warehouse_uri() if self._config is not None else "unbound"
        return f"{type(self).__name__}({location})"

    @property
    def config(self) -> StorageConfig:
        """The bound section.

        Raises:
            ConfigurationError: ``bind`` has not been called yet.
        """
        if self._config is None:
            msg = f"The storage plugin '{self.name}' is not configured."
            hint = "Configure it with registry.configure(…) or bind(…), or open the project with open_project()."
            raise ConfigurationError(msg, hint=hint)
        return self._config

    def get_config_schema(self) -> type[StorageConfig]:
        """Return the model of the ``storage`` section."""
        return StorageConfig

    def configure(self, config: BaseModel) -> None:
        """Accept the ``storage`` section; paths are relative to the working directory."""
        self.bind(StorageConfig.model_validate(config), project_root=Path.cwd())

    def bind(self, config: StorageConfig, *, project_root: Path) -> None:
        """Accept the ``storage`` section.

        Raises:
            ConfigurationError: The section is invalid for this store; every problem is listed.
        """
        if problems := self._problems(config, project_root):
            msg = f"Invalid storage section for '{self.name}'."
            raise ConfigurationError(msg, problems=problems)
        self._config = config
        self._project_root = project_root

    def _problems(self, config: StorageConfig, project_root: Path) -> list[ConfigProblem]:
        """List the problems of the section."""
        del config, project_root
        return []

    @property
    def _dbt_catalog(self) -> str:
        return f"spark.sql.catalog.{CatalogConfig().name}"

    @abstractmethod
    def _root_uri(self) -> str:
        """Return the warehouse's URI without a trailing slash."""

    @abstractmethod
    def _file_io(self) -> dict[str, str]:
        """Return PyIceberg's properties for this store, without secrets."""

    @abstractmethod
    def _spark(self) -> dict[str, str]:
        """Return the Spark catalog properties for this store, without secrets."""

    def _secrets(self) -> dict[str, SecretReference]:
        """Return the references of PyIceberg's secret properties, by property."""
        return {}

    def _spark_secrets(self) -> dict[str, SecretReference]:
        """Return the references of Spark's secret properties, by property."""
        return self._secrets()

    def get_warehouse_uri(self, namespace: str | None = None) -> str:
        """Return the warehouse's URI, or that of a namespace in it, without a trailing slash."""
        root = self._root_uri().rstrip("/")
        return "/".join([root, *namespace.split(".")]) if namespace else root

    def get_file_io_properties(self) -> dict[str, str]:
        """Return PyIceberg file properties with resolved secrets: never log or store them."""
        return {**self._file_io(), **_resolved(self._secrets()), **self.config.options}

    def get_pyiceberg_fileio(self) -> FileIO:
        """Return a PyIceberg FileIO for reading and writing data."""
        from pyiceberg.io import load_file_io

        return load_file_io(self.get_file_io_properties(), self.get_warehouse_uri())

    def object_store(self, location: str | None = None) -> ObjectStore:
        """Open the object store of a location, by default the warehouse; keys are relative to it.

        Raises:
            MissingDependencyError: The store's client is not installed.
        """
        from floe_storage.opening import open_store

        return open_store(location or self.get_warehouse_uri(), self.get_file_io_properties())

    def get_spark_conf(self, catalog_name: str) -> dict[str, str]:
        """Return the Spark configuration for this store."""
        properties = {**self._spark(), **_resolved(self._spark_secrets())}
        return {f"spark.sql.catalog.{catalog_name}.{key}": value for key, value in properties.items()}

    def get_dbt_profile_config(self) -> dict[str, Any]:
        """Return an output for dbt-spark; secrets appear as ``env_var`` calls."""
        secrets = {key: f"{{{{ env_var('{ref.variable}') }}}}" for key, ref in self._spark_secrets().items()}
        properties = {"warehouse": self.get_warehouse_uri(), **self._spark(), **secrets}
        parameters = {f"{self._dbt_catalog}.{key}": value for key, value in properties.items()}
        if packages := self.get_spark_packages():
            parameters["spark.jars.packages"] = ",".join(packages)
        return {
            "type": "spark",
            "method": "session",
            "host": "localhost",
            "schema": "default",
            "threads": 1,
            "server_side_parameters": parameters,
        }

    def get_dagster_io_manager_config(self) -> dict[str, Any]:
        """Return the storage part of ``IcebergIOManager``'s fields; secrets as Dagster's ``{"env": …}``."""
        secrets = {key: {"env": reference.variable} for key, reference in self._secrets().items()}
        return {"catalog_properties": {**self._file_io(), **secrets, **self.config.options}}

    def get_helm_values_override(self) -> dict[str, Any]:
        """Return nothing: there is no server to deploy."""
        return {}


def problem(path: str, message: str, fix: str) -> ConfigProblem:
    """Describe a setting of the ``storage`` section that is missing or invalid."""
    return ConfigProblem(message, path=f"storage.{path}", fix=fix)


def _resolved(references: dict[str, SecretReference]) -> dict[str, str]:
    return {key: reference.resolve().get_secret_value() for key, reference in references.items()}


def bucket_path(config: StorageConfig) -> str:
    """Return ``bucket/prefix``, or the bucket alone if there is no prefix."""
    return "/".join([str(config.bucket), config.prefix.strip("/")]).rstrip("/")


def bucket_problems(config: StorageConfig, *, kind: str) -> list[ConfigProblem]:
    """List the problems of the bucket and prefix."""
    found: list[ConfigProblem] = []
    if not config.bucket:
        found.append(problem("bucket", f"no {kind} is set", f"Set it to the {kind}'s name."))
    elif not _BUCKET_NAME.match(config.bucket):
        text = f"'{config.bucket}' is not a valid {kind} name"
        found.append(problem("bucket", text, "Use 3 to 63 lowercase letters, digits, dots, - and _, without a path."))
    if any(part in {"", ".", ".."} for part in config.prefix.strip("/").split("/")) and config.prefix.strip("/"):
        text = f"'{config.prefix}' is not a valid path in a {kind}"
        found.append(problem("prefix", text, "Use parts separated by single slashes, such as lake/warehouse."))
    return found
