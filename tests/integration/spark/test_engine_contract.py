"""The Spark plugin passes the contract of compute plugins."""

from __future__ import annotations

import pytest

from floe_spark.plugin import SparkComputePlugin
from floe_testing.plugins import ComputePluginContract

pytestmark = pytest.mark.spark


class TestSparkEngine(ComputePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return SparkComputePlugin

    @pytest.fixture
    def data_plane(self, spark_tables):
        return spark_tables.plane

    @pytest.fixture
    def catalog(self, spark_tables):
        return spark_tables.catalog

    @staticmethod
    def collected(frame):
        return frame.toArrow()
