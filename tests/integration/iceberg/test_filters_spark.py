"""Row filters on Spark: compared with Spark's own results and with floe's in-process evaluation."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from functools import reduce
from random import Random

import pyarrow as pa
import pytest

from floe_iceberg import IcebergTableManager, WriteMode
from floe_testing.oracles import filter_samples
from floe_testing.oracles.sql_model import evaluate, filter_text, random_predicate, remaining, selected, spark_text

pytestmark = pytest.mark.spark

PREDICATES = int(os.environ.get("FLOE_FILTER_PREDICATES", "40"))


def _is_beyond_long(value):
    return isinstance(value, int | Decimal) and abs(value) >= 2**63


# Spark itself loses the null of `n >= 1e25` inside a NOT, so all literals and columns fit into a long.
COLUMNS = [field for field in filter_samples.SCHEMA if field.name != "n"]
# Each row has a number that identifies it, and any other value may be null.
SCHEMA = pa.schema([("row", pa.int64()), *COLUMNS])
VALUES = {field.name: [*filter_samples.VALUES[field.name], None] for field in COLUMNS}
LITERALS = {
    field.name: [value for value in filter_samples.LITERALS[field.name] if not _is_beyond_long(value)]
    for field in COLUMNS
}


def drawn(seed):
    random = Random(seed)  # noqa: S311 - repeatable rows
    return [{"row": number, **{name: random.choice(values) for name, values in VALUES.items()}} for number in range(60)]


@pytest.fixture
def manager(spark_tables):
    spark_tables.catalog.create_namespace_if_not_exists("bronze")
    return IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)


def predicates(seed, count):
    random = Random(seed)  # noqa: S311 - repeatable predicates
    return [random_predicate(random, LITERALS) for _ in range(count)]


def test_s32_spark_and_the_model_agree_on_true_false_and_null(spark_session):
    # Not an Iceberg table: Iceberg skips files by statistics that ignore NaN, which does not follow SQL.
    rows = drawn(1)
    spark_session.conf.set("spark.sql.variable.substitute", "false")
    frame = spark_session.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))
    asked = predicates(2, PREDICATES)
    found = frame.selectExpr("row", *(f"({spark_text(asked[n])}) AS p{n}" for n in range(len(asked)))).collect()
    spark_session.conf.unset("spark.sql.variable.substitute")
    by_row = {row["row"]: row for row in found}
    for number, predicate in enumerate(asked):
        for row in rows:
            assert by_row[row["row"]][f"p{number}"] == evaluate(predicate, row), (spark_text(predicate), row)


SPECS = [[], ["x", "flag"], ["bucket(3, s)", "truncate(2, i)"], ["truncate(1, s)", "month(day)"], ["day(ts)", "d"]]


def test_s32_both_engines_select_the_same_rows_of_a_table(manager):
    rows = drawn(3)
    asked = dict(enumerate(predicates(8, PREDICATES // 2)))
    tables = {number: f"bronze.t{number % len(SPECS)}" for number in asked}
    for number, spec in enumerate(SPECS):
        manager.create_table(f"bronze.t{number}", SCHEMA, partition_spec=spec)
        for part in (rows[:30], rows[30:]):
            manager.append(f"bronze.t{number}", pa.Table.from_pylist(part, schema=SCHEMA))
    # One job for all filters.
    frames = [
        manager.frame(tables[number], columns=["row"], row_filter=filter_text(predicate)).selectExpr(
            f"{number} AS n", "row"
        )
        for number, predicate in asked.items()
    ]
    found: dict[int, list[int]] = {}
    for row in reduce(lambda left, right: left.unionAll(right), frames).collect():
        found.setdefault(row["n"], []).append(row["row"])
    for number, predicate in asked.items():
        text, wanted = filter_text(predicate), [row["row"] for row in selected(rows, predicate)]
        assert sorted(found.get(number, [])) == wanted, (tables[number], text)
        assert sorted(manager.scan(tables[number], row_filter=text)["row"].to_pylist()) == wanted, text


def test_s32_deletes_and_overwrites_on_spark_keep_what_the_model_keeps(manager):
    rows = drawn(4)
    manager.create_table("bronze.t", SCHEMA, partition_spec=["truncate(1, s)"])
    manager.append("bronze.t", pa.Table.from_pylist(rows, schema=SCHEMA))
    for predicate in predicates(5, 3):
        manager.delete("bronze.t", filter_text(predicate), engine="spark")
        rows = remaining(rows, predicate)
        assert sorted(manager.scan("bronze.t")["row"].to_pylist()) == [row["row"] for row in rows], predicate
    added = [{**row, "row": row["row"] + 100} for row in drawn(6)[:5]]
    (predicate,) = predicates(7, 1)
    data = pa.Table.from_pylist(added, schema=SCHEMA)
    manager.write_data("bronze.t", data, WriteMode.OVERWRITE, overwrite_filter=filter_text(predicate), engine="spark")
    wanted = [row["row"] for row in remaining(rows, predicate) + added]
    assert sorted(manager.scan("bronze.t")["row"].to_pylist()) == sorted(wanted)


@pytest.mark.parametrize(
    ("spec", "condition", "kept"),
    [
        ("truncate(1, s)", "s < 'b'", [0, 2]),
        ("truncate(1, s)", "s not like 'a%'", [0, 1]),
        ("i", "i <= 1", [0, 2]),
    ],
)
def test_s32_a_delete_on_spark_keeps_the_partition_of_null(manager, spec, condition, kept):
    rows = pa.table({"row": [0, 1, 2], "s": [None, "a", "b"], "i": pa.array([None, 1, 2], pa.int32())})
    manager.create_table("bronze.t", rows.schema, partition_spec=[spec])
    manager.append("bronze.t", rows)
    manager.delete("bronze.t", condition, engine="spark")
    assert sorted(manager.scan("bronze.t")["row"].to_pylist()) == kept


HOSTILE = [
    "a b",
    "a-b",
    "a.b",
    "1st",
    "it's",
    'say "no"',
    "back`tick",
    "semi; DROP TABLE bronze.canary; --",
    "x` = 1 OR 1=1 -- ",
    "/* comment */",
    "select",
    "Ünïcödé 雪",
    "back\\slash",
]


def test_names_and_values_that_look_like_sql_stay_names_and_values(manager):
    manager.create_table("bronze.canary", pa.schema([("id", pa.int64())]))
    schema = pa.schema([("n", pa.int64()), *((name, pa.string()) for name in HOSTILE)])
    rows = [{"n": number, **dict.fromkeys(HOSTILE, value)} for number, value in enumerate([*HOSTILE, "${env:HOME}"])]
    manager.create_table("bronze.hostile", schema)
    manager.append("bronze.hostile", pa.Table.from_pylist(rows, schema=schema))
    values = [*HOSTILE, "${env:HOME}"]
    frames = []
    for column, value in zip(HOSTILE, reversed(values), strict=False):
        text = f"`{column.replace('`', '``')}` = '{value.replace(chr(39), chr(39) * 2)}'"
        frames.append(manager.frame("bronze.hostile", columns=["n"], row_filter=text))
    found = [row["n"] for row in reduce(lambda left, right: left.unionAll(right), frames).collect()]
    assert sorted(found) == list(range(1, len(values)))
    column = HOSTILE[7].replace("`", "``")
    manager.delete("bronze.hostile", f"`{column}` in ('it''s', '{HOSTILE[7]}', '${{env:HOME}}')", engine="spark")
    assert manager.scan("bronze.hostile")["n"].to_pylist() == [n for n in range(len(values)) if n not in {4, 7, 13}]
    assert manager.scan("bronze.canary").num_rows == 0


@pytest.mark.parametrize("mode", ["none", "counts", "truncate(1)"])
def test_s33_rows_that_spark_wrote_without_statistics_are_found(manager, spark_tables, mode):
    long = "k" * 5_000
    texts = ["a", "m" * 40, long + "a", long + "b", "\U0010ffff" * 20, None]
    rows = pa.table({"k": texts, "x": [0.0, math.nan, 2.0, 3.0, 4.0, None]})
    name = "bronze.by_spark"
    manager.create_table(name, rows.schema, properties={"write.metadata.metrics.default": mode})
    manager.append(name, rows, engine="spark")
    for text in texts[:-1]:
        assert manager.scan(name, row_filter=f"k = '{text}'")["k"].to_pylist() == [text]
    assert manager.scan(name, row_filter="x > 3").num_rows == 2
    manager.upsert(name, pa.table({"k": [long + "b", texts[4]], "x": [9.0, 9.0]}), keys=["k"], engine="arrow")
    assert manager.scan(name, row_filter="x = 9").num_rows == 2
    assert manager.scan(name).num_rows == len(texts)
    manager.delete(name, f"k >= '{long}'", engine="arrow")
    assert sorted(map(str, manager.scan(name)["k"].to_pylist())) == ["None", "a"]


@pytest.mark.parametrize("row_filter", ["x > 1", "s like '%b%'", "s != 'a'"])
def test_s32_an_overwrite_on_spark_takes_every_filter(manager, row_filter):
    rows = pa.table({"x": [0.0, 2.0, math.nan, None], "s": ["a", "b", None, "abc"]})
    added = pa.table({"x": [9.0], "s": ["new"]})
    manager.create_table("bronze.o", rows.schema)
    for number in range(rows.num_rows):
        manager.append("bronze.o", rows.slice(number, 1))
    gone = manager.scan("bronze.o", row_filter=row_filter).num_rows
    assert gone in {1, 2}
    manager.write_data("bronze.o", added, WriteMode.OVERWRITE, overwrite_filter=row_filter, engine="spark")
    assert manager.scan("bronze.o").num_rows == rows.num_rows - gone + 1
    assert manager.scan("bronze.o", row_filter="s = 'new'").num_rows == 1
