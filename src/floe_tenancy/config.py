"""Configuration of a tenant catalog: derives the namespace, warehouse and metadata locations of each tenant."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from floe_core.errors import InvalidIdentifierError
from floe_core.schemas import FrozenModel
from floe_tenancy.identity import validate_table_name, validate_tenant_id

_SCHEME = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
# Java writes file:/folder where others write file:///folder.
_JAVA_FILE_URI = re.compile(r"^file:/(?!/)", re.IGNORECASE)
# These characters end the path of a URI, and neither PyIceberg nor Hadoop decodes escaped ones.
_RESERVED_IN_URIS = frozenset("?#")
_PATH_PART = re.compile(r"[A-Za-z0-9!_.*'()=@+,-]+", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,61}[a-z0-9](@[a-z0-9][a-z0-9.-]*[a-z0-9])?", re.ASCII)


class CatalogProvider(StrEnum):
    """The object store of a catalog."""

    GCS = "gcs"
    S3 = "s3"
    AZURE = "azure"
    LOCAL = "local"

    @property
    def schemes(self) -> tuple[str, ...]:
        """The URI schemes of the store; the first is the default."""
        return {
            CatalogProvider.GCS: ("gs",),
            CatalogProvider.S3: ("s3", "s3a"),
            CatalogProvider.AZURE: ("abfss", "wasbs"),
            CatalogProvider.LOCAL: ("file",),
        }[self]


def normalise_prefix(prefix: str) -> str:
    """Return a prefix without redundant slashes.

    Raises:
        ValueError: A path segment is . or .., or contains characters that not every store supports.
    """
    parts = [part for part in prefix.strip().split("/") if part]
    for part in parts:
        if part in {".", ".."} or not _PATH_PART.fullmatch(part):
            msg = "path segments of a prefix may contain letters, digits and !_.*'()=@+,- and must not be . or .."
            raise ValueError(msg)
    return "/".join(parts)


def _split_scheme(bucket: str, provider: CatalogProvider) -> tuple[str, str]:
    match = _SCHEME.match(bucket)
    if match is None:
        return provider.schemes[0], bucket
    scheme = match["scheme"].lower()
    if scheme not in provider.schemes:
        msg = f"{scheme}:// is not a valid {provider.name} bucket; use the scheme {' or '.join(provider.schemes)}"
        raise ValueError(msg)
    return scheme, bucket[match.end() :]


def _folder(text: str, *, is_uri: bool) -> str:
    if not text or (is_uri and not text.startswith("/")):
        msg = "expected a folder, such as ./warehouse or file:///data/warehouse"
        raise ValueError(msg)
    folder = str(Path(text).expanduser().resolve())
    if reserved := sorted(_RESERVED_IN_URIS & set(folder)):
        msg = f"the path of a warehouse must not contain {' or '.join(reserved)}"
        raise ValueError(msg)
    return folder


class BucketAddress(FrozenModel):
    """A normalized bucket, container or folder."""

    scheme: str
    host: str

    @classmethod
    def parse(cls, bucket: str, provider: CatalogProvider) -> BucketAddress:
        """Parse a bucket name or URI.

        Raises:
            ValueError: The scheme belongs to another provider, or the bucket name is invalid.
        """
        text = bucket.strip()
        if provider is CatalogProvider.LOCAL:
            text = _JAVA_FILE_URI.sub("file:///", text)
            scheme, rest = _split_scheme(text, provider)
            return cls(scheme=scheme, host=_folder(rest, is_uri=rest != text))
        scheme, rest = _split_scheme(text, provider)
        host = rest.strip("/").lower()
        if not _BUCKET.fullmatch(host):
            msg = (
                "a bucket name has at least three characters of a-z, 0-9, dots, - and _; "
                "set the prefix in its own field"
            )
            raise ValueError(msg)
        # s3a is Hadoop's scheme for S3.
        return cls(scheme="s3" if scheme == "s3a" else scheme, host=host)

    def uri(self, *parts: str) -> str:
        """Return the URI of a path in the bucket, without a trailing slash."""
        return f"{self.scheme}://{'/'.join([self.host.rstrip('/'), *(part for part in parts if part)])}"

    @property
    def container(self) -> str:
        """The bucket name without the Azure account."""
        return self.host.split("@", 1)[0]

    @property
    def account(self) -> str | None:
        """The Azure account in ``container@account.dfs.core.windows.net``, if given."""
        return self.host.split("@", 1)[1].split(".", 1)[0] if "@" in self.host else None


class IcebergCatalogConfig(FrozenModel):
    """A catalog shared by many tenants, each with its own namespace and prefix.

    Settings omitted here come from PyIceberg's configuration of the catalog: ``PYICEBERG_CATALOG__<NAME>__…``
    environment variables and ``.pyiceberg.yaml``. The object store uses the same properties.

    Attributes:
        name: Catalog name in PyIceberg's configuration.
        provider: Object store.
        warehouse_bucket: Bucket, container or folder of the data, as a name or a URI.
        warehouse_prefix: Path of the warehouse in the bucket.
        metadata_bucket: Bucket for table metadata, if it is not the warehouse bucket.
        metadata_prefix: Path of the metadata in the metadata bucket.
        namespace_prefix: Parent namespace of the tenants' namespaces.
        endpoint: Endpoint of a self-hosted or emulated store.
        region: Region of the store.
        access_key_id: S3 access key id or Azure account name.
        secret_access_key: S3 secret key or Azure account key.
        project: Google Cloud project.
        properties: Additional properties for PyIceberg's ``load_catalog``.
    """

    name: str = Field(min_length=1)
    provider: CatalogProvider
    warehouse_bucket: str = Field(min_length=1)
    warehouse_prefix: str = ""
    metadata_bucket: str | None = None
    metadata_prefix: str = ""
    namespace_prefix: tuple[str, ...] = ()
    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = None
    secret_access_key: SecretStr | None = None
    project: str | None = None
    properties: dict[str, str] = Field(default_factory=dict, repr=False)

    @field_validator("endpoint")
    @classmethod
    def _bare_address(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if parts.username or parts.password:
            msg = "an endpoint must not contain a user or password; use access_key_id and secret_access_key"
            raise ValueError(msg)
        return value

    @field_validator("warehouse_prefix", "metadata_prefix")
    @classmethod
    def _plain_prefix(cls, value: str) -> str:
        return normalise_prefix(value)

    @field_validator("namespace_prefix", mode="before")
    @classmethod
    def _parts(cls, value: Any) -> Any:  # noqa: ANN401 - a before-validator sees raw input
        return tuple(part for part in value.split(".") if part) if isinstance(value, str) else value

    @field_validator("namespace_prefix")
    @classmethod
    def _valid_parts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(validate_tenant_id(part) for part in value)
        except InvalidIdentifierError:
            # Omit the value: it may be a secret written into the wrong field.
            msg = "parts of a namespace prefix may contain letters, digits, - and _, like a tenant id"
            raise ValueError(msg) from None

    @model_validator(mode="after")
    def _valid_buckets(self) -> IcebergCatalogConfig:
        BucketAddress.parse(self.warehouse_bucket, self.provider)
        if self.metadata_bucket is not None:
            BucketAddress.parse(self.metadata_bucket, self.provider)
        elif self.metadata_prefix:
            msg = "metadata_prefix requires metadata_bucket"
            raise ValueError(msg)
        return self

    @cached_property
    def warehouse(self) -> BucketAddress:
        """The normalized warehouse bucket."""
        return BucketAddress.parse(self.warehouse_bucket, self.provider)

    @cached_property
    def metadata(self) -> BucketAddress | None:
        """The normalized metadata bucket, if configured."""
        return BucketAddress.parse(self.metadata_bucket, self.provider) if self.metadata_bucket else None

    def namespace_for(self, tenant: str) -> tuple[str, ...]:
        """Return the tenant's namespace.

        Raises:
            InvalidIdentifierError: The tenant id is invalid.
        """
        return (*self.namespace_prefix, validate_tenant_id(tenant))

    def warehouse_key_for(self, tenant: str) -> str:
        """Return the tenant's prefix within the warehouse bucket.

        It ends with ``/``, so it is never a prefix of another tenant's prefix.
        """
        return "/".join(part for part in (self.warehouse_prefix, *self.namespace_for(tenant)) if part) + "/"

    def metadata_key_for(self, tenant: str) -> str | None:
        """Return the tenant's prefix within the metadata bucket, if configured; it ends with ``/``."""
        if self.metadata is None:
            return None
        return "/".join(part for part in (self.metadata_prefix, *self.namespace_for(tenant)) if part) + "/"

    def warehouse_uri_for(self, tenant: str) -> str:
        """Return the URI of the tenant's warehouse."""
        return self.warehouse.uri(self.warehouse_key_for(tenant).rstrip("/"))

    def metadata_uri_for(self, tenant: str) -> str | None:
        """Return the URI of the tenant's metadata, if a metadata bucket is configured."""
        key = self.metadata_key_for(tenant)
        return self.metadata.uri(key.rstrip("/")) if self.metadata and key else None

    def table_location(self, tenant: str, table: str) -> str:
        """Return the location of one of the tenant's tables."""
        return f"{self.warehouse_uri_for(tenant)}/{validate_table_name(table)}"

    def table_properties(self, tenant: str, table: str) -> dict[str, str]:
        """Return the properties that place a table's metadata in the metadata bucket, if configured."""
        root = self.metadata_uri_for(tenant)
        return {"write.metadata.path": f"{root}/{validate_table_name(table)}/metadata"} if root else {}
