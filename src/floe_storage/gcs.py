"""Google Cloud Storage: the ``gcs`` storage plugin, and the object store."""

from __future__ import annotations

from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floe_core.errors import MissingDependencyError
from floe_core.plugins.object_store import StoredObject, folder_prefix
from floe_core.runtime.spark_packages import ICEBERG_GCP_BUNDLE
from floe_storage.store_errors import RETRY_SECONDS, store_error
from floe_storage.warehouse import (
    FSSPEC_FILE_IO,
    PYARROW_FILE_IO,
    WarehousePlugin,
    bucket_path,
    bucket_problems,
    problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from floe_core.errors import ConfigProblem
    from floe_core.plugins.object_store import ObjectStore
    from floe_core.schemas import StorageConfig
    from floe_core.secrets import SecretReference
    from floe_storage.opening import StoreLocation

SCHEMES = frozenset({"gs", "gcs"})
# PyArrow requires an expiry time with a token. The server decides when the token expires.
NO_KNOWN_EXPIRY = "4102444800000"
ANONYMOUS = "anon"
# The client requires a project even for requests that are not billed.
_NO_PROJECT = "floe"
_TIMEOUT = (5, 60)


class GcsStoragePlugin(WarehousePlugin):
    """Stores files in a bucket of Google Cloud Storage; with ``storage.endpoint``, of an emulator."""

    @property
    def name(self) -> str:
        """``gcs``."""
        return "gcs"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "Google Cloud Storage"

    def _problems(self, config: StorageConfig, project_root: Path) -> list[ConfigProblem]:
        found = bucket_problems(config, kind="bucket")
        key_file = config.credentials.service_account_file
        if key_file and config.credentials.token:
            text = "both a token and a service account file are set"
            found.append(problem("credentials", text, "Keep one of them."))
        if key_file and not (project_root / Path(key_file).expanduser()).is_file():
            text = f"the service account file {key_file} does not exist"
            found.append(problem("credentials.service_account_file", text, "Set it to the path of the JSON key file."))
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
            # Only gcsfs supports key files and anonymous access. PyArrow would look for a metadata server.
            if find_spec("gcsfs") is None:
                what = "A service account file or an emulator of GCS"
                raise MissingDependencyError(what, extra="gcs")
            settings |= {"py-io-impl": FSSPEC_FILE_IO, "gcs.oauth2.token": self._key_file or ANONYMOUS}
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
        """Return the Spark configuration for this store.

        Iceberg's ``GCSFileIO`` has no property for a key file. Executors get it in their environment; start the driver
        with ``GOOGLE_APPLICATION_CREDENTIALS``.
        """
        conf = super().get_spark_conf(catalog_name)
        if self._key_file:
            conf["spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS"] = self._key_file
        return conf

    def get_spark_packages(self) -> tuple[str, ...]:
        """Return Iceberg's Google Cloud bundle."""
        return (ICEBERG_GCP_BUNDLE,)


class GoogleObjectStore:
    """Objects of a Google Cloud Storage bucket; uses Google's client, because emulators reject obstore's writes."""

    def __init__(self, bucket: Any, *, path: str = "", retry: Any = None) -> None:  # noqa: ANN401 - google.cloud.storage is untyped
        """Wrap one of Google's buckets; keys are relative to ``path``."""
        self._bucket = bucket
        self._root = folder_prefix(path)
        self._limits: dict[str, Any] = {"timeout": _TIMEOUT, "retry": retry}

    def create(self, key: str, content: bytes) -> bool:
        """Write an object that does not exist yet."""
        options = {"content_type": "application/json", "if_generation_match": 0, **self._limits}
        try:
            self._blob(key).upload_from_string(content, **options)
        except Exception as err:
            if _status(err) == HTTPStatus.PRECONDITION_FAILED:
                return False
            raise store_error(err, "write", key) from err
        return True

    def read(self, key: str) -> bytes | None:
        """Return an object's content, None if it does not exist."""
        try:
            content: bytes = self._blob(key).download_as_bytes(**self._limits)
        except Exception as err:
            if _status(err) == HTTPStatus.NOT_FOUND:
                return None
            raise store_error(err, "read", key) from err
        return content

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """List every object below a prefix."""
        try:
            for blob in self._bucket.list_blobs(prefix=self._root + folder_prefix(prefix), **self._limits):
                yield StoredObject(blob.name.removeprefix(self._root), blob.size, blob.updated)
        except Exception as err:
            raise store_error(err, "list", prefix) from err

    def delete(self, keys: Iterable[str]) -> int:
        """Delete objects, one per request."""
        count = 0
        for key in keys:
            try:
                self._blob(key).delete(**self._limits)
            except Exception as err:
                if _status(err) != HTTPStatus.NOT_FOUND:
                    raise store_error(err, "delete", key) from err
            count += 1
        return count

    def _blob(self, key: str) -> Any:  # noqa: ANN401 - google.cloud.storage is untyped
        return self._bucket.blob(self._root + key)


def _status(err: Exception) -> int | None:
    # Naming the exception types would require importing Google's client, which is an optional dependency.
    return getattr(err, "code", None)


def open_store(location: StoreLocation, properties: Mapping[str, str]) -> ObjectStore:
    """Open a location in a bucket with PyIceberg's ``gcs.…`` properties."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage
    from google.cloud.storage.retry import DEFAULT_RETRY
    from google.oauth2 import service_account
    from google.oauth2.credentials import Credentials

    token, endpoint = properties.get("gcs.oauth2.token"), properties.get("gcs.service.host")
    settings: dict[str, Any] = {"project": properties.get("gcs.project-id")}
    if endpoint:
        settings["client_options"] = {"api_endpoint": endpoint}
    if token == ANONYMOUS:
        settings |= {"credentials": AnonymousCredentials(), "project": settings["project"] or _NO_PROJECT}  # type: ignore[no-untyped-call]
    elif token and Path(token).is_file():
        # gcsfs accepts the path of a service account's key file instead of a token.
        settings["credentials"] = service_account.Credentials.from_service_account_file(token)  # type: ignore[no-untyped-call]
    elif token:
        settings |= {"credentials": Credentials(token), "project": settings["project"] or _NO_PROJECT}  # type: ignore[no-untyped-call]
    bucket = storage.Client(**settings).bucket(location.container)
    return GoogleObjectStore(bucket, path=location.path, retry=DEFAULT_RETRY.with_timeout(RETRY_SECONDS))
