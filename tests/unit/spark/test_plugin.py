"""The Spark plugin loads quickly and reports its health."""

from __future__ import annotations

import subprocess
import sys

import pytest

import floe_spark
from floe_core.errors import EngineSetupError
from floe_core.plugins import ComputePlugin, HealthState
from floe_core.schemas import ComputeConfig
from floe_spark import plugin
from floe_spark.java.jars import JarStatus
from floe_spark.plugin import SparkComputePlugin


def test_importing_the_plugin_does_not_import_pyspark():
    code = "import sys, floe_spark, floe_spark.plugin; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_public_names_are_there():
    assert sorted(floe_spark.__all__) == floe_spark.__all__
    for name in floe_spark.__all__:
        assert getattr(floe_spark, name) is not None
    with pytest.raises(AttributeError):
        _ = floe_spark.nothing


def test_it_is_a_compute_plugin():
    made = SparkComputePlugin()
    assert isinstance(made, ComputePlugin)
    assert made.name == "spark"
    assert made.description


def test_opening_a_plane_starts_nothing(tmp_path):
    plane = SparkComputePlugin().data_plane(
        ComputeConfig(), catalog_name="floe", conf={"spark.sql.catalog.floe.token": "CANARY"}, project_root=tmp_path
    )
    assert plane.name == "spark"
    assert "CANARY" not in repr(plane)
    plane.close()


def test_its_sql_is_spark_s():
    assert SparkComputePlugin().sql_dialect == "spark"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "[UNRESOLVED_COLUMN] `totl` cannot be resolved. SQLSTATE: 42703;\n'Project [*]",
            "[UNRESOLVED_COLUMN] `totl` cannot be resolved.",
        ),
        ("plain", "plain"),
        (
            (
                "\n  An exception was thrown from the Python worker.\n"
                'Traceback (most recent call last):\n  File "udf.py", line 1, in f\nValueError: no such plane\n'
            ),
            "ValueError: no such plane",
        ),
    ],
    ids=["plan", "line", "function"],
)
def test_an_error_of_pyspark_is_told_in_one_line(message, reason):
    kind = "pyspark.errors.exceptions.captured.AnalysisException"
    assert SparkComputePlugin().reason_of(kind, message) == reason


def test_an_error_of_others_is_not_spark_s_to_tell():
    assert SparkComputePlugin().reason_of("builtins.ValueError", "no") is None


@pytest.mark.parametrize(
    ("jar", "state"),
    [
        (JarStatus("a:b:1", None, intact=False), HealthState.DEGRADED),
        (JarStatus("a:b:1", "b-1.jar", intact=False), HealthState.UNHEALTHY),
        (JarStatus("a:b:1", "b-1.jar", intact=True), HealthState.HEALTHY),
    ],
    ids=["missing", "damaged", "intact"],
)
def test_health_follows_the_jars(monkeypatch, jar, state):
    monkeypatch.setattr(plugin, "check_jars", lambda: [jar])
    assert SparkComputePlugin().health_check().state is state


def test_health_without_java(monkeypatch):
    def no_java():
        msg = "no Java"
        raise EngineSetupError(msg)

    monkeypatch.setattr(plugin, "find_java", no_java)
    status = SparkComputePlugin().health_check()
    assert not status.ok
    assert "no Java" in status.message
