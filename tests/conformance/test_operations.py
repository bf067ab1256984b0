"""Operations on tables with many layouts (versions, partitions, types, properties), compared with a list of rows.

Each table is one row of an array in which every partitioning occurs; the values of the other columns are chosen to
cover as many pairs as possible. The row determines how the table is created; a seed determines its rows, the
operations and their order. After each operation, floe, Spark and the list must agree, the auditor must find no breach,
and Java must agree with the files.

``make test`` runs every third row, in process. ``make test-live`` runs all of them, and again with floe on Spark, which
adds z-order and format version 3.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
import random
import time
import uuid
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from floe_core.errors import CapabilityError, SharedFilesError
from floe_iceberg import CommitStrategy, CompactionStrategy, Engine
from floe_testing.audit import assert_audited
from floe_testing.java.comparison import JavaComparison
from floe_testing.oracles.sql_model import Among, And, Compare, IsNull, Not, Or, filter_text, remaining
from floe_testing.oracles.table_model import comparable, difference, upserted

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

SEED = 20_26
NAN = float("nan")
LONG = "m" * 5000


def _nested(*fields):
    numbers = itertools.count(100)

    def numbered(kind):
        match kind:
            case ("list", inner):
                return ListType(next(numbers), numbered(inner), element_required=False)
            case ("map", inner):
                return MapType(next(numbers), StringType(), next(numbers), numbered(inner), value_required=False)
            case dict():
                return StructType(
                    *(NestedField(next(numbers), name, numbered(inner), required=False) for name, inner in kind.items())
                )
            case _:
                return kind

    return [numbered(kind) for kind in fields]


POOLS = {
    "b": (BooleanType(), [None, True, False]),
    "i": (IntegerType(), [None, -(2**31), 0, 7, 2**31 - 1]),
    "g": (FloatType(), [None, NAN, 0.0, -0.0, 0.5, -math.inf]),
    "f": (DoubleType(), [None, NAN, 0.0, -0.0, 1.5, -1.5, math.inf]),
    "dec": (
        DecimalType(38, 10),
        [None, Decimal("0E-10"), Decimal("9" * 28 + "." + "9" * 10), Decimal("-1.5000000000")],
    ),
    "dec9": (DecimalType(9, 2), [None, Decimal("0.00"), Decimal("-9999999.50"), Decimal("12.30")]),
    "s": (StringType(), [None, "", "a", "ab", "ünï", LONG, LONG + "z"]),
    "p": (StringType(), [None, "", "a b/c=d", "ü", "null"]),
    "bin": (BinaryType(), [None, b"", b"\x00\xff", b"\xff" * 5000]),
    "fx": (FixedType(4), [None, b"\x00" * 4, b"\xff" * 4, b"abcd"]),
    "u": (UUIDType(), [None, uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID(int=7)]),
    "d": (DateType(), [None, dt.date(1900, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "t": (
        TimestampType(),
        [None, dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12)],  # noqa: DTZ001 - without zone, as the column
    ),
    "tz": (
        TimestamptzType(),
        [
            None,
            dt.datetime(1969, 7, 20, 20, 17, tzinfo=dt.UTC),
            dt.datetime(2024, 12, 31, 23, 59, 59, 1, tzinfo=dt.UTC),
        ],
    ),
}
_LISTS, _MAPS, _STRUCTS = _nested(
    ("list", {"y": IntegerType(), "z": ("list", StringType())}),
    ("map", {"q": DecimalType(20, 3)}),
    {"a": {"b": StringType()}, "c": ("list", DoubleType())},
)
POOLS |= {
    "x": (_LISTS, [None, [], [None], [{"y": None, "z": None}], [{"y": 1, "z": [None, "k"]}, {"y": 2, "z": []}]]),
    "m": (_MAPS, [None, {}, {"k": None}, {"k": {"q": None}}, {"k": {"q": Decimal("1.500")}, "": {"q": None}}]),
    "r": (_STRUCTS, [None, {"a": None, "c": None}, {"a": {"b": None}, "c": []}, {"a": {"b": "x"}, "c": [NAN, None]}]),
}
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    *(
        NestedField(number, name, kind, required=False)
        for number, (name, (kind, _)) in enumerate(POOLS.items(), start=2)
    ),
)

PARTITIONS = [
    "", "id", "b", "i", "g", "f", "dec", "dec9", "p", "u", "d", "t", "tz",
    "bucket[4](id)", "bucket[3](s)", "bucket[3](dec)", "bucket[3](u)", "bucket[3](bin)", "bucket[3](i)",
    "bucket[3](fx)", "bucket[2](tz)", "truncate[10](i)", "truncate[2](s)", "truncate[50](dec9)", "truncate[1](bin)",
    "year(d)", "month(t)", "day(tz)", "hour(t)", "year(tz) + p", "day(t) + bucket[2](id)",
]  # fmt: skip
PROPERTIES = {
    "codec": ["zstd", "snappy", "gzip", "uncompressed", "lz4"],
    "manifests": ["", "gzip", "snappy", "zstd", "uncompressed"],
    "metrics": ["", "none", "counts", "truncate(4)", "full"],
    "layout": ["", "objects", "paths"],
    "format": ["parquet", "parquet", "orc", "avro"],
    "other": ["", "name mapping", "wap", "gc off"],
}
OPERATIONS = [
    "append fast", "append merge", "stream", "overwrite", "overwrite filter", "overwrite partitions", "upsert",
    "delete", "delete negated", "compact", "sort", "manifests", "expire", "branch", "spark insert", "spark delete",
    "evolve", "sweep",
]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One table: how it is made."""

    version: str
    partition: str
    codec: str
    manifests: str
    metrics: str
    layout: str
    format: str
    other: str

    def __str__(self):
        return "-".join(part for part in vars(self).values() if part and part != "parquet").replace(" ", "_")

    def spec(self):
        fields = []
        for number, term in enumerate(filter(None, self.partition.split(" + "))):
            name, _, column = term.partition("(")
            transform, column = (name, column[:-1]) if column else ("identity", name)
            source = SCHEMA.find_field(column).field_id
            fields.append(PartitionField(source, 1000 + number, parse_transform(transform), f"{column}_p{number}"))
        return PartitionSpec(*fields)

    def partition_of(self, row):
        """Return the partition of a row, by PyIceberg's transforms of single values."""
        found = []
        for field in self.spec().fields:
            source = SCHEMA.find_field(field.source_id)
            found.append(repr(field.transform.transform(source.field_type)(_internal(row[source.name]))))
        return tuple(found)

    def pools(self):
        """Return the values of each column, without those that other engines spoil."""
        pools = {name: pool for name, (_, pool) in POOLS.items()}
        if self.partition == "truncate[10](i)":
            # Java wraps the lowest integers around when it truncates them; floe rejects them.
            pools["i"] = [None if value is None else max(value, -(2**31) + 8) for value in pools["i"]]
        if self.format == "orc":
            # Spark's ORC writer moves fractions of the last second before 1970 ahead by one second.
            pools["t"] = [value for value in pools["t"] if value is None or not value.microsecond]
            # Its reader treats values that are equal, such as 0.0 and -0.0, as one repeated value.
            pools |= {name: [value for value in pools[name] if str(value) != "-0.0"] for name in ("f", "g")}
        return pools

    def properties(self, root):
        found = {"format-version": self.version, "write.parquet.compression-codec": self.codec}
        if self.manifests:
            found["write.avro.compression-codec"] = self.manifests
        if self.metrics:
            found["write.metadata.metrics.default"] = self.metrics
            found["write.metadata.metrics.column.i"] = "full"
        if self.layout == "objects":
            found["write.object-storage.enabled"] = "true"
        if self.layout == "paths":
            found |= {
                "write.data.path": f"file://{root}/elsewhere/d",
                "write.metadata.path": f"file://{root}/elsewhere/m",
            }
        if self.other == "wap":
            found["write.wap.enabled"] = "true"
        if self.other == "gc off":
            found["gc.enabled"] = "false"
        if self.other == "name mapping":
            found["schema.name-mapping.default"] = SCHEMA.name_mapping.model_dump_json()
        return found


