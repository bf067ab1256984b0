"""Upserts in process and on Spark, compared with a model in Python, with null keys rejected or matched."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from floe_core.errors import InvalidDataError
from floe_iceberg import Engine, IcebergTableManager, NullKeys
from floe_testing.spark import embedded_catalog

SCHEMA = pa.schema([("number", pa.int64()), ("part", pa.float64()), ("code", pa.string()), ("value", pa.int64())])
NESTED = pa.schema([("id", pa.struct([("number", pa.int64()), ("code", pa.string())])), ("value", pa.int64())])
KEYS = (["number"], ["code"], ["part"], ["number", "code"], ["number", "part", "code"])
DESIGNS = ([], ["code"], ["bucket(2, number)"], ["truncate(1, code)", "number"])

numbers = st.sampled_from([None, 1, 2])
codes = st.sampled_from([None, "a", "b", ""])
parts = st.sampled_from([None, math.nan, 0.0, -0.0, 1.5])
rows = st.lists(st.tuples(numbers, parts, codes, st.integers(0, 9)), min_size=1, max_size=5)
_names = itertools.count()
_options = {"deadline": None, "suppress_health_check": list(HealthCheck)}


class Model:
    """What a table holds, by the rules of the documentation."""

    def __init__(self, keys, null_keys):
        self.keys = keys
        self.null_keys = null_keys
        self.rows = {}

    def accepts(self, batch):
        """Whether every row has a key of its own."""
        found = [self.key(row) for row in batch]
        refused = self.null_keys is NullKeys.REFUSE and any(None in key for key in found)
        return not refused and len(set(found)) == len(found)

    def upsert(self, batch):
        for row in batch:
            self.rows[self.key(row)] = row

    def key(self, row):
        return tuple(same(row[SCHEMA.names.index(name)]) for name in self.keys)

    def content(self):
        return sorted((tuple(map(same, row)) for row in self.rows.values()), key=repr)


def same(value):
    """One value for all that are equal: NaN equals NaN, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def content(table):
    return sorted((tuple(same(value) for value in row.values()) for row in table.to_pylist()), key=repr)


def table_of(batch):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in batch], schema=SCHEMA)


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    """Give a manager that all examples share; each has a table of its own."""
    catalog = embedded_catalog(tmp_path_factory.mktemp("upserts"))
    manager = IcebergTableManager(catalog)
    manager.create_namespace("db")
    yield manager
    catalog.close()


def check(manager, batches, keys, null_keys, *, design=(), engines=(Engine.ARROW,)):
    """Upsert batch after batch, each on the next engine, and compare after each."""
    name = f"db.t{next(_names)}"
    manager.create_table(name, SCHEMA, list(design))
    model = Model(keys, null_keys)
    for batch, engine in zip(batches, itertools.cycle(engines), strict=False):
        for _again in range(2):
            if model.accepts(batch):
                model.upsert(batch)
                manager.upsert(name, table_of(batch), keys=keys, null_keys=null_keys, engine=engine)
            else:
                with pytest.raises(InvalidDataError):
                    manager.upsert(name, table_of(batch), keys=keys, null_keys=null_keys, engine=engine)
            assert content(manager.scan(name)) == model.content()


@given(
    batches=st.lists(rows, min_size=2, max_size=4),
    keys=st.sampled_from(KEYS),
    null_keys=st.sampled_from(NullKeys),
    design=st.sampled_from(DESIGNS),
)
@settings(max_examples=60, **_options)
def test_upserts_in_process_hold_what_the_model_holds(manager, batches, keys, null_keys, design):
    check(manager, batches, keys, null_keys, design=design)


@pytest.mark.spark
@given(
    batches=st.lists(rows, min_size=2, max_size=2),
    keys=st.sampled_from(KEYS),
    null_keys=st.sampled_from(NullKeys),
    engines=st.permutations([Engine.ARROW, Engine.SPARK]),
)
# Without shrinking, which would take minutes on Spark.
@settings(max_examples=3, phases=[Phase.generate], **_options)
def test_upserts_of_both_engines_into_one_table_hold_what_the_model_holds(
    spark_tables, batches, keys, null_keys, engines
):
    tables = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    tables.create_namespace("db")
    check(tables, batches, keys, null_keys, engines=engines)


@pytest.mark.spark
def test_null_equals_null_on_spark_in_part_of_a_key(spark_tables):
    tables = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    tables.create_namespace("db")
    first = [(1, None, "a", 1), (1, None, None, 2), (None, math.nan, None, 3), (None, None, None, 4)]
    second = [(None, None, None, 5), (1, None, None, 6), (2, None, None, 7), (None, math.nan, None, 8)]
    third = [(None, None, None, 9), (None, None, None, 10)]
    check(tables, [first, second, third], ["number", "part", "code"], NullKeys.MATCH, engines=[Engine.SPARK])


@pytest.mark.spark
@pytest.mark.parametrize("engine", [Engine.ARROW, Engine.SPARK])
def test_fields_of_structs_are_keys_on_both_engines(engine, spark_tables):
    tables = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    tables.create_namespace("db")
    tables.create_table("db.t", NESTED)

    def upsert(*batch, null_keys=None):
        data = pa.Table.from_pylist([{"id": identity, "value": value} for identity, value in batch], schema=NESTED)
        tables.upsert("db.t", data, keys=["id.number", "id.code"], null_keys=null_keys, engine=engine)

    upsert(({"number": 1, "code": "a"}, 1), ({"number": 2, "code": "a"}, 2))
    upsert(({"number": 1, "code": "a"}, 3), ({"number": 1, "code": "b"}, 4))
    with pytest.raises(InvalidDataError, match=r"id\.number \(1 row\), id\.code \(2 rows\)"):
        upsert((None, 5), ({"number": 3, "code": None}, 6))
    for value in (5, 7):
        upsert((None, value), ({"number": 3, "code": None}, value), null_keys=NullKeys.MATCH)
    assert sorted(tables.scan("db.t")["value"].to_pylist()) == [2, 3, 4, 7, 7]
