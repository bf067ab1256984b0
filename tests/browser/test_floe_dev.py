"""``floe dev`` as a process: serves the UI, runs all steps on one Spark server, and stops all its processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.xdist_group("floe-dev")]

LAUNCH = """
mutation($selector: JobOrPipelineSelector!) {
  launchPipelineExecution(executionParams: {selector: $selector, mode: "default"}) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
STATUS = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
METADATA = """
query($key: AssetKeyInput!) {
  assetOrError(assetKey: $key) {
    ... on Asset {
      assetMaterializations(limit: 1) {
        metadataEntries { label ... on TextMetadataEntry { text } ... on IntMetadataEntry { intRepr } }
      }
    }
  }
}
"""


def test_assets_run_on_one_spark_and_ctrl_c_ends_everything(dev_server):
    [repository] = dev_server.graphql(
        "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
    )["repositoriesOrError"]["nodes"]
    assert repository["location"]["name"] == "shop"
    groups = dev_server.graphql("{ assetNodes { groupName kinds } }")["assetNodes"]
    assert sorted((node["groupName"], node["kinds"]) for node in groups) == [
        ("bronze", ["iceberg"]),
        ("gold", ["iceberg"]),
    ]

    selector = {
        "repositoryLocationName": "shop",
        "repositoryName": repository["name"],
        "jobName": "__ASSET_JOB",
        "assetSelection": [{"path": ["bronze", "orders"]}, {"path": ["gold", "daily_revenue"]}],
    }
    launched = dev_server.graphql(LAUNCH, selector=selector)["launchPipelineExecution"]
    run_id = launched["run"]["runId"]
    engines: set[int] = set()

    def over() -> bool:
        engines.update(dev_server.engines())
        return dev_server.graphql(STATUS, id=run_id)["runOrError"]["status"] in {"SUCCESS", "FAILURE", "CANCELED"}

    dev_server.eventually(over, f"run {run_id} did not end")
    assert dev_server.graphql(STATUS, id=run_id)["runOrError"]["status"] == "SUCCESS", dev_server.log.read_text()
    state = Path(dev_server.folder, ".floe", "spark", "connect-server.json")
    assert engines == {json.loads(state.read_text())["pid"]}

    [made] = dev_server.graphql(METADATA, key={"path": ["gold", "daily_revenue"]})["assetOrError"][
        "assetMaterializations"
    ]
    entries = {entry["label"]: entry for entry in made["metadataEntries"]}
    assert entries["engine"]["text"] == "spark"
    assert entries["num_rows"]["intRepr"] == "7"

    started = dev_server.descendants()
    assert any("dagster_webserver" in command for command in started.values())
    assert dev_server.interrupt() == 0
    assert "The Dagster UI has stopped." in dev_server.log.read_text()
    assert not state.exists()
    left = {pid: command for pid, command in started.items() if command and dev_server.command_line(pid) == command}
    assert left == {}
