"""The ``gcs`` storage plugin: Google Cloud Storage."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.errors import MissingDependencyError
from floe_core.runtime.spark_packages import ICEBERG_GCP_BUNDLE
from floe_storage.warehouse import (
    FSSPEC_FILE_IO,
    PYARROW_FILE_IO,
    WarehousePlugin,
    bucket_path,
    bucket_problems,
    problem,
)

if TYPE_CHECKING:
    from floe_core.errors import ConfigProblem
    from floe_core.schemas import StorageConfig
    from floe_core.secrets import SecretReference

# PyArrow refuses a token without a time of expiry; the server decides anyway.
NO_KNOWN_EXPIRY = "4102444800000"


class GcsStoragePlugin(WarehousePlugin):
    """Keeps files in a bucket of Google Cloud Storage; with ``storage.endpoint`` in an emulated one."""

    @property
    def name(self) -> str:
        """``gcs``."""
        return "gcs"

    @property
    def description(self) -> str:
        """One line for people."""
        return "Google Cloud Storage"

    def _problems(self, config: StorageConfig, project_root: Path) -> list[ConfigProblem]:
        found = bucket_problems(config, kind="bucket")
        key_file = config.credentials.service_account_file
        if key_file and config.credentials.token:
            text = "both a token and a service account file"
            found.append(problem("credentials", text, "Keep one of them."))
        if key_file and not (project_root / Path(key_file).expanduser()).is_file():
            text = f"the service account file {key_file} does not exist"
            found.append(problem("credentials.service_account_file", text, "Write the path of the JSON key file."))
        return found

    def _root_uri(self) -> str:
        return f"gs://{bucket_path(self.config)}"

    @property
    def _key_file(self) -> str | None:
        path = self.config.credentials.service_account_file
        return str(self._project_root / Path(path).expanduser()) if path else None

    def _file_io(self) -> dict[str, str]:
        config = self.config
        settings = {
            "py-io-impl": PYARROW_FILE_IO,
            "gcs.project-id": config.project,
            "gcs.default-bucket-location": config.region,
            "gcs.service.host": config.endpoint,
        }
        if config.credentials.token:
            settings["gcs.oauth2.token-expires-at"] = NO_KNOWN_EXPIRY
        elif self._key_file or config.endpoint:
            # Only gcsfs reads a key file or can be told to stay anonymous; PyArrow would look for a metadata server.
            if find_spec("gcsfs") is None:
                what = "A service account file or an emulated store on GCS"
                raise MissingDependencyError(what, extra="gcs")
            settings |= {"py-io-impl": FSSPEC_FILE_IO, "gcs.oauth2.token": self._key_file or "anon"}
        return {key: value for key, value in settings.items() if value}

    def _secrets(self) -> dict[str, SecretReference]:
        token = self.config.credentials.token
        return {"gcs.oauth2.token": token} if token else {}

    def _spark(self) -> dict[str, str]:
        config = self.config
        settings = {
            "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
            "gcs.project-id": config.project,
            "gcs.service.host": config.endpoint,
            "gcs.oauth2.token-expires-at": NO_KNOWN_EXPIRY if config.credentials.token else None,
            "gcs.no-auth": "true" if config.endpoint and not (config.credentials.token or self._key_file) else None,
        }
        return {key: value for key, value in settings.items() if value}

    def get_spark_conf(self, catalog_name: str) -> dict[str, str]:
        """Return the Spark configuration that reaches this store.

        Iceberg's ``GCSFileIO`` has no property for a key file: executors get it in their environment, and the driver
        must be started with ``GOOGLE_APPLICATION_CREDENTIALS``.
        """
        conf = super().get_spark_conf(catalog_name)
        if self._key_file:
            conf["spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS"] = self._key_file
        return conf

    def get_spark_packages(self) -> tuple[str, ...]:
        """Return Iceberg's Google Cloud bundle."""
        return (ICEBERG_GCP_BUNDLE,)