def _internal(value):
    match value:
        case dt.datetime():
            epoch = dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)
            return (value - epoch) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
        case _:
            return value


def lines(count, *, versions):
    """Return a covering array: each partition with each value of the other columns at least once, when count allows."""
    chooser = random.Random(SEED)  # noqa: S311 - a covering array, not a secret
    columns = {"version": versions, "partition": PARTITIONS, **PROPERTIES}
    names = list(columns)
    missing = {
        (left, a, right, b)
        for left, right in itertools.combinations(names, 2)
        for a in columns[left]
        for b in columns[right]
    }
    found = []
    while len(found) < count and missing:
        candidates = [
            {name: chooser.choice(values) for name, values in columns.items()}
            | {"partition": PARTITIONS[len(found) % len(PARTITIONS)]}
            for _ in range(30)
        ]
        best = max(candidates, key=lambda one: len(_pairs(one) & missing))
        missing -= _pairs(best)
        found.append(Line(**best))
    return found


def _pairs(one):
    return {(left, one[left], right, one[right]) for left, right in itertools.combinations(one, 2)}


class Case:
    """One table on its way through the operations."""

    numbers = itertools.count(1)

    def __init__(self, engines, line, chooser, engine=Engine.ARROW):
        self.engines, self.line, self.chooser, self.engine = engines, line, chooser, engine
        self.manager = engines.manager
        self.table = f"n.t{next(self.numbers)}"
        self.ids = itertools.count(1)
        self.rows = []
        self.pools = line.pools()
        properties = line.properties(engines.root)
        self.manager.create_table(
            self.table, SCHEMA, line.spec(), properties={**properties, "format-version": min(line.version, "2")}
        )
        if line.version == "3":
            # On the embedded catalog, Spark changes the metadata of this version.
            engines.sql(f"ALTER TABLE floe.{self.table} SET TBLPROPERTIES ('format-version' = '3')")

    def some(self, count=3):
        return [
            {"id": next(self.ids), **{name: self.chooser.choice(pool) for name, pool in self.pools.items()}}
            for _ in range(count)
        ]

    def frame(self, rows):
        kinds = SCHEMA.as_arrow()
        columns = {}
        for field in kinds:
            values = [row[field.name] for row in rows]
            if field.name == "u":
                values = [None if value is None else value.bytes for value in values]
            if field.name == "m":
                values = [None if value is None else list(value.items()) for value in values]
            columns[field.name] = (
                pa.array(values, pa.binary(16)).cast(field.type) if field.name == "u" else pa.array(values, field.type)
            )
        return pa.table(columns)

    def perform(self, operation):
        manager, table = self.manager, self.table
        given = self.some()
        match operation:
            case "append fast" | "append merge":
                strategy = CommitStrategy.MERGE if operation.endswith("merge") else CommitStrategy.FAST_APPEND
                manager.append(table, self.frame(given), commit_strategy=strategy, engine=self.engine)
                self.rows += given
            case "stream":
                manager.append(table, self.frame(given).to_reader(max_chunksize=1), engine=self.engine)
                self.rows += given
            case "overwrite":
                manager.overwrite(table, self.frame(given), engine=self.engine)
                self.rows = given
            case "overwrite filter":
                chosen = Or(Compare("i", ">=", 7), IsNull("p"))
                manager.overwrite(table, self.frame(given), overwrite_filter=filter_text(chosen), engine=self.engine)
                self.rows = remaining(self.rows, chosen) + given
            case "overwrite partitions":
                if self.line.partition:
                    manager.overwrite_partitions(table, self.frame(given), engine=self.engine)
                    touched = {self.line.partition_of(row) for row in given}
                    self.rows = [row for row in self.rows if self.line.partition_of(row) not in touched] + given
            case "upsert":
                known = self.chooser.sample(self.rows, k=min(2, len(self.rows)))
                given = [{**row, "id": old["id"]} for row, old in zip(given, known, strict=False)] + given[len(known) :]
                manager.upsert(table, self.frame(given), keys=["id"], engine=self.engine)
                self.rows = upserted(self.rows, given, ["id"])
            case "delete":
                chosen = Or(Compare("s", "=", "ab"), And(Compare("f", "<", 0.0), Compare("b", "=", True)))
                manager.delete(table, filter_text(chosen), engine=self.engine)
                self.rows = remaining(self.rows, chosen)
            case "delete negated":
                chosen = And(Not(Among("p", ("", "ü"))), Not(Compare("i", "=", 7)))
                manager.delete(table, filter_text(chosen), engine=self.engine)
                self.rows = remaining(self.rows, chosen)
            case _:
                self.maintain(operation, given)

    def maintain(self, operation, given):
        manager, table = self.manager, self.table
        match operation:
            case "compact" | "sort" | "zorder":
                strategy = {"compact": "binpack"}.get(operation, operation)
                order = {"sort": ["f desc", "s", "id"], "zorder": ["id", "i"]}.get(operation)
                manager.compact_table(table, CompactionStrategy(strategy), sort_order=order, engine=self.engine)
            case "sweep":
                self.sweep()
            case "manifests":
                manager.rewrite_manifests(table, engine=self.engine)
            case "expire":
                now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
                manager.expire_snapshots(table, older_than=now, retain_last=1, engine=self.engine)
            case "branch":
                if self.rows:
                    manager.create_branch(table, "audit")
                    manager.append(table, self.frame(given), branch="audit", engine=self.engine)
                    self.agree()
                    manager.publish_branch(table, "audit", remove=True)
                    self.rows += given
            case "spark insert":
                self.spark_insert()
            case "spark delete":
                self.engines.sql(f"DELETE FROM floe.{table} WHERE id % 3 = 1")
                self.rows = [row for row in self.rows if row["id"] % 3 != 1]
            case "evolve":
                self.repartition()

    def sweep(self):
        """Remove a file that nothing refers to; every other file is as old as it is."""
        folder = self.engines.root / "w" / self.table.replace(".", "/") / "data"
        folder.mkdir(parents=True, exist_ok=True)
        orphan = folder / "orphan.parquet"
        orphan.write_bytes(b"PAR1")
        days_ago = time.time() - 10 * 24 * 3600
        for path in self.engines.root.rglob("*"):
            if path.is_file() and path.parent != self.engines.root:
                os.utime(path, (days_ago, days_ago))
        self.manager.sweep_orphans(self.table, dry_run=False, engine=self.engine)
        assert not orphan.exists()

    def spark_insert(self):
        """Copy all rows with Spark, in the line's file format; in process floe writes Parquet only."""
        name = f"floe.{self.table}"
        new = self.engines.sql(f"SELECT max(id) AS id FROM {name}")[0]["id"] or 0
        others = ", ".join(POOLS)
        self.engines.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.format.default' = '{self.line.format}')")
        self.engines.sql(f"INSERT INTO {name} SELECT id + {new} AS id, {others} FROM {name}")
        self.engines.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('write.format.default')")
        self.rows += [{**row, "id": row["id"] + new} for row in self.rows]
        self.ids = itertools.count(2 * new + 1)

    def repartition(self):
        """Drop the partition fields, and partition by another column."""
        for field in self.manager.load_table(self.table).spec().fields:
            if str(field.transform) != "void":
                self.engines.sql(f"ALTER TABLE floe.{self.table} DROP PARTITION FIELD {field.name}")
        self.engines.sql(f"ALTER TABLE floe.{self.table} ADD PARTITION FIELD truncate(3, id)")
        self.line = Line(**{**vars(self.line), "partition": "truncate[3](id)"})

    def read(self):
        """Return the rows as floe reads them, or None when it refuses to."""
        try:
            return self.manager.scan(self.table).to_pylist(maps_as_pydicts="strict")
        except CapabilityError:
            return None

    def agree(self):
        expected = comparable(map(_shown, self.rows))
        spark = comparable(map(_shown, self.engines.sql(f"SELECT * FROM floe.{self.table}")))
        assert spark == expected, f"Spark: {difference(expected, spark)}"
        rows = self.read()
        if rows is None:
            assert self.line.format == "avro", "floe refuses to read"
        else:
            found = comparable(map(_shown, rows))
            assert found == expected, f"floe: {difference(expected, found)}"
        assert_audited(self.manager, self.table)
        self.judge().check_metadata(self.location())
        self.judge().check_entries(self.location())

    def judge(self):
        return JavaComparison(self.engines.session, f"floe.{self.table}")

    def snapshot(self):
        """Return the current snapshot; a maintenance run that is refused has taken its lease all the same."""
        return self.manager.load_table(self.table).metadata.current_snapshot_id

    def location(self):
        return self.manager.load_table(self.table).metadata_location


