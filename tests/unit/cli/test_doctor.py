"""``floe doctor``: problems and suggested fixes."""

from __future__ import annotations

import http.server
import threading
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from floe_cli.doctor import machine
from floe_cli.doctor.machine import Status
from floe_core.schemas import ComputeConfig
from floe_storage.local import LocalStoragePlugin

NAMES = [
    *("python", "pyspark", "java", "jars", "config", "plugins", "catalog", "storage", "tables"),
    *("runs", "spark", "disk", "clock"),
]


def by_name(run):
    return {check["name"]: check for check in run.data}


def test_every_check_is_made_and_has_a_stable_shape(shop):
    run = shop("doctor", "-o", "json")
    assert [check["name"] for check in run.data] == NAMES
    assert all(set(check) == {"name", "status", "detail", "advice"} for check in run.data)
    checks = by_name(run)
    assert {
        checks[name]["status"] for name in ("python", "config", "plugins", "catalog", "storage", "tables", "clock")
    } == {"ok"}
    assert run.json["ok"] is (run.code == 0)


@pytest.mark.req("PL-02")
def test_the_health_of_the_projects_plugins_is_shown(shop):
    assert "sql 0.1.0 (healthy), local 0.1.0 (healthy)" in by_name(shop("doctor", "-o", "json"))["plugins"]["detail"]


@pytest.mark.req("PL-02")
@pytest.mark.parametrize("step", ["startup", "health_check"])
def test_a_plugin_that_does_not_start_or_is_unwell_is_named(shop, monkeypatch, step):
    def fail(_self):
        msg = "the bucket is gone"
        raise RuntimeError(msg)

    monkeypatch.setattr(LocalStoragePlugin, step, fail, raising=False)
    run = shop("doctor", "--no-write", "-o", "json")
    found = by_name(run)["plugins"]
    assert (run.code > 0, found["status"]) == (True, "failed")
    assert "floe.storage:local" in found["detail"]
    assert "the bucket is gone" in found["detail"]


def test_text_for_people(shop):
    out = shop("doctor").out
    assert "CHECK" in out
    assert "sql catalog 'floe' responds" in out


def test_a_table_is_tried_and_nothing_of_it_stays(shop):
    found = by_name(shop("doctor", "-o", "json"))["tables"]
    assert found["status"] == "ok"
    assert found["detail"].startswith("created, wrote, read and dropped floe_doctor_")
    assert shop("namespaces", "list", "-o", "json").data == []
    assert not [path for path in Path(".floe").rglob("*") if "floe_doctor" in path.name and path.is_file()]


def test_what_a_killed_doctor_left_is_cleared_by_the_next(shop):
    left, fresh = f"floe_doctor_{int(time.time()) - 7200}_0a1b2c3d", f"floe_doctor_{int(time.time())}_0a1b2c3d"
    for namespace in (left, fresh):
        assert shop("tables", "create", f"{namespace}.probe", "--schema", "id long").code == 0
    assert by_name(shop("doctor", "-o", "json"))["tables"]["status"] == "ok"
    # The younger one may still be running.
    assert shop("namespaces", "list", "-o", "json").data == [fresh]


def test_without_write_catalog_and_storage_stay_as_they_are(shop):
    checks = by_name(shop("doctor", "--no-write", "-o", "json"))
    assert {checks["storage"]["status"], checks["tables"]["status"]} == {"skipped"}


def test_outside_a_project_the_machine_is_checked_all_the_same(floe):
    run = floe("doctor", "-o", "json")
    assert run.code == 1
    checks = by_name(run)
    assert checks["config"]["status"] == "failed"
    assert "floe init" in checks["config"]["advice"]
    assert checks["catalog"]["status"] == "skipped"
    assert checks["disk"]["status"] in {"ok", "warning"}


def test_mistakes_in_the_configuration_are_listed(shop):
    with Path("floe.yaml").open("a") as stream:
        stream.write("\ncatalgo: {}\n")
    config = by_name(shop("doctor", "-o", "json"))["config"]
    assert config["status"] == "failed"
    assert "did you mean 'catalog'?" in config["detail"]


def test_a_storage_that_cannot_be_written_to(shop):
    Path("blocked").write_text("a file, no folder")
    with Path("floe.yaml").open("a") as stream:
        stream.write("\nstorage: {root: blocked/warehouse}\n")
    run = shop("doctor", "-o", "json")
    assert run.code != 0
    assert by_name(run)["storage"]["status"] == "failed"


def test_a_remote_spark_needs_no_java_here(tmp_path):
    remote = ComputeConfig(master="sc://spark.example.com:15002")
    assert machine.check_java(remote).status is Status.SKIPPED
    assert machine.check_spark_jars(remote, tmp_path, ()).status is Status.SKIPPED


def test_a_folder_of_jars_that_lacks_some(tmp_path, monkeypatch):
    monkeypatch.delenv("FLOE_JARS_DIR", raising=False)
    (tmp_path / "jars").mkdir()
    check = machine.check_spark_jars(ComputeConfig(jars_dir="jars"), tmp_path, ())
    assert check.status is Status.FAILED
    assert "iceberg-spark-runtime" in check.detail


def test_jars_that_are_not_fetched_yet_are_a_warning(tmp_path, monkeypatch):
    monkeypatch.delenv("FLOE_JARS_DIR", raising=False)
    monkeypatch.setenv("FLOE_CACHE_DIR", str(tmp_path))
    assert machine.check_spark_jars(ComputeConfig(), tmp_path, ()).status is Status.WARNING


def test_a_damaged_jar_is_a_failure(tmp_path, monkeypatch):
    from floe_core.runtime.spark_packages import ICEBERG_RUNTIME
    from floe_spark.java.jars import Jar

    monkeypatch.delenv("FLOE_JARS_DIR", raising=False)
    monkeypatch.setenv("FLOE_CACHE_DIR", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / Jar.from_coordinate(ICEBERG_RUNTIME).file_name).write_bytes(b"no jar")
    check = machine.check_spark_jars(ComputeConfig(), tmp_path, ())
    assert check.status is Status.FAILED
    assert "Delete" in check.advice


@pytest.mark.parametrize(
    ("free", "status"), [(10 * 1024**2, Status.FAILED), (1024**3, Status.WARNING), (100 * 1024**3, Status.OK)]
)
def test_disk_space(tmp_path, monkeypatch, free, status):
    import shutil

    real = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: real._replace(free=free))
    assert machine.check_disk(tmp_path).status is status


@pytest.fixture
def clock_server():
    """A server whose clock is an hour ahead and which refuses everything."""

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(401)
            self.send_header("Date", formatdate(time.time() + 3600, usegmt=True))
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


def test_a_clock_that_disagrees_with_a_server(tmp_path, clock_server):
    check = machine.check_clock(tmp_path, [clock_server])
    assert check.status is Status.FAILED
    assert clock_server in check.advice


def test_a_server_that_does_not_answer_says_nothing_about_the_clock(tmp_path):
    assert machine.check_clock(tmp_path, ["http://127.0.0.1:9/"]).status is Status.OK


def test_an_old_python(monkeypatch):
    monkeypatch.setattr("sys.version_info", (3, 9, 1, "final", 0))
    assert machine.check_python().status is Status.FAILED


def test_whatever_a_check_raises_is_its_result():
    def explode() -> machine.Check:
        msg = "boom"
        raise RuntimeError(msg)

    check = machine.attempt("spark", explode)
    assert (check.status, check.exit_code) == (Status.FAILED, 2)
