"""Spark configuration derived from floe.yaml."""

from __future__ import annotations

import pytest

from floe_core.errors import SecretReferenceError
from floe_core.schemas import ComputeConfig
from floe_spark.java.jars import ResolvedJars
from floe_spark.session.settings import SparkSettings, launch_environment

NO_JARS = ResolvedJars((), ())


def settings(tmp_path, **options):
    return SparkSettings.from_config(ComputeConfig(**options), project_root=tmp_path)


def test_references_are_replaced_and_unset_ones_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOST", "spark.example")
    assert settings(tmp_path, master="sc://${SPARK_HOST}:15002").master == "sc://spark.example:15002"
    with pytest.raises(SecretReferenceError, match="NO_SUCH_VARIABLE"):
        settings(tmp_path, conf={"spark.x": "${NO_SUCH_VARIABLE}"})


@pytest.mark.parametrize(
    ("master", "local", "remote"),
    [
        ("local", True, False),
        ("local[*]", True, False),
        ("spark://h:7077", False, False),
        ("yarn", False, False),
        ("k8s://https://h", False, False),
        ("sc://h", False, True),
    ],
)
def test_masters(tmp_path, master, local, remote):
    made = settings(tmp_path, master=master)
    assert (made.local, made.remote) == (local, remote)
    bound = made.driver_conf(NO_JARS).get("spark.driver.bindAddress")
    assert bound == ("127.0.0.1" if local else None)


def test_the_users_own_configuration_wins(tmp_path):
    made = settings(tmp_path, conf={"spark.ui.enabled": "true", "spark.sql.session.timeZone": "Europe/Paris"})
    assert made.driver_conf(NO_JARS)["spark.ui.enabled"] == "true"
    assert made.session_conf()["spark.sql.session.timeZone"] == "Europe/Paris"
    assert "spark.ui.enabled" not in made.session_conf()


def test_a_secret_in_the_configuration_is_not_shown(tmp_path):
    made = settings(tmp_path, conf={"spark.hadoop.fs.s3a.secret.key": "CANARY"})
    assert "CANARY" not in repr(made)


def test_the_fingerprint_tells_drivers_apart(tmp_path):
    one = settings(tmp_path)
    assert one.fingerprint == settings(tmp_path).fingerprint
    for other in ({"driver_memory": "4g"}, {"conf": {"a": "b"}}, {"master": "local[1]"}, {"jars_dir": "jars"}):
        assert settings(tmp_path, **other).fingerprint != one.fingerprint


def test_a_relative_jars_folder_starts_at_the_project(tmp_path):
    assert settings(tmp_path, jars_dir="jars").jars_dir == tmp_path / "jars"


def test_a_local_launch_listens_on_this_machine_only(monkeypatch, tmp_path):
    from floe_spark.java.runtime import find_java

    monkeypatch.setenv("FLOE_CACHE_DIR", str(tmp_path))
    java = find_java()
    assert launch_environment(java, local=True)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in launch_environment(java, local=False)
