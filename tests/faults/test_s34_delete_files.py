"""S34: tables with delete files of other engines: each operation is correct, or rejected before it writes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CapabilityError
from floe_testing.embedded_tables import no_engine
from floe_testing.faults.sites import RestSite
from floe_testing.java.deltas import add_deletion_vectors, add_equality_deletes, add_position_deletes

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("name", pa.string())])
ALL = {"older_than_days": 0, "retain_last": 1}
LEFT = {1: "old", 3: "old", 4: "old", 6: "old"}


def rows(*ids, name="new", part="a"):
    return pa.table({"id": list(ids), "part": [part] * len(ids), "name": [name] * len(ids)}, schema=SCHEMA)


def by_position(spark, table):
    found = spark.sql(f"SELECT _file, _pos, id FROM {table}").collect()
    positions = {}
    for file, place, number in found:
        if number in {2, 5}:
            positions.setdefault(file, []).append(place)
    return positions


DELETES = {
    "position": lambda spark, table: add_position_deletes(spark, table, by_position(spark, table)),
    "equality": lambda spark, table: add_equality_deletes(spark, table, ["id"], [[2], [5]]),
    "vectors": lambda spark, table: add_deletion_vectors(spark, table, by_position(spark, table)),
}
OPERATIONS = {
    "scan": (lambda _m, _t, **_o: None, LEFT),
    "append": (lambda m, t, **o: m.append(t, rows(2, 9), **o), {**LEFT, 2: "new", 9: "new"}),
    "upsert": (lambda m, t, **o: m.upsert(t, rows(2, 3), keys=["id"], **o), {**LEFT, 2: "new", 3: "new"}),
    "delete": (lambda m, t, **o: m.delete(t, "id in (1, 2)", **o), {3: "old", 4: "old", 6: "old"}),
    "overwrite": (lambda m, t, **o: m.overwrite(t, rows(2, 9), **o), {2: "new", 9: "new"}),
    "overwrite partitions": (
        lambda m, t, **o: m.overwrite_partitions(t, rows(2, 9), **o),
        {2: "new", 9: "new", 4: "old", 6: "old"},
    ),
    "overwrite by filter": (
        lambda m, t, **o: m.overwrite(t, rows(2, 9), overwrite_filter="id <= 3", **o),
        {2: "new", 9: "new", 4: "old", 6: "old"},
    ),
    "compact": (lambda m, t, **o: m.compact_table(t, **o), LEFT),
    "compact on spark": (lambda m, t, **o: m.compact_table(t, **{"engine": "spark", **o}), LEFT),
    "expire": (lambda m, t, **o: m.expire_snapshots(t, **ALL, **o), LEFT),
}
# Appends and whole-file overwrites do not depend on deletes within files.
ARROW_CAN = {
    "position": set(OPERATIONS),
    "equality": {"append", "overwrite", "overwrite partitions", "expire"},
    "vectors": set(),
}
# The rest of the matrix runs the same code with another kind of delete.
QUICK = (
    {("position", name) for name in ("upsert", "delete", "overwrite partitions", "compact")}
    | {("equality", name) for name in ("append", "upsert", "compact")}
    | {("vectors", "upsert"), ("vectors", "compact")}
)
# Over REST, where each case takes longer, one case of each kind.
OVER_REST = {
    ("position", "upsert"),
    ("position", "compact"),
    ("equality", "append"),
    ("equality", "compact"),
    ("vectors", "upsert"),
}


def cases():
    for kind in DELETES:
        for operation in OPERATIONS:
            marks = [] if (kind, operation) in QUICK else [pytest.mark.live]
            yield pytest.param("embedded", kind, operation, marks=marks, id=f"embedded-{kind}-{operation}")
            if (kind, operation) in OVER_REST:
                yield pytest.param("rest", kind, operation, marks=[pytest.mark.live], id=f"rest-{kind}-{operation}")


@pytest.fixture
def deleted(site, plane):
    """Make a table of two partitions with rows 1 to 6, of which another engine has deleted 2 and 5."""
    spark, table = plane.session, site.spark_name("events")

    def make(kind):
        version = 3 if kind == "vectors" else 2
        spark.sql(
            f"CREATE TABLE {table} (id bigint, part string, name string) USING iceberg PARTITIONED BY (part) "
            f"TBLPROPERTIES ('format-version'='{version}')"
        )
        values = ", ".join(f"({n}, '{'a' if n < 4 else 'b'}', 'old')" for n in range(1, 7))
        spark.sql(f"INSERT INTO {table} VALUES {values}")
        DELETES[kind](spark, table)
        return site.open_manager(compute=plane)

    return make


@pytest.fixture
def seen(site, plane):
    """Read the rows as Spark sees them."""

    def read():
        found = plane.session.sql(f"SELECT id, name FROM {site.spark_name('events')}").collect()
        assert len({row[0] for row in found}) == len(found)
        return {row[0]: row[1] for row in found}

    return read


@pytest.mark.spark
@pytest.mark.parametrize(("site", "kind", "operation"), list(cases()), indirect=["site"])
def test_s34_every_operation_is_right_on_every_kind_of_delete(deleted, seen, name, kind, operation):
    manager = deleted(kind)
    assert seen() == LEFT
    act, expected = OPERATIONS[operation]
    act(manager, name)
    assert seen() == expected
    if kind != "equality" or operation.startswith("compact"):
        read = manager.scan(name, ["id", "name"]).to_pylist()
        assert {row["id"]: row["name"] for row in read} == expected
    if operation.startswith("compact"):
        assert manager.table_health(name).delete_files == 0


@pytest.mark.spark
@pytest.mark.parametrize("kind", DELETES)
def test_s34_in_process_each_operation_is_right_or_refused_before_the_first_byte(site, deleted, seen, name, kind):
    manager = deleted(kind)
    table = manager.load_table(name)
    files = site.files_of(table)
    alone = site.open_manager()
    object.__setattr__(alone._context, "plane", no_engine)
    allowed = ARROW_CAN[kind] | {"scan"}
    if isinstance(site, RestSite):
        # A server applies metadata changes itself, regardless of the format version.
        allowed |= {"expire"}
    refused = [operation for operation in OPERATIONS if operation not in allowed]
    for operation in refused:
        for options in ({}, {"engine": "arrow"}):
            with pytest.raises(CapabilityError):
                OPERATIONS[operation][0](alone, name, **options)
    if kind == "equality":
        with pytest.raises(CapabilityError, match="equality"):
            alone.scan(name)
    else:
        assert sorted(alone.scan(name).column("id").to_pylist()) == sorted(LEFT)
    assert manager.load_table(name).metadata_location == table.metadata_location
    assert site.files_of(table) == files
    assert seen() == LEFT
