"""Checks of quality plugins hold rows back like other declared checks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel

from floe_core.compile import compile_project
from floe_core.errors import ConfigurationError
from floe_core.plugins import PLUGIN_API_VERSION, PluginRegistry, QualityPlugin, QualityResult
from floe_core.schemas import CheckConfig
from floe_dagster.definitions import create_definitions
from floe_dagster.gate.checks import expand_checks
from floe_dagster.gate.evaluation import CheckedRows, evaluate, require_evaluated
from floe_iceberg import IcebergTableManager

PROJECT = """\
schema_version: 1
name: shop
orchestration: {module: MODULE}
tables:
  silver.orders:
    checks:
      - {type: plugin, plugin: enough, options: {at_least: "LEAST"}}
"""
ASSETS = """\
import pyarrow as pa
from dagster import asset


@asset(key=["silver", "orders"], metadata={"write_mode": "overwrite"})
def orders() -> pa.Table:
    return pa.table({"id": [1, 2, 3]})
"""


class Limit(BaseModel):
    at_least: int


class Enough(QualityPlugin):
    """Counts rows; a copy for each check shares the journal."""

    name = "enough"
    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION
    answer: object = None

    def __init__(self):
        self.journal = []

    def get_config_schema(self):
        return Limit

    def configure(self, config):
        self.journal.append("configure")
        self.least = config.at_least

    def startup(self):
        self.journal.append("start")

    def shutdown(self):
        self.journal.append("stop")

    def check(self, data):
        self.journal.append(f"check {data.table} at {'main' if data.ref is None else 'a branch'}")
        if isinstance(self.answer, BaseException):
            raise self.answer
        rows = sum(batch.num_rows for batch in data.batches())
        return self.answer or QualityResult(rows >= self.least, {"num_rows": rows})


@pytest.fixture
def enough():
    return Enough()


@pytest.fixture
def registry(enough):
    registry = PluginRegistry()
    registry.register(enough)
    return registry


def compiled(root, registry, least):
    module = f"quality_assets_{abs(hash(root))}"
    (root / f"{module}.py").write_text(ASSETS)
    (root / "floe.yaml").write_text(PROJECT.replace("MODULE", module).replace("LEAST", str(least)))
    return compile_project(root, registry=registry)


def run(artifacts, registry):
    definitions = create_definitions(artifacts, registry=registry)
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(raise_on_error=False)
    manager = definitions.resources["io_manager"].tables
    return result, manager


def test_a_plugin_that_accepts_the_rows_lets_them_through(registry, enough, tmp_path):
    result, manager = run(compiled(tmp_path, registry, 3), registry)
    assert result.success
    assert manager.scan("silver.orders").num_rows == 3
    assert enough.journal == ["configure", "start", "check silver.orders at a branch", "stop"]
    [found] = [one for one in result.get_asset_check_evaluations() if one.check_name == "enough"]
    assert (found.passed, found.metadata["num_rows"].value) == (True, 3)
    assert found.description == "the quality plugin enough accepts the rows."
    manager.close()


def test_a_plugin_that_refuses_the_rows_holds_them_back(registry, tmp_path):
    result, manager = run(compiled(tmp_path, registry, 4), registry)
    found = {one.check_name: one.passed for one in result.get_asset_check_evaluations()}
    assert found == {"enough": False, "published": False}
    assert manager.scan("silver.orders").num_rows == 0
    manager.close()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("plugin: enouhg, options: {at_least: 1}", "quality plugin 'enouhg', which is not installed"),
        ('plugin: enough, options: {at_least: "many"}', "at_least"),
        ("plugin: enough", "at_least"),
    ],
    ids=["unknown", "bad option", "missing option"],
)
def test_a_check_that_its_plugin_cannot_take_is_found_at_compilation(registry, tmp_path, written, says):
    text = f"schema_version: 1\nname: shop\ntables:\n  a.b:\n    checks:\n      - {{type: plugin, {written}}}\n"
    (tmp_path / "floe.yaml").write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        compile_project(tmp_path, registry=registry)
    [problem] = caught.value.problems
    assert says in problem.message
    assert problem.line == 6


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ZeroDivisionError("by zero"), "failed in the quality plugin 'enough': ZeroDivisionError: by zero"),
        (SystemExit("no rows"), "failed in the quality plugin 'enough': SystemExit: no rows"),
        (True, "returned bool instead of a QualityResult for check 'enough_id'"),
        (QualityResult("no"), "'enough' returned an invalid result for check 'enough_id': passed is 'no'"),
        (QualityResult(True, {"odd": None, 5: 1}), "figure 'odd' is None; figure 5 is 1"),
        (QualityResult(True, None), "figure 'figures' is None"),
    ],
    ids=["raises", "leaves", "no result", "text", "odd figures", "no figures"],
)
def test_a_plugin_that_cannot_judge_is_named(registry, enough, catalog, answer, says):
    enough.answer = answer
    manager = type("Manager", (IcebergTableManager,), {"plugins": registry})(catalog)
    manager.create_namespace("a")
    manager.create_table("a.b", pa.schema({"id": pa.int64()}))
    config = CheckConfig(type="plugin", plugin="enough", column="id", options={"at_least": "1"})
    [outcome] = evaluate(manager, expand_checks([config], table="a.b"), CheckedRows("a.b"))
    assert says in str(outcome.error)
    assert enough.journal[-1] == "stop"
    with pytest.raises(type(outcome.error)):
        require_evaluated([outcome])


def test_a_plugin_may_answer_with_what_a_dataframe_gives(registry, enough, tmp_path):
    enough.answer = QualityResult(np.bool_(True), {"rows": np.int64(3), "mean": np.float32(1.5)})
    result, manager = run(compiled(tmp_path, registry, 3), registry)
    assert result.success
    [found] = [one for one in result.get_asset_check_evaluations() if one.check_name == "enough"]
    assert (found.passed, found.metadata["rows"].value, found.metadata["mean"].value) == (True, 3, 1.5)
    manager.close()


def test_the_settings_of_a_plugin_belong_to_its_kind():
    with pytest.raises(ValueError, match="plugin needs plugin"):
        CheckConfig(type="plugin")
    with pytest.raises(ValueError, match="does not accept plugin"):
        CheckConfig(type="row_count", min=1, plugin="enough")
    assert CheckConfig(type="plugin", plugin="enough", columns=["a", "b"]).all_columns == ("a", "b")
