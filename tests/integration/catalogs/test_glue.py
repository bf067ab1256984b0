"""The ``glue`` catalog on moto, with files on MinIO: plugin, tables on both engines, errors."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from floe_catalogs.glue import GlueCatalogPlugin
from floe_core.errors import CapabilityError
from floe_core.schemas import CatalogConfig, CompiledArtifacts
from floe_iceberg import Engine, IcebergTableManager
from floe_testing.oracles.version_1 import check_version_1_fields
from floe_testing.plugins import CatalogPluginContract
from floe_testing.rest_fixtures import store_properties
from floe_testing.services.glue import isolate_aws
from floe_testing.tables import NAMESPACE, TableManagerContract

pytestmark = pytest.mark.live

SECRET = "canary-aws-secret"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture(autouse=True)
def _aws(monkeypatch):
    isolate_aws(monkeypatch, secret=SECRET)


@pytest.fixture
def glue_catalog(glue, minio):
    """Give the catalog section of moto's Glue."""
    options = {"client.region": glue["region"]}
    warehouse = f"s3://{minio['bucket']}/glue"
    return {"type": "glue", "name": "glue", "uri": glue.url, "warehouse": warehouse, "options": options}


def connect(section, root):
    plugin = GlueCatalogPlugin()
    plugin.connect(CatalogConfig.model_validate(section), file_io={}, project_root=root)
    return plugin


@pytest.mark.req("PL-01", "PL-06")
class TestGluePlugin(CatalogPluginContract):
    @pytest.fixture
    def plugin_class(self):
        return GlueCatalogPlugin

    @pytest.fixture
    def catalog_config(self, glue_catalog):
        return CatalogConfig.model_validate(glue_catalog)

    @pytest.fixture
    def file_io(self, minio):
        return store_properties(minio)

    @pytest.fixture
    def catalog_secrets(self, minio):
        return (SECRET, minio["secret_access_key"])


class GlueTables(TableManagerContract):
    @pytest.fixture
    def manager(self, glue_catalog, minio, tmp_path, monkeypatch):
        monkeypatch.setenv("S3_SECRET", minio["secret_access_key"])
        storage = {
            "type": "s3",
            "bucket": minio["bucket"],
            "endpoint": minio.url,
            "credentials": {"access_key_id": minio["access_key_id"], "secret_access_key": "${S3_SECRET}"},
        }
        settings = {"name": "shop", "floe_version": "test", "catalog": glue_catalog, "storage": storage}
        artifacts = CompiledArtifacts.model_validate({**settings, "compute": {"master": "local[2]"}})
        with IcebergTableManager.from_artifacts(artifacts.rooted_at(tmp_path)) as manager:
            manager.create_namespace(NAMESPACE)
            yield manager


class TestGlueArrow(GlueTables):
    engine = Engine.ARROW

    def test_the_fields_of_version_1_alone_follow_the_schema_and_the_spec(self, manager):
        check_version_1_fields(manager, f"{NAMESPACE}.v{uuid.uuid4().hex[:12]}")


@pytest.mark.spark
class TestGlueSpark(GlueTables):
    engine = Engine.SPARK

    @pytest.fixture(autouse=True)
    def _driver(self, spark_engine):
        """Give the driver, which started before the test, credentials where its AWS client looks first."""
        from pyspark import SparkContext

        system = SparkContext._active_spark_context._jvm.java.lang.System
        given = {"aws.accessKeyId": "floe-test", "aws.secretAccessKey": SECRET}
        for name, value in given.items():
            system.setProperty(name, value)
        yield
        for name in given:
            system.clearProperty(name)


def test_a_nested_namespace_is_refused_before_its_parent_is_made(glue_catalog, tmp_path):
    plugin = connect(glue_catalog, tmp_path)
    parent = f"ns_{uuid.uuid4().hex[:10]}"
    with pytest.raises(CapabilityError, match=f"{parent}_raw"):
        plugin.create_namespace(f"{parent}.raw")
    assert parent not in plugin.list_namespaces()
    plugin.shutdown()


def test_spark_gets_the_same_catalog_and_no_keys(glue_catalog, tmp_path):
    keys = {"client.access-key-id": "id", "client.secret-access-key": SECRET}
    section = {**glue_catalog, "options": {**glue_catalog["options"], **keys, "glue.id": "123456789012"}}
    plugin = connect(section, tmp_path)
    conf = plugin.get_spark_conf("lake", {})
    assert conf["spark.sql.catalog.lake.type"] == "glue"
    assert conf["spark.sql.catalog.lake.glue.endpoint"] == glue_catalog["uri"]
    assert conf["spark.sql.catalog.lake.glue.id"] == "123456789012"
    assert conf["spark.sql.catalog.lake.client.region"] == "us-east-1"
    assert SECRET not in str(conf)
    plugin.shutdown()
