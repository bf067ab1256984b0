"""Scans, deletes and overwrites by filter, compared with a model of SQL's three-valued logic."""

from __future__ import annotations

import itertools
import os
from random import Random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from floe_iceberg import IcebergTableManager, WriteMode
from floe_testing.embedded_tables import make_context
from floe_testing.oracles.filter_samples import LITERALS, SCHEMA, VALUES
from floe_testing.oracles.sql_model import comparable, filter_text, random_predicate, remaining, selected

NUMBERS = itertools.count()
EXAMPLES = int(os.environ.get("FLOE_FILTER_EXAMPLES", "10"))

SPECS = [
    [],
    ["i"],
    ["x"],
    ["s"],
    ["flag", "day"],
    ["d"],
    ["bucket(4, i)"],
    ["bucket(3, s)", "bucket(2, d)"],
    ["bucket(3, day)", "bucket(3, ts)", "bucket(2, n)", "bucket(2, b)"],
    ["truncate(3, i)"],
    ["truncate(10, d)", "truncate(2, s)"],
    ["truncate(1, s)", "truncate(2, b)"],
    ["year(ts)", "month(day)"],
    ["month(tz)", "year(day)"],
    ["day(ts)", "day(tz)"],
    ["hour(ts)"],
]
CELLS = {name: st.one_of(st.none(), st.sampled_from(values)) for name, values in VALUES.items()}
ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=12)
# Truncated to a multiple of three, the smallest number is below the range of an int: such a row is rejected.
LEAST = -(2**31)


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    context = make_context(tmp_path_factory.mktemp("filters"))
    yield IcebergTableManager(context.catalog)
    context.catalog.close()


def table_of(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def seen(table):
    return sorted(comparable(row) for row in table.to_pylist())


def told(rows):
    # Converted by Arrow, so that both sides format values in the same way.
    return seen(table_of(rows))


def drawn(examples):
    """Draw tables and filters; an example that fails says more than minutes of shrinking it."""
    phases = [Phase.explicit, Phase.reuse, Phase.generate]

    def decorated(test):
        given_test = given(batches=st.lists(ROWS, min_size=1, max_size=3), seed=st.integers(0, 2**32))(test)
        return settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), phases=phases)(
            given_test
        )

    return decorated


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "+".join(spec) or "unpartitioned")
@drawn(3)
def test_filters_follow_three_valued_logic_on_every_partitioning(manager, spec, batches, seed):
    compare(manager, spec, batches, seed)


@pytest.mark.live
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "+".join(spec) or "unpartitioned")
@drawn(EXAMPLES)
def test_many_filters_follow_three_valued_logic_on_every_partitioning(manager, spec, batches, seed):
    compare(manager, spec, batches, seed)


def compare(manager, spec, batches, seed):
    """Do the same to a table and to the model of it."""
    if "truncate(3, i)" in spec:
        batches = [[row | {"i": LEAST + 2 if row["i"] == LEAST else row["i"]} for row in batch] for batch in batches]
    name = f"bronze.t{next(NUMBERS)}"
    manager.create_table(name, SCHEMA, partition_spec=spec)
    first = manager.append(name, table_of(batches[0])).snapshot_id
    for batch in batches[1:]:
        manager.append(name, table_of(batch))
    rows = [row for batch in batches for row in batch]
    random = Random(seed)  # noqa: S311 - drawn by Hypothesis
    for _ in range(8):
        predicate = random_predicate(random, LITERALS)
        text = filter_text(predicate)
        assert seen(manager.scan(name, row_filter=text)) == told(selected(rows, predicate)), text
        narrow = manager.scan(name, columns=["i"], row_filter=text)
        assert narrow.num_rows == len(selected(rows, predicate)), text
    added = [row for batch in batches[1:] for row in batch]
    increment = manager.incremental_scan(name, from_snapshot=first, row_filter=text)
    assert seen(increment) == told(selected(added, predicate)), text

    manager.delete(name, text)
    rows = remaining(rows, predicate)
    assert seen(manager.scan(name)) == told(rows), text
    predicate = random_predicate(random, LITERALS)
    text = filter_text(predicate)
    manager.write_data(name, table_of(batches[0]), WriteMode.OVERWRITE, overwrite_filter=text)
    assert seen(manager.scan(name)) == told(remaining(rows, predicate) + batches[0]), text
