"""The configuration of all storage plugins for PyIceberg, Spark, dbt, Dagster and Helm."""

from __future__ import annotations

import json

import dagster as dg
import pytest

from floe_core.errors import ConfigurationError, MissingDependencyError, SecretReferenceError
from floe_core.plugins import FileIO, PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_core.schemas import StorageConfig
from floe_dagster import IcebergIOManager
from floe_storage import azure, gcs

CANARY = "CANARY-secret"
ACCOUNT = "acct.dfs.core.windows.net"
SECTIONS = {
    "local": {"root": "lake"},
    "s3": {
        "bucket": "lake",
        "prefix": "/wh/",
        "endpoint": "http://127.0.0.1:9000",
        "credentials": {"access_key_id": "id", "secret_access_key": "${KEY}", "session_token": "${KEY}"},
    },
    "gcs": {"bucket": "lake", "prefix": "wh", "project": "p", "credentials": {"token": "${KEY}"}},
    "azure": {"bucket": "lake", "prefix": "wh", "credentials": {"account_name": "acct", "account_key": "${KEY}"}},
}
URIS = {
    "local": "file://{root}/lake",
    "s3": "s3://lake/wh",
    "gcs": "gs://lake/wh",
    "azure": f"abfss://lake@{ACCOUNT}/wh",
}


@pytest.fixture(autouse=True)
def _secret(monkeypatch):
    monkeypatch.setenv("KEY", CANARY)


def bound(project_root, kind, **changes):
    plugin = PluginRegistry().get(PluginType.STORAGE, kind)
    plugin.bind(StorageConfig(type=kind, **{**SECTIONS[kind], **changes}), project_root=project_root)
    return plugin


@pytest.fixture(params=SECTIONS)
def kind(request):
    return request.param


@pytest.mark.req("PL-01", "PL-03")
def test_plugins_are_found_by_their_name(kind):
    plugin = PluginRegistry().get(PluginType.STORAGE, kind)
    assert plugin.name == kind
    assert plugin.description


@pytest.mark.req("PL-05")
def test_the_warehouse_has_a_uri_without_trailing_slash(tmp_path, kind):
    plugin = bound(tmp_path, kind)
    base = URIS[kind].format(root=tmp_path)
    assert plugin.get_warehouse_uri() == base
    assert plugin.get_warehouse_uri("bronze.raw") == f"{base}/bronze/raw"


@pytest.mark.req("PL-05")
def test_the_file_client_is_pyiceberg_s(tmp_path, kind):
    assert isinstance(bound(tmp_path, kind).get_pyiceberg_fileio(), FileIO)


@pytest.mark.req("PL-05")
def test_forms_that_are_written_down_hold_no_secret(tmp_path, kind):
    plugin = bound(tmp_path, kind)
    written = [
        plugin.get_dbt_profile_config(),
        plugin.get_dagster_io_manager_config(),
        plugin.get_helm_values_override(),
        plugin.get_warehouse_uri(),
        repr(plugin),
    ]
    assert CANARY not in json.dumps(written)


def test_forms_that_stay_in_memory_hold_the_secret(tmp_path, kind):
    plugin = bound(tmp_path, kind)
    secret = kind != "local"
    assert (CANARY in plugin.get_file_io_properties().values()) is secret
    assert (CANARY in plugin.get_spark_conf("floe").values()) is secret


def test_a_secret_that_is_not_set_is_named(tmp_path, kind, monkeypatch):
    plugin = bound(tmp_path, kind)
    monkeypatch.delenv("KEY")
    if kind != "local":
        with pytest.raises(SecretReferenceError, match="KEY is not set"):
            plugin.get_file_io_properties()
    assert plugin.get_dbt_profile_config()["type"] == "spark"


@pytest.mark.req("PL-05")
def test_dbt_gets_a_spark_output(tmp_path, kind):
    profile = bound(tmp_path, kind).get_dbt_profile_config()
    assert profile["method"] == "session"
    parameters = profile["server_side_parameters"]
    assert parameters["spark.sql.catalog.floe.warehouse"] == URIS[kind].format(root=tmp_path)
    assert all(isinstance(value, str) for value in parameters.values())


def test_extra_options_reach_the_file_client(tmp_path, kind):
    assert bound(tmp_path, kind, options={"x.y": "z"}).get_file_io_properties()["x.y"] == "z"


