"""``floe catalog create``, ``list``, ``show``, ``grant`` and ``revoke``, on a server that behaves like Polaris."""

from __future__ import annotations

from pathlib import Path

import pytest

from floe_testing.stand_ins.polaris_management import PolarisManagementServer


@pytest.fixture
def polaris():
    with PolarisManagementServer() as server:
        yield server


@pytest.fixture
def admin(floe, polaris, monkeypatch):
    """Give the command in a project of an administrator, whose catalog is not there yet."""
    monkeypatch.setenv("ADMIN_SECRET", "canary-admin-secret")
    Path("floe.yaml").write_text(
        "name: lakehouse\n"
        f"catalog: {{type: polaris, name: lake, uri: '{polaris.uri}', warehouse: lake, "
        "credentials: {client_id: root, client_secret: '${ADMIN_SECRET}'}}\n"
    )
    return floe


STORES = {
    "AWS": (
        ["s3://lake/warehouse", "--role-arn", "arn:aws:iam::123456789012:role/polaris", "--region", "eu-west-1"],
        {
            "storageType": "S3",
            "allowedLocations": ["s3://lake/warehouse/"],
            "roleArn": "arn:aws:iam::123456789012:role/polaris",
            "region": "eu-west-1",
        },
    ),
    "MinIO in a container": (
        [
            *("s3://lake/warehouse", "--endpoint", "http://127.0.0.1:9000", "--path-style", "--kms-unavailable"),
            *("--endpoint-internal", "http://minio:9000", "--sts-endpoint", "http://minio:9000"),
        ],
        {
            "storageType": "S3",
            "allowedLocations": ["s3://lake/warehouse/"],
            "endpoint": "http://127.0.0.1:9000",
            "endpointInternal": "http://minio:9000",
            "stsEndpoint": "http://minio:9000",
            "pathStyleAccess": True,
            "kmsUnavailable": True,
        },
    ),
    "without STS": (
        ["s3://lake/warehouse", "--sts-unavailable", "--allow", "s3://archive/lake"],
        {
            "storageType": "S3",
            "allowedLocations": ["s3://lake/warehouse/", "s3://archive/lake/"],
            "stsUnavailable": True,
        },
    ),
    "GCS": (
        ["gs://lake/warehouse", "--service-account", "polaris@project.iam.gserviceaccount.com"],
        {
            "storageType": "GCS",
            "allowedLocations": ["gs://lake/warehouse/"],
            "gcsServiceAccount": "polaris@project.iam.gserviceaccount.com",
        },
    ),
    "Azure": (
        ["abfss://lake@account.dfs.core.windows.net/w", "--tenant-id", "tid", "--hierarchical"],
        {
            "storageType": "AZURE",
            "allowedLocations": ["abfss://lake@account.dfs.core.windows.net/w/"],
            "tenantId": "tid",
            "hierarchical": True,
        },
    ),
    "files": (
        ["file:///var/polaris/lake"],
        {"storageType": "FILE", "allowedLocations": ["file:///var/polaris/lake/"]},
    ),
}


@pytest.mark.parametrize("store", STORES)
def test_a_catalog_is_created_with_the_storage_it_needs_and_shown(admin, polaris, store):
    arguments, storage = STORES[store]
    run = admin("catalog", "create", *arguments, "-o", "json")
    assert (run.code, run.data["created"], run.data["catalog"]) == (0, True, "lake"), run.out
    assert polaris.state.storage["lake"] == storage
    assert polaris.state.catalogs["lake"]["default-base-location"] == arguments[0]
    assert admin("catalog", "list", "-o", "json").data == ["lake"]
    shown = admin("catalog", "show", "-o", "json").data
    assert (shown["storage"], list(shown["roles"])) == (storage, ["catalog_admin"])
    again = admin("catalog", "create", *arguments, "-o", "json")
    assert (again.code, again.data["created"]) == (0, False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hdfs://lake"], "s3://, gs://, abfss:// or file://"),
        (["gs://lake", "--role-arn", "x"], "not a setting of gs:// stores"),
        (["abfss://lake@account.dfs.core.windows.net/w"], "tenant_id"),
    ],
)
def test_settings_that_do_not_fit_the_store_are_refused_before_anything_is_asked(admin, polaris, arguments, said):
    run = admin("catalog", "create", *arguments)
    assert run.code == 1
    assert said in run.err
    assert polaris.state.calls == []


def test_privileges_are_granted_on_a_catalog_a_namespace_and_a_table_and_taken_again(admin, polaris):
    admin("catalog", "create", "s3://lake/warehouse")
    commands = [
        ("content", "catalog_manage_content", "--to", "service_admin"),
        ("readers", "TABLE_READ_DATA", "TABLE_LIST", "--namespace", "gold.daily", "--to", "analysts"),
        ("readers", "TABLE_READ_DATA", "--table", "silver.raw.orders"),
        ("readers", "VIEW_LIST", "--view", "silver.recent"),
    ]
    for command in commands:
        assert admin("catalog", "grant", *command).code == 0
    assert polaris.state.catalog_roles["lake", "content"] == [
        {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"}
    ]
    assert polaris.state.catalog_roles["lake", "readers"] == [
        {"type": "namespace", "privilege": "TABLE_READ_DATA", "namespace": ["gold", "daily"]},
        {"type": "namespace", "privilege": "TABLE_LIST", "namespace": ["gold", "daily"]},
        {"type": "table", "privilege": "TABLE_READ_DATA", "namespace": ["silver", "raw"], "tableName": "orders"},
        {"type": "view", "privilege": "VIEW_LIST", "namespace": ["silver"], "viewName": "recent"},
    ]
    assert polaris.state.principal_roles["analysts"] == {("lake", "readers")}
    taken = admin("catalog", "revoke", "readers", "TABLE_LIST", "TABLE_DROP", "--namespace", "gold.daily", "-o", "json")
    assert [one["privilege"] for one in taken.data["revoked"]] == ["TABLE_LIST"]
    left = [grant["privilege"] for grant in polaris.state.catalog_roles["lake", "readers"]]
    assert left == ["TABLE_READ_DATA", "TABLE_READ_DATA", "VIEW_LIST"]


def test_what_is_not_there_is_named_with_the_way_to_it(admin):
    for command in (("show",), ("grant", "content", "CATALOG_MANAGE_CONTENT")):
        run = admin("catalog", *command, "-o", "json")
        assert (run.code, run.error["type"]) == (1, "ConfigurationError")
        assert "Catalog 'lake' not found" in run.error["message"]
        assert "floe catalog create" in run.error["hint"]
    admin("catalog", "create", "s3://lake/warehouse")
    run = admin("catalog", "revoke", "nobody", "TABLE_LIST", "-o", "json")
    assert (run.code, run.error["type"]) == (1, "ConfigurationError")
    run = admin("catalog", "grant", "x", "TABLE_LIST", "--namespace", "a", "--table", "a.b", "-o", "json")
    assert (run.code, run.error["type"]) == (1, "ConfigurationError")


def test_the_embedded_catalog_has_nothing_to_administer(shop):
    run = shop("catalog", "show", "-o", "json")
    assert (run.code, run.error["type"]) == (1, "CapabilityError")
