"""The flights example on other engines and catalogs, selected by the environment in floe.yaml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date

import pytest

from floe_spark.session.settings import SparkSettings
from floe_testing.spark import running_server, standalone_cluster

pytestmark = [pytest.mark.live, pytest.mark.timeout(600), pytest.mark.req("SC-009")]

DAYS = ("2013-07-01", "2013-07-02")


@pytest.fixture
def ran(project, raw):
    """Run two days in a process of its own, as PySpark wants it, and compare with the raw file."""
    from flights import feed

    feed.deliver_reference()
    feed.deliver(*map(date.fromisoformat, DAYS))

    def run(environment: str, **variables: str) -> None:
        command = [sys.executable, "-m", "floe_cli", "run", "--env", environment, "--output", "json"]
        command += ["--partition-range", "...".join(DAYS), "--project", str(project.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)
        assert done.returncode == 0, done.stdout + done.stderr
        assets = {asset["table"]: asset for asset in json.loads(done.stdout)["data"]["assets"]}
        expected = raw.flight_date.isin([date.fromisoformat(day) for day in DAYS]).sum()
        assert assets["silver.flights"]["state"] == "published"
        assert assets["silver.flights"]["total_rows"] == expected
        assert assets["gold.daily"]["total_rows"] == len(DAYS)

    return run


def test_on_a_standalone_cluster_with_two_workers(ran, tmp_path):
    with standalone_cluster(tmp_path) as master:
        ran("cluster", SPARK_MASTER=master)


def test_on_spark_connect(ran, tmp_path):
    settings = SparkSettings("local[2]", tmp_path, driver_memory="1g")
    with running_server(settings) as server:
        ran("connect", SPARK_REMOTE_ADDRESS=server.url)


def test_on_a_rest_catalog_with_minio(ran, iceberg_rest, minio):
    ran(
        "lake",
        CATALOG_URI=iceberg_rest.url,
        CATALOG_WAREHOUSE="lake",
        S3_BUCKET=minio["bucket"],
        S3_ENDPOINT=minio.url,
        S3_ACCESS_KEY_ID=minio["access_key_id"],
        S3_SECRET_ACCESS_KEY=minio["secret_access_key"],
    )
