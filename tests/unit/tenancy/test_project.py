"""Tenants of a project, and the project from a tenant's point of view."""

from __future__ import annotations

import pytest

from floe_core.compile import compile_project
from floe_core.errors import ConfigurationError, InvalidIdentifierError
from floe_iceberg import IcebergTableManager
from floe_iceberg.catalog.connection import open_project
from floe_tenancy import (
    DEFAULT_TABLES,
    CatalogProvider,
    project_bootstrapper,
    project_isolation,
    tenancy_config,
    tenant_artifacts,
    tenant_table_specs,
    verify_tenant,
)

PROJECT = """
schema_version: 1
name: shop
tables:
  bronze.orders:
    columns:
      - {name: id, type: long, required: true}
governance:
  product: {snapshot_retention_days: 30}
"""


def compiled(folder, text=PROJECT):
    (folder / "floe.yaml").write_text(text)
    return compile_project(folder)


@pytest.mark.req("TN-01")
def test_a_tenant_runs_the_project_in_its_own_namespace(tmp_path):
    artifacts = compiled(tmp_path)
    acme, beta = tenant_artifacts(artifacts, "acme"), tenant_artifacts(artifacts, "beta")
    assert list(acme.tables) == ["tenants.acme.bronze.orders"]
    assert list(acme.retention) == ["tenants.acme.bronze.orders"]
    assert acme.retention["tenants.acme.bronze.orders"].snapshot_days == 30
    assert acme.project_root == artifacts.project_root
    assert len({artifacts.fingerprint, acme.fingerprint, beta.fingerprint}) == 3
    assert list(artifacts.tables) == ["bronze.orders"]
    with pytest.raises(InvalidIdentifierError):
        tenant_artifacts(artifacts, "a.b")


@pytest.mark.req("TN-01")
def test_a_tenants_tables_lie_below_its_prefix(tmp_path):
    artifacts = compiled(tmp_path)
    with open_project(artifacts) as connection:
        config = tenancy_config(connection)
        with project_bootstrapper(connection).session(config) as session:
            session.bootstrap("acme")
            with IcebergTableManager.from_artifacts(tenant_artifacts(artifacts, "acme")) as manager:
                for name, table in tenant_artifacts(artifacts, "acme").tables.items():
                    manager.create_namespace(name.rpartition(".")[0])
                    manager.create_from_config(name, table)
                location = manager.load_table("tenants.acme.bronze.orders").location()
            assert location == f"{config.warehouse_uri_for('acme')}/bronze/orders"
            assert verify_tenant(session, "acme").ok


def test_a_table_with_a_location_of_its_own_is_refused(tmp_path):
    artifacts = compiled(tmp_path, PROJECT.replace("    columns:", "    location: s3://lake/orders\n    columns:"))
    with pytest.raises(ConfigurationError, match=r"bronze\.orders"):
        tenant_artifacts(artifacts, "acme")


def test_the_tenancy_section_has_defaults_that_work(tmp_path):
    artifacts = compiled(tmp_path)
    assert tenant_table_specs(artifacts) == DEFAULT_TABLES
    with open_project(artifacts) as connection:
        config = tenancy_config(connection)
        assert project_isolation(connection) is None
    assert config.provider is CatalogProvider.LOCAL
    assert config.namespace_for("acme") == ("tenants", "acme")
    assert config.warehouse_uri_for("acme") == f"file://{tmp_path}/.floe/warehouse/tenants/acme"


def test_the_tenancy_section_declares_tables_and_places(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKE_SECRET", "canary-secret-of-s3")
    artifacts = compiled(
        tmp_path,
        """
schema_version: 1
name: shop
storage:
  type: s3
  bucket: lake
  prefix: a/b
  endpoint: http://127.0.0.1:9
  credentials: {access_key_id: key, secret_access_key: "${LAKE_SECRET}"}
tenancy:
  namespace_prefix: org.clients
  metadata_bucket: meta
  metadata_prefix: m
  tables:
    orders:
      columns: [{name: id, type: long, required: true}]
      keys: [id]
      partition_by: ["bucket(4, id)"]
""",
    )
    [orders] = tenant_table_specs(artifacts)
    assert (orders.name, orders.keys, orders.partition_by) == ("orders", ("id",), ("bucket(4, id)",))
    with open_project(artifacts) as connection:
        config = tenancy_config(connection)
    assert config.warehouse_uri_for("acme") == "s3://lake/a/b/org/clients/acme"
    assert config.metadata_uri_for("acme") == "s3://meta/m/org/clients/acme"
    assert "canary-secret-of-s3" not in repr(config)


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ("orders: {description: x}", "no columns"),
        ("orders: {location: 's3://x/y', columns: [{name: id, type: long}]}", "location"),
    ],
)
def test_tables_that_tenants_cannot_have_are_refused(tmp_path, tables, reason):
    artifacts = compiled(tmp_path, f"schema_version: 1\nname: shop\ntenancy:\n  tables:\n    {tables}\n")
    with pytest.raises(ConfigurationError, match=reason):
        tenant_table_specs(artifacts)


@pytest.mark.parametrize("prefix", ["", "a..b", "../x", "a/b"])
def test_a_namespace_prefix_that_cannot_be_is_refused(tmp_path, prefix):
    with pytest.raises(ConfigurationError):
        compiled(tmp_path, f"schema_version: 1\nname: shop\ntenancy:\n  namespace_prefix: '{prefix}'\n")
