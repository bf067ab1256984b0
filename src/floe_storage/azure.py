"""Azure Data Lake Storage and Blob Storage: the ``azure`` storage plugin, and the object store."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from floe_core.errors import CapabilityError, ConfigurationError, MissingDependencyError
from floe_core.runtime.spark_packages import ICEBERG_AZURE_BUNDLE
from floe_storage.warehouse import FSSPEC_FILE_IO, WarehousePlugin, bucket_problems, problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from floe_core.errors import ConfigProblem
    from floe_core.plugins.object_store import ObjectStore
    from floe_core.schemas import StorageConfig
    from floe_core.secrets import SecretReference
    from floe_storage.opening import StoreLocation

SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})
ADLS_HOST = "dfs.core.windows.net"
SPARK_ACCOUNT_KEY = "adls.auth.shared-key.account.key"
_KEY_IN_STRING = "AccountKey="
_KEY_HINT = "Use a connection string with AccountKey=…, or the account key itself."


class AzureStoragePlugin(WarehousePlugin):
    """Stores files in a container of an Azure storage account."""

    @property
    def name(self) -> str:
        """``azure``."""
        return "azure"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "Azure Data Lake Storage and Blob Storage"

    def _problems(self, config: StorageConfig, project_root: Path) -> list[ConfigProblem]:
        del project_root
        found = bucket_problems(config, kind="container")
        credentials = config.credentials
        if not credentials.account_name:
            text = "azure storage needs an account name"
            found.append(problem("credentials.account_name", text, "Set it to the account's name."))
        if credentials.account_key and credentials.connection_string:
            text = "both an account key and a connection string are set"
            found.append(problem("credentials", text, "Keep one of them."))
        if config.endpoint and not credentials.connection_string:
            text = "an endpoint is set without a connection string"
            fix = "Refer to a connection string with BlobEndpoint=…, which sets the endpoint."
            found.append(problem("credentials.connection_string", text, fix))
        return found

    def _root_uri(self) -> str:
        config = self.config
        host = f"{config.credentials.account_name}.{ADLS_HOST}"
        return "/".join([f"abfss://{config.bucket}@{host}", config.prefix.strip("/")]).rstrip("/")

    def _file_io(self) -> dict[str, str]:
        if find_spec("adlfs") is None:
            what = "Azure storage"
            raise MissingDependencyError(what, extra="azure")
        settings = {
            "py-io-impl": FSSPEC_FILE_IO,
            "adls.account-name": self.config.credentials.account_name,
        }
        return {key: value for key, value in settings.items() if value}

    def _secrets(self) -> dict[str, SecretReference]:
        credentials = self.config.credentials
        references = {
            "adls.account-key": credentials.account_key,
            "adls.connection-string": credentials.connection_string,
        }
        return {key: reference for key, reference in references.items() if reference}

    def _spark(self) -> dict[str, str]:
        config = self.config
        settings = {"io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO"}
        if config.endpoint:
            # Despite its name, Iceberg for Java reads an endpoint from this property.
            settings[f"adls.connection-string.{config.credentials.account_name}.{ADLS_HOST}"] = config.endpoint
        if config.credentials.account_key or config.credentials.connection_string:
            settings["adls.auth.shared-key.account.name"] = str(config.credentials.account_name)
        return settings

    def _spark_secrets(self) -> dict[str, SecretReference]:
        key = self.config.credentials.account_key
        return {SPARK_ACCOUNT_KEY: key} if key else {}

    def get_spark_conf(self, catalog_name: str) -> dict[str, str]:
        """Return the Spark configuration for this store; the account key is extracted from a connection string."""
        conf = super().get_spark_conf(catalog_name)
        if reference := self.config.credentials.connection_string:
            key = reference.resolve().get_secret_value().partition(_KEY_IN_STRING)[2].partition(";")[0]
            if not key:
                where = problem("credentials.connection_string", f"{reference} has no account key", _KEY_HINT)
                msg = "Spark cannot use this connection string."
                raise ConfigurationError(msg, problems=[where])
            conf[f"spark.sql.catalog.{catalog_name}.{SPARK_ACCOUNT_KEY}"] = key
        return conf

    def get_dbt_profile_config(self) -> dict[str, Any]:
        """Return an output for dbt-spark; dbt reads the account key from the environment when it runs."""
        profile = super().get_dbt_profile_config()
        if reference := self.config.credentials.connection_string:
            part = f"env_var('{reference.variable}').split('{_KEY_IN_STRING}')[1].split(';')[0]"
            profile["server_side_parameters"][f"{self._dbt_catalog}.{SPARK_ACCOUNT_KEY}"] = f"{{{{ {part} }}}}"
        return profile

    def get_spark_packages(self) -> tuple[str, ...]:
        """Return Iceberg's Azure bundle; if a mirror does not have it, put the jar in ``compute.jars_dir``."""
        return (ICEBERG_AZURE_BUNDLE,)


def open_store(location: StoreLocation, properties: Mapping[str, str]) -> ObjectStore:
    """Open a location in a container with PyIceberg's ``adls.…`` properties; a connection string contains them all.

    Raises:
        CapabilityError: The properties are for another storage account than the location.
    """
    from obstore.store import AzureStore

    from floe_storage.obstore_store import RETRIES, ObstoreObjectStore, client_options

    pairs = [part.partition("=") for part in properties.get("adls.connection-string", "").split(";")]
    given = {name.lower(): value for name, _, value in pairs}
    account = given.get("accountname") or properties.get("adls.account-name")
    if account and location.account and account.lower() != location.account.lower():
        msg = f"The location is in the storage account '{location.account}', but the credentials are for '{account}'."
        raise CapabilityError(msg, hint="Use a location in that account, or the credentials of the other one.")
    settings: dict[str, Any] = {
        "prefix": location.path,
        "endpoint": given.get("blobendpoint"),
        "account_name": account or location.account,
        "account_key": given.get("accountkey") or properties.get("adls.account-key"),
        "sas_key": given.get("sharedaccesssignature") or properties.get("adls.sas-token"),
        "tenant_id": properties.get("adls.tenant-id"),
        "client_id": properties.get("adls.client-id"),
        "client_secret": properties.get("adls.client-secret"),
    }
    known = {key: value for key, value in settings.items() if value}
    options = client_options(known.get("endpoint"))
    return ObstoreObjectStore(AzureStore(location.container, client_options=options, retry_config=RETRIES, **known))