def _shown(row):
    """Return a row in one form, whichever engine it came from."""
    number, moment = row["u"], row["tz"]
    return {
        **row,
        "u": None
        if number is None
        else str(number if isinstance(number, uuid.UUID | str) else uuid.UUID(bytes=number)),
        "tz": None if moment is None else moment.astimezone(dt.UTC).replace(tzinfo=None),
    }


def conforms(engines, line, operations, *, engine=Engine.ARROW):
    chooser = random.Random(f"{SEED} {line}")  # noqa: S311 - rows, not secrets
    case = Case(engines, line, chooser, engine)
    possible = [*OPERATIONS, "zorder"] if engine is Engine.SPARK else OPERATIONS
    order = ["append fast", *chooser.sample(possible, k=operations)]
    for operation in order:
        known, before = list(case.rows), case.snapshot()
        try:
            case.perform(operation)
            refused = None
        except (CapabilityError, SharedFilesError) as err:
            refused = err
        except Exception as err:
            msg = f"{operation} of {order}: {err!r}"
            raise AssertionError(msg) from err
        if refused:
            # Only Spark reads rows of Avro files, and files of tables that share them are never deleted.
            shared = line.other == "gc off" and operation in {"expire", "sweep"}
            avro = line.format == "avro" and engine is Engine.ARROW
            assert avro or shared, f"{operation} of {order} was refused: {refused}"
            assert (case.rows, case.snapshot()) == (known, before)
        try:
            case.agree()
        except AssertionError as err:
            msg = f"after {operation} of {order}: {err}"
            raise AssertionError(msg) from err
    case.judge().check_tables(case.location())


def _chosen():
    return [
        pytest.param(line, id=str(line), marks=[] if number % 3 == 0 else [pytest.mark.live])
        for number, line in enumerate(lines(len(PARTITIONS), versions=["1", "2", "2"]))
    ]


@pytest.mark.parametrize("line", _chosen())
def test_a_table_of_each_kind_conforms(two_engines, line):
    conforms(two_engines, line, operations=6)


@pytest.mark.live
@pytest.mark.parametrize("line", lines(len(PARTITIONS), versions=["2", "3", "3"])[::2], ids=str)
def test_a_table_of_each_kind_conforms_when_spark_does_the_work(two_engines, line):
    conforms(two_engines, line, operations=5, engine=Engine.SPARK)
