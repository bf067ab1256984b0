"""Declared checks, computed on Spark in one pass."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.errors import ConfigurationError, InvalidScanError
from floe_core.plugins import PLUGIN_API_VERSION, PluginRegistry, QualityPlugin, QualityResult
from floe_core.schemas import CheckConfig
from floe_dagster.gate.checks import expand_checks
from floe_dagster.gate.evaluation import CheckedRows, require_evaluated
from floe_dagster.gate.evaluation import evaluate as evaluated

pytestmark = pytest.mark.spark

NOW = datetime.now(UTC)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 2, None], pa.int64()),
        "region": ["n", "n", "s", "it's"],
        "amount": [1.5, -1.0, 10.0, None],
        "part": ["a", "a", "b", "b"],
        "at": pa.array([NOW - timedelta(hours=h) for h in (1, 2, 3, 30)], pa.timestamp("us", tz="UTC")),
        "day": pa.array([NOW.date()] * 4, pa.date32()),
    }
)


@pytest.fixture
def table(tables):
    """Give a table with those rows."""
    tables.create_namespace("bronze")
    tables.create_table("bronze.orders", ROWS.schema)
    tables.append("bronze.orders", ROWS)
    return "bronze.orders"


@pytest.fixture
def evaluate(tables, table):
    """Evaluate checks and give what each found."""

    def run(*settings, ref=None, rows=None):
        checks = expand_checks([CheckConfig.model_validate(item) for item in settings], table=table)
        outcomes = require_evaluated(evaluated(tables, checks, CheckedRows(table, ref, rows)))
        return {outcome.check.name: (outcome.passed, dict(outcome.figures)) for outcome in outcomes}

    return run


def test_every_kind_of_check_in_one_pass(evaluate, tables, monkeypatch):
    plane = tables.context.plane()
    reads, original = [], plane.aggregate
    monkeypatch.setattr(plane, "aggregate", lambda request, asked: reads.append(request) or original(request, asked))
    found = evaluate(
        {"type": "not_null", "columns": ["id", "region"]},
        {"type": "unique", "column": "id"},
        {"type": "unique", "columns": ["id", "part"]},
        {"type": "range", "column": "amount", "min": 0, "max": 10},
        {"type": "range", "column": "day", "max": "2000-01-01"},
        {"type": "row_count", "min": 1, "max": 3},
        {"type": "freshness", "column": "at", "max_age_hours": 2},
        {"type": "freshness", "column": "at", "max_age_hours": 2, "where": "part = 'b'", "name": "stale"},
        {"type": "freshness", "column": "at", "max_age_hours": 2, "where": "part = 'c'", "name": "never"},
        {"type": "accepted_values", "column": "region", "values": ["n", "it's"]},
        {"type": "accepted_values", "column": "id", "values": [1, 2]},
        {"type": "not_null", "column": "id", "where": "part = 'a'", "name": "some"},
    )
    assert len(reads) == 1
    age = found.pop("freshness_at")
    assert age[0]
    assert 0.9 < age[1]["age_hours"] < 2
    assert not found.pop("stale")[0]
    assert found == {
        "not_null_id": (False, {"failing_rows": 1}),
        "not_null_region": (True, {"failing_rows": 0}),
        "unique_id": (False, {"failing_rows": 1}),
        "unique_id_part": (True, {"failing_rows": 0}),
        "range_amount": (False, {"failing_rows": 1, "example": "-1.0"}),
        "range_day": (False, {"failing_rows": 4, "example": NOW.date().isoformat()}),
        "row_count": (False, {"num_rows": 4}),
        "never": (False, {"rows": 0}),
        "accepted_values_region": (False, {"failing_rows": 1, "example": "s"}),
        "accepted_values_id": (True, {"failing_rows": 0}),
        "some": (True, {"failing_rows": 0}),
    }


def test_only_the_rows_that_were_written_count_unless_the_whole_table_is_meant(evaluate):
    part, table = {"type": "row_count", "max": 2}, {"type": "row_count", "max": 2, "scope": "table", "name": "all"}
    distinct = {"type": "unique", "column": "part"}
    assert evaluate(part, distinct, rows="part = 'a'") == {
        "row_count": (True, {"num_rows": 2}),
        "unique_part": (False, {"failing_rows": 1}),
    }
    assert evaluate(part, table, distinct, rows="part = 'a'") == {
        "row_count": (True, {"num_rows": 2}),
        "all": (False, {"num_rows": 4}),
        "unique_part": (False, {"failing_rows": 1}),
    }


def test_a_branch_is_checked_by_its_own_rows(evaluate, tables, table):
    tables.create_branch(table, "audit.x")
    tables.append(table, ROWS, branch="audit.x")
    count = {"type": "row_count", "max": 4}
    assert evaluate(count)["row_count"] == (True, {"num_rows": 4})
    assert evaluate(count, ref="audit.x")["row_count"] == (False, {"num_rows": 8})


def test_an_empty_table_passes_what_looks_at_rows(evaluate, tables, table):
    tables.overwrite(table, ROWS.slice(0, 0))
    found = evaluate({"type": "not_null", "column": "id"}, {"type": "row_count", "min": 1})
    assert [passed for passed, _ in found.values()] == [True, False]


def test_a_column_that_is_not_there_is_named(evaluate):
    with pytest.raises(InvalidScanError, match=r"check 'not_null_regoin'.*Did you mean 'region'"):
        evaluate({"type": "not_null", "column": "regoin"})


def test_checks_with_one_name_are_refused(evaluate):
    twice = {"type": "range", "column": "amount", "min": 0}
    with pytest.raises(ConfigurationError, match="range_amount"):
        evaluate(twice, twice)
    with pytest.raises(ConfigurationError, match="published"):
        evaluate({"type": "row_count", "min": 1, "name": "published"})


class Total(QualityPlugin):
    """Adds a column up."""

    name = "total"
    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION

    def check(self, data):
        found = [value for batch in data.batches() for value in batch.column(0).to_pylist() if value is not None]
        return QualityResult(sum(found) <= 5, {"total": sum(found)})


def test_a_quality_plugin_sees_the_rows_that_its_check_is_about(tables, table, evaluate, monkeypatch):
    registry = PluginRegistry(source=list)
    registry.register(Total())
    monkeypatch.setattr(type(tables), "plugins", registry)
    plugin = {"type": "plugin", "plugin": "total", "column": "amount"}
    found = evaluate(
        {**plugin, "name": "written"},
        {**plugin, "name": "positive", "where": "amount > 0", "scope": "table"},
        {**plugin, "name": "all", "scope": "table"},
        rows="part = 'a'",
    )
    assert found == {
        "written": (True, {"total": 0.5}),
        "positive": (False, {"total": 11.5}),
        "all": (False, {"total": 10.5}),
    }
