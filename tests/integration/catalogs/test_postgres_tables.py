"""The table manager on PostgreSQL, in process and on Spark."""

from __future__ import annotations

import uuid

import pytest

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import Engine, IcebergTableManager
from floe_testing.tables import NAMESPACE, TableManagerContract

pytestmark = pytest.mark.live


class PostgresTables(TableManagerContract):
    """What both engines share: a new database for each test."""

    @pytest.fixture
    def manager(self, postgres_catalog, tmp_path):
        # A Spark session keeps a catalog under its name until it ends.
        catalog = {**postgres_catalog, "name": f"pg_{uuid.uuid4().hex}"}
        artifacts = CompiledArtifacts(
            name="shop", floe_version="test", catalog=catalog, compute={"master": "local[2]"}
        ).rooted_at(tmp_path)
        with IcebergTableManager.from_artifacts(artifacts) as manager:
            manager.create_namespace(NAMESPACE)
            yield manager


class TestPostgresArrow(PostgresTables):
    engine = Engine.ARROW


@pytest.mark.spark
class TestPostgresSpark(PostgresTables):
    engine = Engine.SPARK
