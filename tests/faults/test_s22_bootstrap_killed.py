"""S22: a rerun completes a bootstrap that was killed after any step; ten concurrent runs create one layout."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from floe_tenancy import verify_tenant
from floe_testing.tenants import EmbeddedTenants

# Forks a process for each bootstrap, which can be told to kill itself after its n-th step.
PROCESSES = """
import inspect, json, os, signal, sys
from pathlib import Path
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.io import pyarrow
from floe_catalogs.sql import catalog as sql_catalog
from floe_storage.gcs import GoogleObjectStore
from floe_storage.local import LocalObjectStore
from floe_storage.obstore_store import ObstoreObjectStore
from floe_testing.tenants import EmbeddedTenants

folder, runs, place = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
steps = []

def deadly_after(owner, name, deadly):
    original = getattr(owner, name)
    def step(*args, **kwargs):
        done = original(*args, **kwargs)
        steps.append(name)
        if len(steps) == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    setattr(owner, name, staticmethod(step) if isinstance(inspect.getattr_static(owner, name), staticmethod) else step)

def bootstrap(number, tenant, deadly):
    for store in (LocalObjectStore, ObstoreObjectStore, GoogleObjectStore):
        deadly_after(store, "create", deadly)
    deadly_after(sql_catalog.SharedSqlCatalog, "create_namespace", deadly)
    deadly_after(MetastoreCatalog, "_write_metadata", deadly)
    deadly_after(sql_catalog.SharedSqlCatalog, "create_table", deadly)
    tenants = EmbeddedTenants(folder, metadata=not place, place=place)
    result = tenants.bootstrapper.bootstrap_client(tenant, tenants.config)
    shown = {"steps": steps, "created": result.created_tables, "existing": result.existing_tables}
    (folder / f"result-{number}.json").write_text(json.dumps(shown))

waiting, starter = os.pipe()
children = []
for number, (tenant, deadly) in enumerate(runs):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(starter)
            os.read(waiting, 1)
            bootstrap(number, tenant, deadly)
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    children.append(child)
# Closing the pipe starts all of them at once.
os.close(waiting)
os.close(starter)
print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]))
"""
# Two markers, the tenant's namespace, and metadata and catalog row of three tables.
STEPS = ["create"] * 2 + ["create_namespace"] + ["_write_metadata", "create_table"] * 3


def bootstrap_in_processes(folder, runs, place=None):
    """Run bootstraps at once, each ``(tenant, step to die after)``; return how their processes ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESSES, str(folder), json.dumps(runs), json.dumps(place or {})],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture
def tenants(tmp_path):
    tenants = EmbeddedTenants(tmp_path, metadata=True)
    catalog = tenants.load(tenants.config)
    # Creates the namespace of all tenants, so that every run has the same steps.
    catalog.create_namespace("tenants")
    yield tenants
    tenants.close()


def check(tenants, names):
    with tenants.bootstrapper.session(tenants.config) as session:
        for name in names:
            report = verify_tenant(session, name)
            assert report.ok, report
            assert session.manager.list_tables(f"tenants.{name}") == ["events", "main", "metrics"]


@pytest.mark.req("TN-04")
def test_s22_killed_after_each_step_a_rerun_converges(tenants):
    # All in one folder, because leftovers of one tenant must not affect the others either.
    names = [f"tenant-{deadly}" for deadly in range(1, len(STEPS) + 1)]
    runs = [(name, deadly) for deadly, name in enumerate(names, start=1)]
    codes, _ = bootstrap_in_processes(tenants.folder, runs)
    assert codes == [-signal.SIGKILL] * len(STEPS)
    for name in names:
        result = tenants.bootstrapper.bootstrap_client(name, tenants.config)
        assert {*result.created_tables, *result.existing_tables} == {"main", "events", "metrics"}
    check(tenants, names)


@pytest.mark.req("TN-04")
@pytest.mark.parametrize("deadly", [1, 3, 4])
def test_s22_the_first_tenant_of_all_converges_as_well(tmp_path, deadly):
    # Killed after its first marker, after the namespace of all tenants, and after its own namespace.
    tenants = EmbeddedTenants(tmp_path, metadata=True)
    codes, _ = bootstrap_in_processes(tmp_path, [("acme", deadly)])
    assert codes == [-signal.SIGKILL]
    tenants.bootstrapper.bootstrap_client("acme", tenants.config)
    check(tenants, ["acme"])
    tenants.close()


@pytest.mark.req("TN-04")
def test_s22_ten_bootstraps_at_once_leave_one_layout(tenants):
    codes, errors = bootstrap_in_processes(tenants.folder, [("acme", 0)] * 10)
    assert codes == [0] * 10, errors
    results = [json.loads((tenants.folder / f"result-{number}.json").read_text()) for number in range(10)]
    created = [table for result in results for table in result["created"]]
    assert sorted(created) == ["events", "main", "metrics"]
    assert all({*result["created"], *result["existing"]} == {"main", "events", "metrics"} for result in results)
    check(tenants, ["acme"])


def test_s22_the_steps_that_are_killed_are_all_there_are(tenants):
    codes, errors = bootstrap_in_processes(tenants.folder, [("acme", 0)])
    assert codes == [0], errors
    assert json.loads((tenants.folder / "result-0.json").read_text())["steps"] == STEPS


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["minio", "fake_gcs", "azurite"])
@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
@pytest.mark.req("TN-03", "TN-04")
def test_s22_the_same_on_object_stores(store, request, tmp_path, monkeypatch):
    # gcsfs uses an API that emulators do not have.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    place = _place(store, request.getfixturevalue(store)) | {"warehouse_prefix": f"s22/{tmp_path.name}"}
    tenants = EmbeddedTenants(tmp_path, place=place)
    tenants.load(tenants.config).create_namespace("tenants")
    # One marker less than with a separate metadata location.
    steps = STEPS[1:]
    names = [f"tenant-{deadly}" for deadly in range(1, len(steps) + 1)]
    killed = [(name, deadly) for deadly, name in enumerate(names, start=1)]
    codes, errors = bootstrap_in_processes(tmp_path, [*killed, *[("acme", 0)] * 10], place)
    assert codes == [-signal.SIGKILL] * len(steps) + [0] * 10, errors
    results = [json.loads(path.read_text()) for path in tmp_path.glob("result-*.json")]
    assert sorted(table for result in results for table in result["created"]) == ["events", "main", "metrics"]
    for name in names:
        tenants.bootstrapper.bootstrap_client(name, tenants.config)
    check(tenants, ["acme", *names])
    tenants.close()


def _place(store, server):
    if store == "fake_gcs":
        fields = {"provider": "gcs", "warehouse_bucket": server["bucket"], "project": server["project"]}
    elif store == "minio":
        keys = {"access_key_id": server["access_key_id"], "secret_access_key": server["secret_access_key"]}
        fields = {"provider": "s3", "warehouse_bucket": server["bucket"], **keys}
    else:
        keys = {"access_key_id": server["account"], "secret_access_key": server["account_key"]}
        fields = {"provider": "azure", "warehouse_bucket": server["container"], **keys}
    return fields | {"endpoint": server.url}
