"""The Spark configuration of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.schemas import AccessDelegation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from floe_polaris.config import PolarisCatalogConfig

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
S3_FILE_IO = "org.apache.iceberg.aws.s3.S3FileIO"
DELEGATION_HEADER = "X-Iceberg-Access-Delegation"

# Properties with the same name in both clients; PyIceberg's other S3 properties have other names in Java.
_SHARED_STORAGE = ("s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.session-token")
_HEADER_PREFIX = "header."


def spark_conf(config: PolarisCatalogConfig, catalog_name: str) -> dict[str, str]:
    """Return the Spark configuration that opens the same catalog, including its credentials.

    Args:
        config: The connection.
        catalog_name: Name in Spark SQL.
    """
    settings = {
        "type": "rest",
        "uri": config.uri,
        # A caching catalog would not see PyIceberg's commits.
        "cache-enabled": "false",
        "rest.client.connection-timeout-ms": _milliseconds(config.timeouts.connect_seconds),
        "rest.client.socket-timeout-ms": _milliseconds(config.timeouts.read_seconds),
        **_credentials(config),
        **_storage(config.properties),
        **{key: value for key, value in config.properties.items() if key.startswith(_HEADER_PREFIX)},
    }
    if config.warehouse:
        settings["warehouse"] = config.warehouse
    if config.realm:
        settings[f"{_HEADER_PREFIX}{config.realm_header}"] = config.realm
    if config.access_delegation is not AccessDelegation.NONE:
        settings[f"{_HEADER_PREFIX}{DELEGATION_HEADER}"] = config.access_delegation.value
    prefix = f"spark.sql.catalog.{catalog_name}"
    return {prefix: SPARK_CATALOG, **{f"{prefix}.{key}": value for key, value in settings.items()}}


def _credentials(config: PolarisCatalogConfig) -> dict[str, str]:
    if config.token is not None:
        return {"token": config.token.get_secret_value(), "token-refresh-enabled": "false"}
    if config.client_id is None or config.client_secret is None:
        return {}
    return {
        "credential": f"{config.client_id}:{config.client_secret.get_secret_value()}",
        "oauth2-server-uri": config.token_uri,
        "scope": config.scope,
        "token-refresh-enabled": str(config.token_refresh_enabled).lower(),
        # Fetch a new token with the same grant; few servers support token exchange.
        "token-exchange-enabled": "false",
    }


def _storage(properties: Mapping[str, str]) -> dict[str, str]:
    shared = {key: properties[key] for key in _SHARED_STORAGE if properties.get(key)}
    if region := properties.get("s3.region") or properties.get("client.region"):
        shared["client.region"] = region
    if not shared:
        return {}
    if "s3.endpoint" in shared:
        # Self-hosted stores rarely have a host name per bucket.
        shared["s3.path-style-access"] = properties.get("s3.path-style-access", "true")
    return {"io-impl": S3_FILE_IO, **shared}


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))
