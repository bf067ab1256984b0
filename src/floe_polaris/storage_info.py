"""How a Polaris catalog reaches its store: S3, Google Cloud Storage, Azure, or files of the server's own machine."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from floe_core.errors import ConfigProblem, ConfigurationError

_CAMEL_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class StorageInfo(BaseModel):
    """What every kind of store has.

    Attributes:
        allowed_locations: Where tables may lie.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="forbid")

    storage_type: str = Field(alias="storageType")
    allowed_locations: tuple[str, ...] = Field(alias="allowedLocations")


class S3StorageInfo(StorageInfo):
    """How Polaris reaches an S3 store.

    Attributes:
        endpoint: Where clients reach it, and Polaris too unless ``endpoint_internal`` says otherwise.
        endpoint_internal: Where Polaris itself reaches it, such as by a name that only containers know.
        sts_endpoint: Where Polaris asks for credentials; its own endpoint for the store by default.
        sts_unavailable: The store has no STS: nothing is vended.
        kms_unavailable: The store's STS refuses policies that speak of KMS, as MinIO's does.
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
    """How Polaris reaches Google Cloud Storage."""

    storage_type: str = Field(default="GCS", alias="storageType")
    service_account: str | None = Field(default=None, alias="gcsServiceAccount")


class AzureStorageInfo(StorageInfo):
    """How Polaris reaches Azure Data Lake Storage."""

    storage_type: str = Field(default="AZURE", alias="storageType")
    tenant_id: str = Field(alias="tenantId")
    multi_tenant_app_name: str | None = Field(default=None, alias="multiTenantAppName")
    hierarchical: bool | None = None


class FileStorageInfo(StorageInfo):
    """Files on the server's own machine; for trials."""

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
    """Return how a store is reached; the address tells its kind.

    Args:
        base_location: Where tables lie by default.
        allowed: Where else they may lie.
        settings: Those of the store's kind, by their names here; None leaves one out.

    Raises:
        ConfigurationError: The address is of no known kind, or a setting is of another kind of store, or missing.
    """
    scheme = urlsplit(base_location).scheme
    kind = _BY_SCHEME.get(scheme)
    if kind is None:
        msg = f"'{base_location}' is not a location that Polaris can use."
        raise ConfigurationError(msg, hint="Use an address with s3://, gs://, abfss:// or file://.")
    given = {name: value for name, value in settings.items() if value is not None}
    # Polaris compares text: without a slash at its end, a location would cover neighbors of a longer name.
    places = tuple(dict.fromkeys(f"{place.rstrip('/')}/" for place in (base_location, *allowed)))
    try:
        return kind.model_validate({"allowed_locations": places, **given})
    except ValidationError as err:
        problems = [
            ConfigProblem(_problem(_setting(str(item["loc"][0])), item["type"], item["msg"], scheme))
            for item in err.errors(include_input=False, include_url=False)
        ]
        msg = f"A store at {scheme}:// cannot be described like this."
        raise ConfigurationError(msg, problems=problems) from None


def _setting(field: str) -> str:
    return _CAMEL_HUMP.sub("_", field).lower()


def _problem(setting: str, kind: str, said: str, scheme: str) -> str:
    if kind == "extra_forbidden":
        return f"{setting} is not a setting of {scheme}:// stores"
    return f"{setting} is needed" if kind == "missing" else f"{setting}: {said}"
