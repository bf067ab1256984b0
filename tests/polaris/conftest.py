"""Tests against a real server, configured by environment variables; without them, no tests are collected.

The tests are written for Polaris. On other REST catalogs, tests of the management API are skipped.
"""

from __future__ import annotations

import os
import uuid

import pytest
from pyarrow.fs import S3FileSystem

from floe_core.errors import CapabilityError, CatalogAuthorizationError, ConfigurationError
from floe_iceberg import IcebergTableManager
from floe_polaris import PolarisCatalogConfig, PolarisManagement, create_catalog
from floe_polaris.management import Grant
from floe_polaris.storage_info import S3StorageInfo
from floe_tenancy.layout.contents import contents_of, drop_content

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
    """Give the connection, to a warehouse that is there and whose content the principal may work with.

    What the tests make is gone afterwards, also what one that failed has left; so is the warehouse if it is theirs.
    """
    if found_management is None:
        yield connection
        return
    is_ours, role_is_ours = ensure_warehouse(found_management, connection.warehouse)
    before = everything(found_management, connection)
    yield connection
    clean_up(found_management, connection, before)
    if role_is_ours:
        found_management.delete_catalog_role(connection.warehouse, CONTENT_ROLE)
    if is_ours:
        found_management.delete_catalog(connection.warehouse)


CONTENT_ROLE = "floe_content"
# The prefix of all created names, because a server may have other users at the same time.
OURS = ("floe_", "contract_", "ns_", "n_")


def everything(management, connection):
    """List what a server holds."""
    catalog = create_catalog(connection)
    try:
        return {
            "namespaces": set(catalog.namespaces.list_below()),
            "principals": set(management.list_principals()),
            "principal roles": set(management.list_principal_roles()),
            "catalog roles": set(management.list_catalog_roles(connection.warehouse)),
        }
    finally:
        catalog.close()


def clean_up(management, connection, before):
    """Remove what has come since, as far as its name says that it is ours."""
    warehouse = connection.warehouse
    starts = (*OURS, *(f"{warehouse}.{start}" for start in OURS))
    left = {
        kind: sorted(name for name in names - before[kind] if name.startswith(starts))
        for kind, names in everything(management, connection).items()
    }
    catalog = create_catalog(connection)
    for namespace in left["namespaces"]:
        drop_all(IcebergTableManager(catalog), (namespace,))
    catalog.close()
    for name in left["principals"]:
        management.delete_principal(name)
    for name in left["principal roles"]:
        management.delete_principal_role(name)
    for name in left["catalog roles"]:
        management.delete_catalog_role(warehouse, name)


def drop_all(manager, parts):
    """Drop a namespace with all that is in it, its files too where the server purges."""
    for content in contents_of(manager, [".".join(parts)]):
        drop_content(manager, content)
    for child in manager.namespaces.list_below(parts):
        drop_all(manager, tuple(child.split(".")))
    for table in manager.list_tables(parts):
        try:
            manager.catalog.purge_table((*parts, table))
        except Exception:  # noqa: BLE001 - a broken one, or a server that does not purge
            manager.catalog.drop_table((*parts, table))
    manager.catalog.drop_namespace(parts)


def storage_info(*locations):
    endpoint = setting("S3_ENDPOINT")
    return S3StorageInfo(
        allowed_locations=locations,
        region=setting("S3_REGION", "us-east-1"),
        endpoint=endpoint,
        endpoint_internal=setting("S3_ENDPOINT_INTERNAL"),
        sts_endpoint=setting("S3_ENDPOINT_INTERNAL") or endpoint,
        path_style_access=True if endpoint else None,
        kms_unavailable=True if endpoint else None,
        role_arn=setting("S3_ROLE_ARN", "arn:aws:iam::123456789012:role/floe"),
    )


def ensure_warehouse(management, warehouse):
    """Create the catalog and a role for its content if missing; return whether each of them was created."""
    base = f"s3://{setting('S3_BUCKET', 'lake')}/{warehouse}"
    is_new = management.ensure_catalog(warehouse, base_location=base, storage=storage_info(f"{base}/"))
    # Required for any creator: administering a catalog does not include writing its tables with delegated access.
    role_is_new = management.ensure_catalog_role(warehouse, CONTENT_ROLE)
    management.grant(warehouse, CONTENT_ROLE, [Grant(privilege="CATALOG_MANAGE_CONTENT")])
    management.assign_catalog_role("service_admin", warehouse, CONTENT_ROLE)
    return is_new, role_is_new


@pytest.fixture(scope="session")
def management(polaris_config, found_management):
    if found_management is None:
        pytest.skip("capability: this server has no management API for this principal")
    return found_management


@pytest.fixture
def store_of():
    """Give a way to open the store with vended credentials."""

    def opened(vended):
        return S3FileSystem(
            endpoint_override=setting("S3_ENDPOINT"),
            region=setting("S3_REGION", "us-east-1"),
            access_key=vended["s3.access-key-id"],
            secret_key=vended["s3.secret-access-key"],
            session_token=vended["s3.session-token"],
        )

    return opened


@pytest.fixture(scope="session")
def bucket():
    return setting("S3_BUCKET", "lake")


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
