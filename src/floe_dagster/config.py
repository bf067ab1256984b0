"""How an IO manager reaches its tables."""

from __future__ import annotations

from pydantic import Field, SecretStr

from floe_core.schemas import FrozenModel
from floe_iceberg.models import WriteMode


class IcebergIOManagerConfig(FrozenModel):
    """Settings of an IO manager; secrets stay masked."""

    catalog_uri: str = Field(description="Address of the REST catalog.")
    warehouse: str = Field(description="Warehouse name.")
    client_id: str | None = Field(default=None, description="OAuth2 client id.")
    client_secret: SecretStr | None = Field(default=None, description="OAuth2 client secret.")
    token: SecretStr | None = Field(default=None, description="Bearer token fetched beforehand.")
    default_namespace: str = Field(default="public", description="Namespace of asset keys with one part.")
    write_mode: WriteMode = Field(default=WriteMode.APPEND, description="What a write does unless its asset says else.")
    schema_evolution_enabled: bool = Field(default=True, description="Whether tables follow the data's schema.")
    auto_create_tables: bool = Field(default=True, description="Whether a missing table is made on the first write.")
    partition_column: str | None = Field(default=None, description="Column that partition keys speak of.")
    catalog_properties: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Storage and client properties, as PyIceberg knows them."
    )
    column_projection_enabled: bool = Field(
        default=True, description="Whether inputs load only the columns that they name."
    )