def test_an_unbound_plugin_says_what_to_do(kind):
    plugin = PluginRegistry().get(PluginType.STORAGE, kind)
    assert "unbound" in repr(plugin)
    with pytest.raises(ConfigurationError, match="bind"):
        plugin.get_warehouse_uri()


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure"])
@pytest.mark.parametrize("bucket", [None, "UPPER", "with/slash", "a b c", "..."])
def test_a_bucket_that_cannot_be_is_a_problem_with_its_path(tmp_path, kind, bucket):
    with pytest.raises(ConfigurationError) as caught:
        bound(tmp_path, kind, bucket=bucket)
    assert [problem.path for problem in caught.value.problems] == ["storage.bucket"]
    assert caught.value.problems[0].fix


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure"])
@pytest.mark.parametrize("prefix", ["a//b", "../x", "a/./b"])
def test_a_prefix_that_cannot_be_is_a_problem_with_its_path(tmp_path, kind, prefix):
    with pytest.raises(ConfigurationError) as caught:
        bound(tmp_path, kind, prefix=prefix)
    assert [problem.path for problem in caught.value.problems] == ["storage.prefix"]


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure"])
def test_an_empty_prefix_makes_the_bucket_the_warehouse(tmp_path, kind):
    uri = bound(tmp_path, kind, prefix="").get_warehouse_uri()
    assert uri == URIS[kind].removesuffix("/wh")


def test_all_problems_come_at_once(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        bound(tmp_path, "s3", bucket=None, credentials={"access_key_id": "id"})
    assert [problem.path for problem in caught.value.problems] == [
        "storage.bucket",
        "storage.credentials.secret_access_key",
    ]
    with pytest.raises(ConfigurationError, match="secret key is set without"):
        bound(tmp_path, "s3", credentials={"secret_access_key": "${KEY}"})


@pytest.mark.parametrize("folder", ["with space", "größe-日本", "per%cent"])
def test_local_folders_with_unusual_names_hold_files(tmp_path, folder):
    plugin = bound(tmp_path, "local", root=folder)
    location = f"{plugin.get_warehouse_uri()}/x.txt"
    io = plugin.get_pyiceberg_fileio()
    with io.new_output(location).create() as stream:
        stream.write(b"hello")
    assert (tmp_path / folder / "x.txt").read_bytes() == b"hello"
    assert io.new_input(location).open().read() == b"hello"


@pytest.mark.parametrize("folder", ["a?b", "a#b"])
def test_local_folders_that_no_uri_can_name_are_refused(tmp_path, folder):
    with pytest.raises(ConfigurationError) as caught:
        bound(tmp_path, "local", root=folder)
    assert caught.value.problems[0].path == "storage.root"


def test_a_self_hosted_s3_gets_path_style_a_region_and_minio_s_values(tmp_path):
    plugin = bound(tmp_path, "s3")
    assert plugin.get_file_io_properties() == {
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "us-east-1",
        "s3.access-key-id": "id",
        "s3.secret-access-key": CANARY,
        "s3.session-token": CANARY,
        "s3.force-virtual-addressing": "false",
    }
    assert plugin.get_spark_conf("lake") == {
        "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "spark.sql.catalog.lake.s3.endpoint": "http://127.0.0.1:9000",
        "spark.sql.catalog.lake.s3.path-style-access": "true",
        "spark.sql.catalog.lake.s3.access-key-id": "id",
        "spark.sql.catalog.lake.s3.secret-access-key": CANARY,
        "spark.sql.catalog.lake.s3.session-token": CANARY,
        "spark.sql.catalog.lake.client.region": "us-east-1",
    }
    assert plugin.get_spark_packages() == ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)
    minio = plugin.get_helm_values_override()["minio"]
    assert minio["buckets"] == [{"name": "lake", "policy": "none", "purge": False}]
    assert minio["service"] == {"port": "9000"}


def test_a_managed_store_needs_no_helm_values(tmp_path):
    assert bound(tmp_path, "s3", endpoint=None).get_helm_values_override() == {}
    for kind in ("local", "gcs", "azure"):
        assert bound(tmp_path, kind).get_helm_values_override() == {}


def test_amazon_s3_is_asked_for_its_region_only_when_none_is_given(tmp_path):
    properties = bound(tmp_path, "s3", endpoint=None, region="eu-west-1").get_file_io_properties()
    assert properties["s3.region"] == "eu-west-1"
    assert "s3.endpoint" not in properties


def test_dagster_reads_secrets_from_the_environment(tmp_path):
    properties = bound(tmp_path, "s3").get_dagster_io_manager_config()["catalog_properties"]
    assert properties["s3.endpoint"] == "http://127.0.0.1:9000"
    assert properties["s3.secret-access-key"] == properties["s3.session-token"] == {"env": "KEY"}


@pytest.mark.req("PL-05", "FR-024")
def test_the_io_manager_takes_what_a_store_says_about_itself(tmp_path, kind):
    plugin = bound(tmp_path, kind)
    io_manager = IcebergIOManager(
        catalog_uri="http://127.0.0.1:1/api/catalog", warehouse="lake", **plugin.get_dagster_io_manager_config()
    )
    # In a run, Dagster resolves the variables and creates a copy, which connects.
    with dg.build_resources({"io": io_manager}) as resources:
        reached = resources.io.catalog_connection
    assert reached["properties"] == plugin.get_file_io_properties()
    assert io_manager.catalog_connection["properties"] == plugin.get_file_io_properties()
    shown = json.dumps(io_manager.get_resource_definition().config_schema.default_value)
    assert CANARY not in shown + repr(io_manager)


