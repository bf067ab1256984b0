"""Table definitions on the command line."""

from __future__ import annotations

import pytest

from floe_cli.declaration import typed_table
from floe_core.errors import ConfigurationError


def test_columns_with_types_that_hold_commas():
    table = typed_table("id long not null, total decimal(10, 2), tags map<string, list<string>> REQUIRED", [], [])
    assert [(c.name, c.type, c.required) for c in table.columns] == [
        ("id", "long", True),
        ("total", "decimal(10, 2)", False),
        ("tags", "map<string, list<string>>", True),
    ]


def test_partitioning_and_order():
    table = typed_table("ts timestamptz", ["day(ts)"], ["ts desc"])
    assert (table.partition_by, table.sort_by) == (("day(ts)",), ("ts desc",))


@pytest.mark.parametrize("schema", ["", "id", "id long,", "id long, id string"])
def test_what_is_no_schema(schema):
    with pytest.raises(ConfigurationError):
        typed_table(schema, [], [])


def test_what_is_no_partition_term():
    with pytest.raises(ConfigurationError, match="partition term"):
        typed_table("id long", ["weekly(id)"], [])
