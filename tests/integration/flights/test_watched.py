"""Telemetry of the flights pipeline on Spark: one trace per run, in one process and in several."""

from __future__ import annotations

import json
import os
from datetime import date

import pytest

from floe_spark.session.settings import SparkSettings
from floe_testing import warm_python
from floe_testing.spark import running_server
from floe_testing.telemetry.collector import Collector, whole_trace

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

DAY = "2013-03-07"


@pytest.fixture
def watched(project, tmp_path):
    """Run assets on a Spark of their own with a receiver; gives the receiver, and the tables that the command names."""
    place = project.folder / "floe.yaml"
    text = place.read_text()
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
    with running_server(SparkSettings("local[2]", tmp_path, driver_memory="1g", user_conf=conf)) as server:
        environ = {key: value for key, value in os.environ.items() if key != "TRACEPARENT"}
        environ |= {"SPARK_REMOTE_ADDRESS": server.url}

        def run(*options):
            with Collector() as collector:
                place.write_text(f"{text}\nobservability: {{otlp_endpoint: '{collector.url}'}}\n")
                command = ("run", *options, "--env", "connect", "--output", "json", "--project", str(project.folder))
                done = warm_python.run("-m", "floe_cli", *command, env=environ)
            assert done.returncode == 0, done.stdout + done.stderr
            return collector, {asset["table"] for asset in json.loads(done.stdout)["data"]["assets"]}

        yield run
    place.write_text(text)


def snapshots(project):
    """Return every snapshot that the pipeline's tables have, as the trace names them."""
    with project.tables() as manager:
        layers = ("bronze", "silver", "gold", "floe_checks")
        tables = [f"{layer}.{table}" for layer in layers for table in manager.list_tables(layer)]
        return sorted((table, made.snapshot_id) for table in tables for made in manager.list_snapshots(table))


@pytest.mark.req("FR-038")
def test_a_run_of_the_flights_is_one_trace(project, watched):
    from flights import feed

    feed.deliver_reference()
    feed.deliver(date.fromisoformat(DAY), date.fromisoformat(DAY))
    collector, ran = watched("--partition", DAY)
    tree = whole_trace(collector, root="floe.run")
    assert [asset.replace("/", ".") for asset, _ in tree.assets] == sorted(ran)
    assert {asset for asset, partition in tree.assets if partition == DAY} == {"bronze/flights", "silver/flights"}
    before = snapshots(project)
    assert tree.commits == before
    assert {table for table, _ in before} == {*ran, "floe_checks.results"}
    for write in tree.named("iceberg.engine_write"):
        assert tree.path(write)[:3] == ["floe.run", "dagster.run", "dagster.asset"]
    published = {span.attributes["iceberg.table"] for span in tree.named("iceberg.publish_branch")}
    assert published == {"bronze.flights", "silver.flights", "gold.daily"}
    by_spark = {point.attributes["table"] for point in collector.points("floe.commit.duration") if by(point, "spark")}
    assert by_spark == ran

    collector, ran = watched("--select", "gold.daily", "--processes", "2")
    tree = whole_trace(collector, root="floe.run")
    assert tree.assets == [("gold/daily", None)]
    assert ran == {"gold.daily"}
    assert tree.commits == sorted(set(snapshots(project)) - set(before))
    assert [table for table, _ in tree.commits] == ["floe_checks.results", "gold.daily"]
    [asset], [gate] = tree.named("dagster.asset"), tree.named("dagster.step")
    assert len({tree.roots[0].process, asset.process, gate.process}) == 3


def by(point, engine):
    return point.attributes["engine"] == engine and point.attributes["outcome"] == "ok"