def test_a_mounted_secret_is_named_by_its_variable(tmp_path):
    credentials = {"access_key_id": "id", "secret_access_key": {"secret_ref": "lake-key"}}
    profile = bound(tmp_path, "s3", credentials=credentials).get_dbt_profile_config()
    value = profile["server_side_parameters"]["spark.sql.catalog.floe.s3.secret-access-key"]
    assert value == "{{ env_var('FLOE_SECRET_LAKE_KEY') }}"


def test_a_gcs_token_comes_with_a_time_of_expiry(tmp_path):
    properties = bound(tmp_path, "gcs").get_file_io_properties()
    assert properties["gcs.oauth2.token"] == CANARY
    assert properties["gcs.oauth2.token-expires-at"] == "4102444800000"


def test_a_gcs_key_file_is_read_by_gcsfs_and_handed_to_executors(tmp_path):
    (tmp_path / "key.json").write_text("{}")
    plugin = bound(tmp_path, "gcs", credentials={"service_account_file": "key.json"})
    properties = plugin.get_file_io_properties()
    assert properties["py-io-impl"] == "pyiceberg.io.fsspec.FsspecFileIO"
    assert properties["gcs.oauth2.token"] == str(tmp_path / "key.json")
    conf = plugin.get_spark_conf("floe")
    assert conf["spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS"] == str(tmp_path / "key.json")


def test_an_emulated_gcs_without_credentials_stays_anonymous(tmp_path):
    plugin = bound(tmp_path, "gcs", endpoint="http://127.0.0.1:4443", credentials={})
    assert plugin.get_file_io_properties()["gcs.oauth2.token"] == "anon"
    assert plugin.get_spark_conf("floe")["spark.sql.catalog.floe.gcs.no-auth"] == "true"


@pytest.mark.parametrize(
    ("kind", "credentials", "path"),
    [
        ("gcs", {"token": "${KEY}", "service_account_file": "key.json"}, "storage.credentials"),
        ("gcs", {"service_account_file": "absent.json"}, "storage.credentials.service_account_file"),
        ("azure", {"account_key": "${KEY}"}, "storage.credentials.account_name"),
        (
            "azure",
            {"account_name": "a", "account_key": "${KEY}", "connection_string": "${KEY}"},
            "storage.credentials",
        ),
    ],
)
def test_credentials_that_do_not_fit_together_are_problems(tmp_path, kind, credentials, path):
    with pytest.raises(ConfigurationError) as caught:
        bound(tmp_path, kind, credentials=credentials)
    assert path in [problem.path for problem in caught.value.problems]


def test_an_azure_endpoint_needs_a_connection_string(tmp_path):
    with pytest.raises(ConfigurationError, match="BlobEndpoint"):
        bound(tmp_path, "azure", endpoint="http://127.0.0.1:10000/acct")


def test_spark_gets_the_account_key_out_of_an_azure_connection_string(tmp_path, monkeypatch):
    monkeypatch.setenv("STRING", f"AccountName=acct;AccountKey={CANARY}==;BlobEndpoint=http://127.0.0.1:1/acct")
    credentials = {"account_name": "acct", "connection_string": "${STRING}"}
    plugin = bound(tmp_path, "azure", endpoint="http://127.0.0.1:1/acct", credentials=credentials)
    assert plugin.get_spark_conf("floe") == {
        "spark.sql.catalog.floe.io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        f"spark.sql.catalog.floe.adls.connection-string.{ACCOUNT}": "http://127.0.0.1:1/acct",
        "spark.sql.catalog.floe.adls.auth.shared-key.account.name": "acct",
        "spark.sql.catalog.floe.adls.auth.shared-key.account.key": f"{CANARY}==",
    }
    assert CANARY not in json.dumps(plugin.get_dbt_profile_config())
    monkeypatch.setenv("STRING", "AccountName=acct;SharedAccessSignature=x")
    with pytest.raises(ConfigurationError, match="no account key"):
        plugin.get_spark_conf("floe")


def test_a_missing_client_names_its_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(azure, "find_spec", lambda _: None)
    monkeypatch.setattr(gcs, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"floe-lakehouse\[azure\]"):
        bound(tmp_path, "azure").get_file_io_properties()
    with pytest.raises(MissingDependencyError, match=r"floe-lakehouse\[gcs\]"):
        bound(tmp_path, "gcs", endpoint="http://127.0.0.1:1", credentials={}).get_file_io_properties()
