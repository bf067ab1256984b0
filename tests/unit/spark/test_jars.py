"""Jars come from a folder, a cache or the network, and are verified."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from floe_core.errors import EngineSetupError
from floe_spark.java import jars
from floe_spark.java.jars import BASE_PACKAGES, Jar, check_jars, resolve_jars
from floe_spark.java.runtime import JavaRuntime

CONTENT = b"a jar, as far as a digest can tell"


@pytest.fixture(autouse=True)
def _pins(monkeypatch, tmp_path):
    digest = hashlib.sha256(CONTENT).hexdigest()
    monkeypatch.setattr(jars, "PINNED_SHA256", dict.fromkeys(BASE_PACKAGES, digest))
    monkeypatch.setenv("FLOE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FLOE_JARS_DIR", raising=False)


def fill(folder, *, content=CONTENT, without=()):
    folder.mkdir(parents=True)
    for package in set(BASE_PACKAGES) - set(without):
        (folder / Jar.from_coordinate(package).file_name).write_bytes(content)
    return folder


def no_java():
    """A Java that cannot run, so that nothing can be fetched."""
    return JavaRuntime(Path("/nonexistent"), 17, "PATH")


def test_a_folder_serves_a_machine_without_a_network(tmp_path, monkeypatch):
    folder = fill(tmp_path / "jars")
    found = resolve_jars(jars_dir=folder, java=no_java())
    assert {path.parent for path in found.paths} == {folder.resolve()}
    assert len(found.paths) == len(BASE_PACKAGES)
    monkeypatch.setenv("FLOE_JARS_DIR", str(folder))
    assert resolve_jars(java=no_java()) == found


def test_a_jar_missing_from_the_folder_is_named(tmp_path):
    folder = fill(tmp_path / "jars", without=[jars.SQLITE_JDBC])
    with pytest.raises(EngineSetupError, match=r"sqlite-jdbc-3\.53\.4\.0\.jar not found in"):
        resolve_jars(jars_dir=folder, java=no_java())
    assert {status.coordinate for status in check_jars(jars_dir=folder) if not status.intact} == {jars.SQLITE_JDBC}


def test_a_jar_with_other_content_is_refused(tmp_path):
    folder = fill(tmp_path / "jars", content=b"tampered")
    with pytest.raises(EngineSetupError, match="SHA-256"):
        resolve_jars(jars_dir=folder, java=no_java())
    assert not any(status.intact for status in check_jars(jars_dir=folder))


def test_what_the_cache_holds_is_not_fetched(tmp_path):
    fill(tmp_path / "cache" / "jars")
    assert len(resolve_jars(java=no_java()).paths) == len(BASE_PACKAGES)
    assert all(status.intact for status in check_jars())


def test_what_cannot_be_fetched_says_how_to_go_on(tmp_path):
    with pytest.raises(EngineSetupError) as caught:
        resolve_jars(java=no_java())
    assert "Cannot download jar" in str(caught.value)
    assert "compute.jars_dir" in str(caught.value)
    assert list((tmp_path / "cache" / "jars").glob("*.jar")) == []


def test_what_arrives_damaged_never_gets_into_the_cache(tmp_path, monkeypatch):
    def arrive_damaged(arguments, **_options):
        target = Path(arguments[arguments.index("-retrieve") + 1]).parent
        (target / Jar.from_coordinate(BASE_PACKAGES[0]).file_name).write_bytes(b"half a jar")
        return ""

    monkeypatch.setattr(jars, "run_ivy", arrive_damaged)
    with pytest.raises(EngineSetupError, match="SHA-256"):
        resolve_jars(java=no_java())
    assert list((tmp_path / "cache" / "jars").glob("*.jar")) == []


def test_a_package_without_a_pin_is_left_to_spark(tmp_path):
    fill(tmp_path / "cache" / "jars")
    assert resolve_jars(["com.example:tool:1.0"], java=no_java()).packages == ("com.example:tool:1.0",)


@pytest.mark.parametrize("text", ["", "a:b", "a:b:c:d", "a::c"])
def test_a_malformed_package_is_refused(text):
    with pytest.raises(EngineSetupError, match="not a valid Maven coordinate"):
        Jar.from_coordinate(text)
