"""The dbt profiles of all storage plugins, loaded by dbt-spark."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from floe_core.plugins import PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_core.schemas import StorageConfig
from floe_testing.services.host.toolchain import require

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

# dbt-core 1.12 builds a parser from a download outside of the package index.
PACKAGES = ["dbt-spark==1.11.*", "dbt-core==1.11.*"]
SECRET = "s3cret;with'quotes"
CONNECTION_STRING = "AccountName=acct;AccountKey=a2V5==;EndpointSuffix=core.windows.net"
SECTIONS = {
    "local": {"root": "lake with space"},
    "s3": {
        "bucket": "lake",
        "endpoint": "http://127.0.0.1:9000",
        "credentials": {"access_key_id": "id", "secret_access_key": "${LAKE_SECRET}"},
    },
    "gcs": {"bucket": "lake", "project": "p", "credentials": {"token": "${LAKE_SECRET}"}},
    "azure": {"bucket": "lake", "credentials": {"account_name": "acct", "connection_string": "${LAKE_STRING}"}},
}
EXPECTED = {
    "local": {},
    "s3": {"spark.sql.catalog.floe.s3.secret-access-key": SECRET},
    "gcs": {"spark.sql.catalog.floe.gcs.oauth2.token": SECRET},
    "azure": {"spark.sql.catalog.floe.adls.auth.shared-key.account.key": "a2V5=="},
}
READ_PROFILE = """
import json, os, sys
from argparse import Namespace
from dbt_common.context import set_invocation_context
from dbt.flags import set_from_args
folder, target = sys.argv[1:]
set_invocation_context(os.environ)
set_from_args(Namespace(PROFILES_DIR=folder, PROJECT_DIR=folder), None)
from dbt.config.runtime import load_profile
profile = load_profile(folder, {}, target_override=target)
print(json.dumps(profile.credentials.to_dict()))
"""


@pytest.fixture(scope="module")
def dbt_python(tmp_path_factory):
    """Give a Python that has dbt-spark, and PySpark from this environment."""
    uv = require("uv", folders=[Path(__file__).parents[3] / ".floe-dev/uv/bin"], hint="make setup brings it")
    folder = tmp_path_factory.mktemp("dbt")
    python = folder / "venv/bin/python"
    subprocess.run([uv, "venv", "--quiet", folder / "venv"], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *PACKAGES], check=True)
    links = folder / "links"
    links.mkdir()
    installed = Path(pyspark.__file__).parents[1]
    for name in ("pyspark", "py4j"):
        (links / name).symlink_to(installed / name)
    return python, {"PYTHONPATH": str(links), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Give a dbt project whose profile has one target for each storage plugin."""
    folder = tmp_path_factory.mktemp("project")
    outputs = {}
    for kind, section in SECTIONS.items():
        plugin = PluginRegistry().get(PluginType.STORAGE, kind)
        plugin.bind(StorageConfig(type=kind, **section), project_root=folder)
        outputs[kind] = plugin.get_dbt_profile_config()
    # JSON is YAML.
    (folder / "profiles.yml").write_text(json.dumps({"lake": {"target": "local", "outputs": outputs}}))
    (folder / "dbt_project.yml").write_text("name: lake\nversion: '1'\nprofile: lake\n")
    return folder


@pytest.mark.req("PL-05")
@pytest.mark.parametrize("kind", SECTIONS)
def test_dbt_spark_reads_the_output(dbt_python, project, kind):
    python, environ = dbt_python
    done = subprocess.run(
        [python, "-c", READ_PROFILE, project, kind],
        env={**os.environ, **environ, "LAKE_SECRET": SECRET, "LAKE_STRING": CONNECTION_STRING},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    credentials = json.loads(done.stdout.splitlines()[-1])
    assert credentials["method"] == "session"
    parameters = credentials["server_side_parameters"]
    assert EXPECTED[kind].items() <= parameters.items()
    assert parameters["spark.sql.catalog.floe.warehouse"].startswith(("file://", "s3://", "gs://", "abfss://"))
