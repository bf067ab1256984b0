"""``floe spark`` without a running server."""

from __future__ import annotations

from pathlib import Path


def test_without_a_server_the_way_to_one_is_told(shop):
    run = shop("spark", "status")
    assert run.code == 0
    assert "floe spark start" in run.out
    assert shop("spark", "status", "-o", "json").data["running"] is False


def test_stopping_nothing_is_fine(shop):
    assert shop("spark", "stop", "-o", "json").json == {"ok": True, "data": {"stopped": False}}


def test_only_a_local_spark_can_be_kept_warm(shop):
    with Path("floe.yaml").open("a") as stream:
        stream.write("\ncompute: {master: 'spark://spark.example.com:7077'}\n")
    run = shop("spark", "start", "-o", "json")
    assert run.code == 1
    assert run.error["type"] == "EngineSetupError"
