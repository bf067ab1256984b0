"""``floe validate``: each mistake with its location in floe.yaml and a suggestion."""

from __future__ import annotations

import io
import json
import uuid
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main

ASSETS = """\
import pyarrow as pa
from dagster import DailyPartitionsDefinition, asset


@asset(key=["bronze", "orders"], metadata={"write_mode": "overwrite"})
def orders() -> pa.Table:
    return pa.table({"id": [1]})


@asset(
    key=["bronze", "visits"],
    partitions_def=DailyPartitionsDefinition(start_date="2026-01-01"),
    metadata={"partition_column": "day"},
)
def visits() -> pa.Table:
    return pa.table({"id": [1]})
"""
HEAD = "name: shop\norchestration:\n  module: MODULE\n"
COLUMNS = "    columns: [{name: id, type: long}, {name: placed, type: date}, {name: note, type: string}]\n"
ALIKE = "    checks: [{type: not_null, column: id}, {type: range, column: id, min: 1, name: not_null_id}]\n"


@pytest.fixture
def validate(tmp_path):
    """Validate a project, as JSON."""

    def run(text, assets=ASSETS):
        module = f"assets_{uuid.uuid4().hex}"
        (tmp_path / f"{module}.py").write_text(assets)
        (tmp_path / "floe.yaml").write_text(text.replace("MODULE", module))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["validate", "--project", str(tmp_path), "-o", "json"])
        said = json.loads(out.getvalue())
        return code, said["error"]["problems"] if code else []

    return run


def test_a_sound_project_is_valid(validate):
    schedules = "  schedules: {nightly: {cron: '0 6 * * mon-fri', timezone: Europe/Berlin, select: bronze.orders}}\n"
    checks = "    checks: [{type: not_null, column: id}, {type: unique, columns: [id, placed]}]\n"
    partitions = "    partition_by: [month(placed), 'bucket(4, id)']\n"
    text = f"{HEAD}{schedules}tables:\n  bronze.orders:\n{COLUMNS}{checks}{partitions}"
    assert validate(text) == (0, [])


@pytest.mark.parametrize(
    ("text", "place", "told", "fix"),
    [
        (
            f"{HEAD}  schedules: {{n: {{cron: 61 * * * *}}}}\n",
            (4, 25),
            "the minute must be between 0 and 59, not 61",
            "",
        ),
        (f"{HEAD}  schedules: {{n: {{cron: 0 6 * *}}}}\n", (4, 25), "has five fields", ""),
        (f"{HEAD}  schedules: {{n: {{cron: 0 6 * * mom}}}}\n", (4, 25), "did you mean 'mon'?", ""),
        (f"{HEAD}  schedules: {{n: {{cron: '@dayly'}}}}\n", (4, 25), "did you mean '@daily'?", ""),
        (
            f"{HEAD}  schedules:\n    n: {{cron: 0 6 * * *, timezone: Europe/Berlim}}\n",
            *((5, 36), "unknown time zone, did you mean 'Europe/Berlin'?", ""),
        ),
        (
            f"{HEAD}  schedules: {{n: {{cron: 0 6 * * *, select: no.such}}}}\n",
            (4, 44),
            "which matches no asset",
            "Assets",
        ),
        (
            "name: shop\norchestration: {module: no_such_module}\n",
            (2, 25),
            "'no_such_module', set as orchestration.module, was not found",
            "",
        ),
        (
            f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}    checks: [{{type: not_null, column: plaecd}}]\n",
            *((7, 39), "column 'plaecd' in a check of bronze.orders", "Write 'placed'"),
        ),
        (
            f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}    checks: [{{type: unique, columns: [id, region]}}]\n",
            *((7, 43), "column 'region' in a check of bronze.orders is not declared", "Declare it under columns"),
        ),
        (
            f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}{ALIKE}",
            *((7, 5), "have the same name or a reserved one: not_null_id", "Give each check a unique name."),
        ),
        (
            f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}    partition_by: [day(note)]\n",
            *((7, 20), "day(note)", ""),
        ),
        (
            f"{HEAD}tables:\n  bronze.ordres:\n    description: orders\n",
            *(
                (5, 3),
                "no asset writes the table 'bronze.ordres', did you mean 'bronze.orders'?",
                "Write 'bronze.orders'",
            ),
        ),
        (
            f"{HEAD}tables:\n  silver.other:\n    checks: [{{type: row_count, min: 1}}]\n",
            *((5, 3), "silver.other", ""),
        ),
        (
            f"{HEAD}tables:\n  bronze.visits:\n{COLUMNS}",
            *((6, 5), "is partitioned by 'day', but its data has no such column", "Columns: id, placed, note"),
        ),
        (
            f"{HEAD}tables:\n  bronze.orders:\n    columns: [{{name: id, type: long}}, {{name: ID, type: long}}]\n",
            *((6, 5), "columns differ only in case", ""),
        ),
    ],
    ids=[
        *("minute", "fields", "weekday", "shorthand", "time zone", "selection", "module", "checked column"),
        *("checked columns", "check names", "partition term", "mistyped table", "checks without asset"),
        *("partition column", "columns alike"),
    ],
)
def test_a_mistake_is_told_with_its_place(validate, text, place, told, fix):
    code, problems = validate(text)
    assert code == 1
    found = [problem for problem in problems if told in problem["message"]]
    assert found, problems
    [problem] = found[:1]
    assert problem["file"].endswith("floe.yaml")
    assert fix in problem["fix"]
    assert (problem["line"], problem["column"]) == place


