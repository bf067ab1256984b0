"""Properties for catalog and object store: PyIceberg's configuration plus the caller's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.utils.config import Config

from floe_core.observing.redaction import is_secret_key, remember_secret
from floe_tenancy.config import CatalogProvider

if TYPE_CHECKING:
    from floe_tenancy.config import IcebergCatalogConfig

FSSPEC_FILE_IO = "pyiceberg.io.fsspec.FsspecFileIO"
# Self-hosted stores accept any region; without one, PyArrow makes a slow request to AWS to find it.
SELF_HOSTED_REGION = "us-east-1"


def catalog_properties(config: IcebergCatalogConfig) -> dict[str, str]:
    """Return the catalog properties, with plain-text secrets: never log or store them.

    In increasing precedence: PyIceberg's variables and file, the configuration's fields, and its ``properties``.
    """
    # Read the configuration again: PyIceberg caches it at import.
    known = Config().get_catalog_config(config.name) or {}
    properties = {key: value for key, value in known.items() if isinstance(value, str)}
    properties |= _fields(config)
    properties |= config.properties
    for key, value in properties.items():
        if is_secret_key(key):
            remember_secret(value)
    return {**_defaults(config.provider, properties), **properties}


def _fields(config: IcebergCatalogConfig) -> dict[str, str]:
    secret = config.secret_access_key.get_secret_value() if config.secret_access_key else None
    settings: dict[str, str | None] = {}
    if config.provider is CatalogProvider.S3:
        settings = {
            "s3.endpoint": config.endpoint,
            "s3.region": config.region,
            "s3.access-key-id": config.access_key_id,
            "s3.secret-access-key": secret,
        }
    elif config.provider is CatalogProvider.GCS:
        settings = {"gcs.service.host": config.endpoint, "gcs.project-id": config.project}
    elif config.provider is CatalogProvider.AZURE:
        settings = {"adls.account-name": config.access_key_id, "adls.account-key": secret}
        if config.endpoint and config.access_key_id and secret:
            settings["adls.connection-string"] = (
                f"AccountName={config.access_key_id};AccountKey={secret};BlobEndpoint={config.endpoint}"
            )
    return {key: value for key, value in settings.items() if value}


def _defaults(provider: CatalogProvider, properties: dict[str, str]) -> dict[str, str]:
    if provider is CatalogProvider.S3 and "s3.endpoint" in properties:
        return {"s3.region": SELF_HOSTED_REGION}
    if provider is CatalogProvider.GCS and "gcs.service.host" in properties:
        # An emulator needs no credentials. gcsfs supports anonymous access; PyArrow looks for a metadata server.
        anonymous = "gcs.oauth2.token" not in properties
        return {"py-io-impl": FSSPEC_FILE_IO, "gcs.oauth2.token": "anon"} if anonymous else {}
    return {}
