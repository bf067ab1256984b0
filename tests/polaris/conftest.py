"""Tests against a real server, named by the environment; without one there is nothing to collect.

They are written for Polaris. On another REST catalog the tests of the management API skip, and the rest runs.
"""

from __future__ import annotations

import os
import uuid

import pytest

from floe_core.errors import CapabilityError, CatalogAuthorizationError, ConfigurationError
from floe_iceberg import IcebergTableManager
from floe_polaris import PolarisCatalogConfig, PolarisManagement, create_catalog
from floe_polaris.management import Grant, S3StorageInfo

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
def connection():
    """Give the connection of the environment's principal, as it is."""
    client_id, _, client_secret = setting("CREDENTIAL", "").partition(":")
    return PolarisCatalogConfig(
        uri=setting("URI"),
        warehouse=setting("WAREHOUSE", "floe"),
        client_id=client_id or None,
        client_secret=client_secret or None,
        token_endpoint=setting("TOKEN_ENDPOINT"),
        scope=setting("SCOPE", "PRINCIPAL_ROLE:ALL"),
        access_delegation=setting("DELEGATION", "vended-credentials"),
        properties=storage_properties(),
    )


@pytest.fixture(scope="session")
def found_management(connection):
    """Give the management API, None where there is none or the principal may not use it."""
    try:
        management = PolarisManagement(connection)
        management.list_catalogs()
    except (CapabilityError, CatalogAuthorizationError, ConfigurationError):
        yield None
        return
    yield management
    management.close()


@pytest.fixture(scope="session")
def polaris_config(connection, found_management):
    """Give the connection, to a warehouse that is there and whose content the principal may work with."""
    if found_management is not None:
        ensure_warehouse(found_management, connection.warehouse)
    return connection


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


def ensure_warehouse(management, warehouse):
    """Create the catalog when it is missing, and let the administrators' role work with its content."""
    base = f"s3://{setting('S3_BUCKET', 'lake')}/{warehouse}"
    management.ensure_catalog(warehouse, base_location=base, storage=storage_info(f"{base}/"))
    # Whoever made it: to administer a catalog is not yet to write its tables with delegated access.
    management.ensure_catalog_role(warehouse, "floe_content")
    management.grant(warehouse, "floe_content", [Grant(privilege="CATALOG_MANAGE_CONTENT")])
    management.assign_catalog_role("service_admin", warehouse, "floe_content")


@pytest.fixture
def management(polaris_config, found_management):
    if found_management is None:
        pytest.skip("capability: this server has no management API for this principal")
    return found_management


@pytest.fixture
def unique():
    return f"floe_{uuid.uuid4().hex[:10]}"


@pytest.fixture
def tables(polaris_config, unique):
    """Give a table manager and a namespace of the test's own, which is gone afterwards."""
    catalog = create_catalog(polaris_config)
    manager = IcebergTableManager(catalog)
    manager.create_namespace(unique)
    yield manager
    for name in manager.list_tables(unique):
        manager.drop_table(f"{unique}.{name}")
    catalog.delete_namespace(unique)
    catalog.close()