def test_a_mistake_in_the_module_is_told_in_both_places(validate):
    code, problems = validate(HEAD, "import pyarrow\n\nboom()\n")
    assert code == 1
    assert {problem["line"] for problem in problems} == {3}
    assert [problem["file"].rpartition("/")[2].partition("_")[0] for problem in problems] == ["assets", "floe.yaml"]


EXPRESSIONS = """\
    checks:
      - {type: expression, name: a, expression: "id >= 0 and and true"}
      - {type: expression, name: b, expression: "idd > 0"}
      - {type: expression, name: c, expression: "id in (select id from bronze.visits)"}
      - {type: expression, name: d, expression: "ID > 0 and note = 'x'"}
      - {type: not_null, name: e, column: id, where: "placd > '2026-01-01'"}
"""


def test_the_sql_of_checks_is_read_with_its_place(validate):
    code, problems = validate(f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}{EXPRESSIONS}")
    assert code == 1
    first = HEAD.count("\n") + 5
    assert [(one["line"], one["path"].rpartition(".")[2]) for one in problems] == [
        (first, "expression"),
        (first + 1, "expression"),
        (first + 2, "expression"),
        (first + 4, "where"),
    ]
    wrong = [
        "near 'and'",
        "'idd' in a check of bronze.orders is not declared, did you mean 'id'?",
        "a subquery",
        "did you mean 'placed'?",
    ]
    for problem, text in zip(problems, wrong, strict=True):
        assert text in problem["message"]


RELATIONSHIPS = """\
    checks:
      - {type: relationship, name: a, column: id, to: bronze.visits}
      - {type: relationship, name: b, column: id, to: bronze.vists}
      - {type: relationship, name: c, column: id, to: bronze.orders, to_columns: [note]}
      - {type: relationship, name: d, column: id, to: bronze.orders, to_columns: [nte]}
"""


def test_relationships_name_tables_and_columns_that_are_known(validate):
    code, problems = validate(f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}{RELATIONSHIPS}")
    assert code == 1
    [problem] = problems
    assert (
        "column 'nte' in a check of bronze.orders against bronze.orders is not declared, did you mean 'note'?"
        in problem["message"]
    )
    sound = RELATIONSHIPS.replace("nte", "note")
    code, [problem] = validate(f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}{sound}")
    assert (
        "'bronze.vists', which is neither a declared table nor an asset, did you mean 'bronze.visits'?"
        in problem["message"]
    )
    assert problem["line"] == HEAD.count("\n") + 6
    assert validate(f"{HEAD}tables:\n  bronze.orders:\n{COLUMNS}{sound.replace('vists', 'visits')}") == (0, [])
