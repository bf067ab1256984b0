"""How a Polaris catalog accesses its store: S3, Google Cloud Storage, Azure, or files on the server itself."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from floe_core.errors import ConfigProblem, ConfigurationError

_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class StorageInfo(BaseModel):
    """The settings common to all kinds of store.

    Attributes:
        allowed_locations: Locations where tables may be stored.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="forbid")

    storage_type: str = Field(alias="storageType")
    allowed_locations: tuple[str, ...] = Field(alias="allowedLocations")


class S3StorageInfo(StorageInfo):
    """How Polaris accesses an S3 store.

    Attributes:
        endpoint: Endpoint for clients, and for Polaris unless ``endpoint_internal`` is set.
        endpoint_internal: Endpoint for Polaris itself, such as a host name that resolves only inside containers.
        sts_endpoint: Endpoint at which Polaris requests credentials; by default its endpoint for the store.
        sts_unavailable: The store has no STS, so no credentials are vended.
        kms_unavailable: The store's STS rejects policies that mention KMS, as MinIO's does.
    """

    storage_type: str = Field(default="S3", alias="storageType")
    region: str | None = None
    endpoint: str | None = None
    endpoint_internal: str | None = Field(default=None, alias="endpointInternal")
    sts_endpoint: str | None = Field(default=None, alias="stsEndpoint")
    path_style_access: bool | None = Field(default=None, alias="pathStyleAccess")
    role_arn: str | None = Field(default=None, alias="roleArn")
    external_id: str | None = Field(default=None, alias="externalId")
    kms_unavailable: bool | None = Field(default=None, alias="kmsUnavailable")
    sts_unavailable: bool | None = Field(default=None, alias="stsUnavailable")


class GcsStorageInfo(StorageInfo):
    """How Polaris accesses Google Cloud Storage."""

    storage_type: str = Field(default="GCS", alias="storageType")
    service_account: str | None = Field(default=None, alias="gcsServiceAccount")


class AzureStorageInfo(StorageInfo):
    """How Polaris accesses Azure Data Lake Storage."""

    storage_type: str = Field(default="AZURE", alias="storageType")
    tenant_id: str = Field(alias="tenantId")
    multi_tenant_app_name: str | None = Field(default=None, alias="multiTenantAppName")
    hierarchical: bool | None = None


class FileStorageInfo(StorageInfo):
    """Files on the server's own machine, for evaluation only."""

    storage_type: str = Field(default="FILE", alias="storageType")


_BY_SCHEME: dict[str, type[StorageInfo]] = {
    "s3": S3StorageInfo,
    "s3a": S3StorageInfo,
    "gs": GcsStorageInfo,
    "abfs": AzureStorageInfo,
    "abfss": AzureStorageInfo,
    "wasb": AzureStorageInfo,
    "wasbs": AzureStorageInfo,
    "file": FileStorageInfo,
}


def storage_info(base_location: str, *, allowed: tuple[str, ...] = (), **settings: object) -> StorageInfo:
    """Return the storage settings for a location; its scheme determines the kind of store.

    Args:
        base_location: Default location of tables.
        allowed: Other locations where tables may be stored.
        settings: Settings of this kind of store, by field name; None values are ignored.

    Raises:
        ConfigurationError: The scheme is not supported, or a setting is missing or belongs to another kind of store.
    """
    scheme = urlsplit(base_location).scheme
    kind = _BY_SCHEME.get(scheme)
    if kind is None:
        msg = f"Polaris does not support the location '{base_location}'."
        raise ConfigurationError(msg, hint="Use an s3://, gs://, abfss:// or file:// location.")
    given = {name: value for name, value in settings.items() if value is not None}
    # Polaris compares prefixes: without a trailing slash, a location would also cover siblings with a longer name.
    locations = tuple(dict.fromkeys(f"{location.rstrip('/')}/" for location in (base_location, *allowed)))
    try:
        return kind.model_validate({"allowed_locations": locations, **given})
    except ValidationError as err:
        problems = [
            ConfigProblem(_problem(_setting(str(item["loc"][0])), item["type"], item["msg"], scheme))
            for item in err.errors(include_input=False, include_url=False)
        ]
        msg = f"Invalid storage settings for {scheme}:// locations."
        raise ConfigurationError(msg, problems=problems) from None


def _setting(field: str) -> str:
    return _CAMEL_HUMP.sub("_", field).lower()


def _problem(setting: str, kind: str, message: str, scheme: str) -> str:
    if kind == "extra_forbidden":
        return f"{setting} is not a setting of {scheme}:// stores"
    return f"{setting} is required" if kind == "missing" else f"{setting}: {message}"
