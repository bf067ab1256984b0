"""Tests against a real Polaris, named by the environment; without one there is nothing to collect."""

from __future__ import annotations

import os
import uuid

import pytest

from floe_polaris import PolarisCatalogConfig, PolarisManagement
from floe_polaris.management import S3StorageInfo

if "POLARIS_URI" not in os.environ or not os.environ["POLARIS_URI"]:
    collect_ignore_glob = ["test_*.py"]


def setting(name, default=None):
    """Return a POLARIS_… variable; make exports empty ones too."""
    return os.environ.get(f"POLARIS_{name}") or default


def storage_properties():
    given = {
        "s3.endpoint": setting("S3_ENDPOINT"),
        "s3.region": setting("S3_REGION", "us-east-1"),
        "s3.access-key-id": setting("S3_ACCESS_KEY_ID"),
        "s3.secret-access-key": setting("S3_SECRET_ACCESS_KEY"),
    }
    return {key: value for key, value in given.items() if value}


@pytest.fixture(scope="session")
def polaris_config():
    """Give the connection of the environment's principal; the warehouse is created when it is missing."""
    client_id, _, client_secret = setting("CREDENTIAL", ":").partition(":")
    config = PolarisCatalogConfig(
        uri=setting("URI"),
        warehouse=setting("WAREHOUSE", "floe"),
        client_id=client_id,
        client_secret=client_secret,
        token_endpoint=setting("TOKEN_ENDPOINT"),
        scope=setting("SCOPE", "PRINCIPAL_ROLE:ALL"),
        access_delegation=setting("DELEGATION", "vended-credentials"),
        properties=storage_properties(),
    )
    ensure_warehouse(config)
    return config


def storage_info(*locations):
    endpoint = setting("S3_ENDPOINT")
    return S3StorageInfo(
        allowed_locations=locations,
        region=setting("S3_REGION", "us-east-1"),
        endpoint=endpoint,
        sts_endpoint=endpoint,
        path_style_access=True if endpoint else None,
        kms_unavailable=True if endpoint else None,
        role_arn=setting("S3_ROLE_ARN", "arn:aws:iam::123456789012:role/floe"),
    )


def ensure_warehouse(config):
    """Create the catalog, and let the principal's role work with its content."""
    management = PolarisManagement(config)
    base = f"s3://{setting('S3_BUCKET', 'lake')}/{config.warehouse}"
    if management.ensure_catalog(config.warehouse, base_location=base, storage=storage_info(f"{base}/")):
        from floe_polaris.management import Grant

        management.ensure_catalog_role(config.warehouse, "floe_content")
        management.grant(config.warehouse, "floe_content", [Grant(privilege="CATALOG_MANAGE_CONTENT")])
        management.assign_catalog_role("service_admin", config.warehouse, "floe_content")
    management.close()


@pytest.fixture
def management(polaris_config):
    management = PolarisManagement(polaris_config)
    yield management
    management.close()


@pytest.fixture
def unique():
    return f"floe_{uuid.uuid4().hex[:10]}"
