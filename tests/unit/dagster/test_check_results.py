"""Check results are appended exactly once, also by concurrent runs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from floe_core.schemas import CompiledArtifacts
from floe_dagster.gate.results import CheckRecord, results_operation
from floe_dagster.io.tables_source import TablesSource

RECORD = CheckRecord("bronze.orders", "small", "error", True, True, "passed", figures={"failing_rows": 0, "é": None})


@pytest.fixture
def results(tmp_path):
    artifacts = CompiledArtifacts.model_validate({"name": "shop", "floe_version": "0.1.0", "environment": "prod"})
    source = TablesSource.of_artifacts(artifacts.rooted_at(tmp_path))
    yield source.check_results
    source.close()


def keep(results, operation, *records):
    results.keep(records or [RECORD], kind="run", run_id="one", operation_id=operation)


def test_those_who_keep_first_at_the_same_time_lose_nothing(results):
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: keep(results, f"op{number // 2}"), range(6)))
    rows = results.source.tables().scan("floe_checks.results").to_pylist()
    assert len(rows) == 3
    assert {row["environment"] for row in rows} == {"prod"}
    assert json.loads(rows[0]["figures"]) == {"failing_rows": 0, "é": None}


def test_another_verdict_on_the_same_rows_is_kept_as_well():
    names = {results_operation("run", [record]) for record in (RECORD, replace(RECORD, seconds=3.0))}
    assert len(names) == 1
    others = [replace(RECORD, passed=False), replace(RECORD, check_name="b"), replace(RECORD, partition_key="x")]
    assert len(names | {results_operation("run", [record]) for record in others}) == 4
    assert results_operation("another", [RECORD]) not in names


def test_a_declaration_gives_the_table_its_properties(tmp_path):
    declared = {"floe_checks.results": {"properties": {"write.parquet.compression-codec": "gzip"}}}
    artifacts = CompiledArtifacts.model_validate({"name": "shop", "floe_version": "0.1.0", "tables": declared})
    source = TablesSource.of_artifacts(artifacts.rooted_at(tmp_path))
    keep(source.check_results, "op")
    made = source.tables().load_table("floe_checks.results")
    assert made.properties["write.parquet.compression-codec"] == "gzip"
    assert made.schema().find_field("figures").doc == "Measured values, as JSON."
    source.close()
