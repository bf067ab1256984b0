"""Amazon S3, MinIO and other stores with S3's API: the ``s3`` storage plugin, and the object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from floe_core.runtime.spark_packages import ICEBERG_AWS_BUNDLE
from floe_storage.warehouse import PYARROW_FILE_IO, WarehousePlugin, bucket_path, bucket_problems, problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from floe_core.errors import ConfigProblem
    from floe_core.plugins.object_store import ObjectStore
    from floe_core.schemas import StorageConfig
    from floe_core.secrets import SecretReference
    from floe_storage.opening import StoreLocation

SCHEMES = frozenset({"s3", "s3a", "s3n"})
# Self-hosted stores accept any region. Without one, PyArrow queries Amazon for it and waits.
SELF_HOSTED_REGION = "us-east-1"
MINIO_PORT = 9000


class S3StoragePlugin(WarehousePlugin):
    """Stores files in a bucket; with ``storage.endpoint``, of a self-hosted store."""

    @property
    def name(self) -> str:
        """``s3``."""
        return "s3"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "Amazon S3, MinIO and other stores with S3's API"

    def _problems(self, config: StorageConfig, project_root: Path) -> list[ConfigProblem]:
        del project_root
        found = bucket_problems(config, kind="bucket")
        credentials = config.credentials
        if credentials.access_key_id and not credentials.secret_access_key:
            text = "an access key id is set without a secret key"
            found.append(
                problem("credentials.secret_access_key", text, "Set it to a reference: ${AWS_SECRET_ACCESS_KEY}.")
            )
        if credentials.secret_access_key and not credentials.access_key_id:
            text = "a secret key is set without an access key id"
            found.append(problem("credentials.access_key_id", text, "Set it to the id that belongs to the secret key."))
        return found

    def _root_uri(self) -> str:
        return f"s3://{bucket_path(self.config)}"

    @property
    def _region(self) -> str | None:
        return self.config.region or (SELF_HOSTED_REGION if self.config.endpoint else None)

    def _file_io(self) -> dict[str, str]:
        config = self.config
        settings = {
            "py-io-impl": PYARROW_FILE_IO,
            "s3.endpoint": config.endpoint,
            "s3.region": self._region,
            "s3.access-key-id": config.credentials.access_key_id,
            # PyArrow's default, but not every client's.
            "s3.force-virtual-addressing": "false" if config.endpoint else None,
        }
        return {key: value for key, value in settings.items() if value}

    def _secrets(self) -> dict[str, SecretReference]:
        credentials = self.config.credentials
        references = {
            "s3.secret-access-key": credentials.secret_access_key,
            "s3.session-token": credentials.session_token,
        }
        return {key: reference for key, reference in references.items() if reference}

    def _spark(self) -> dict[str, str]:
        config = self.config
        settings = {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": config.endpoint,
            "s3.path-style-access": "true" if config.endpoint else None,
            "s3.access-key-id": config.credentials.access_key_id,
            "client.region": self._region,
        }
        return {key: value for key, value in settings.items() if value}

    def get_spark_packages(self) -> tuple[str, ...]:
        """Return Iceberg's AWS bundle."""
        return (ICEBERG_AWS_BUNDLE,)

    def get_helm_values_override(self) -> dict[str, Any]:
        """Return values for MinIO's chart if the store is self-hosted; empty for Amazon S3.

        Root user and password come from a Kubernetes secret, which the values name.
        """
        if self.config.endpoint is None:
            return {}
        return {
            "minio": {
                "enabled": True,
                "mode": "standalone",
                "existingSecret": "floe-minio",
                "buckets": [{"name": self.config.bucket, "policy": "none", "purge": False}],
                "service": {"port": str(urlsplit(self.config.endpoint).port or MINIO_PORT)},
                "persistence": {"enabled": True, "size": "50Gi"},
                "environment": {"MINIO_REGION": self._region, "MINIO_UPDATE": "off"},
            }
        }


def open_store(location: StoreLocation, properties: Mapping[str, str]) -> ObjectStore:
    """Open a location in a bucket with PyIceberg's ``s3.…`` properties."""
    from obstore.store import S3Store

    from floe_storage.obstore_store import RETRIES, ObstoreObjectStore, client_options

    settings: dict[str, Any] = {
        "prefix": location.path,
        "endpoint": properties.get("s3.endpoint"),
        "region": properties.get("s3.region") or properties.get("client.region"),
        "access_key_id": properties.get("s3.access-key-id"),
        "secret_access_key": properties.get("s3.secret-access-key"),
        "session_token": properties.get("s3.session-token"),
    }
    known = {key: value for key, value in settings.items() if value}
    if "endpoint" in known:
        known["virtual_hosted_style_request"] = False
    options = client_options(known.get("endpoint"))
    return ObstoreObjectStore(S3Store(location.container, client_options=options, retry_config=RETRIES, **known))
