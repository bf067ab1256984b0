"""The ``storage`` section."""

from __future__ import annotations

from pydantic import Field

from floe_core.schemas.base import FrozenModel, Setting, Text
from floe_core.secrets import SecretReference


class StorageCredentials(FrozenModel):
    """How to authenticate against the object store; secrets by reference only."""

    access_key_id: Text | None = Field(default=None, description="S3 access key id.")
    secret_access_key: SecretReference | None = Field(default=None, description="S3 secret key.")
    session_token: SecretReference | None = Field(default=None, description="S3 session token.")
    account_name: Text | None = Field(default=None, description="Azure storage account.")
    account_key: SecretReference | None = Field(default=None, description="Azure account key.")
    connection_string: SecretReference | None = Field(default=None, description="Azure connection string.")
    service_account_file: Text | None = Field(default=None, description="GCS service account key file.")
    token: SecretReference | None = Field(default=None, description="GCS OAuth2 token.")


class StorageConfig(FrozenModel):
    """Where data and metadata files are stored."""

    type: Text = Field(default="local", description="Storage plugin: local, s3, gcs, azure or a third party's.")
    root: Text = Field(default=".floe/warehouse", description="Folder of local storage, relative to the project.")
    bucket: Text | None = Field(default=None, min_length=3, description="Bucket or container.")
    prefix: str = Field(default="warehouse", description="Path of the warehouse in the bucket.")
    endpoint: Text | None = Field(default=None, description="Address of a self-hosted or emulated store.")
    region: Text | None = Field(default=None, description="Region; without one, connecting to S3 is slow.")
    project: Text | None = Field(default=None, description="Google Cloud project.")
    credentials: StorageCredentials = Field(default_factory=StorageCredentials, description="Authentication.")
    options: dict[Text, Setting] = Field(default_factory=dict, description="Extra properties for the file client.")


class VaultConfig(FrozenModel):
    """The plugin that looks up ``secret_ref``."""

    type: Text | None = Field(
        default=None, description="Secrets plugin to use first; default: only mounted files and variables."
    )
    options: dict[Text, Setting] = Field(default_factory=dict, description="Settings of the plugin.")
