"""Contract suite for the table manager: a new catalog or engine adds a fixture, not tests.

A test module subclasses ``TableManagerContract``, provides a ``manager`` fixture with the namespace ``contract``, and
declares what its catalog and engine do not support::

    class TestSqlite(TableManagerContract):
        engine = Engine.ARROW

        @pytest.fixture
        def manager(self, tmp_path): ...
"""

from __future__ import annotations

import datetime as dt
import os
import uuid
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestampType

from floe_core.errors import (
    ConfigurationError,
    InvalidIdentifierError,
    NamespaceNotFoundError,
    SchemaEvolutionError,
    TableExistsError,
    TableNotFoundError,
)
from floe_iceberg import NullKeys, SchemaChange, SchemaChangeKind, TableConfig, TableIdentifier
from floe_testing.audit import assert_audited
from floe_testing.table_writes import SCHEMA, WritesContract, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floe_audit import Rule
    from floe_iceberg import IcebergTableManager

# One namespace per process: if two clients create a database at the same time, a Hive metastore refuses one of them and
# deletes the folder that the other has begun to fill.
NAMESPACE = f"contract_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


# The partition values that each transform produces in ``test_every_transform_partitions``.
PARTITIONS = {
    "name": ("aab", "bbc", None),
    "day(ts)": (dt.date(1970, 1, 1), dt.date(1971, 1, 2), None),
    "month(ts)": (0, 12, None),
    "year(ts)": (0, 1, None),
    "hour(ts)": (0, 366 * 24, None),
    "bucket(4, id)": (0, 3, None),
    "truncate(2, name)": ("aa", "bb", None),
}


class TablesContract:
    """Tests of creating, loading, renaming, registering and dropping tables."""

    rename: ClassVar[bool] = True
    register: ClassVar[bool] = True

    @pytest.mark.req("FR-012", "FR-014", "TM-08")
    def test_a_created_table_has_schema_and_production_properties(self, manager: IcebergTableManager) -> None:
        name = new_name()
        manager.create_table(name, SCHEMA, properties={"owner": "me", "history.expire.min-snapshots-to-keep": "3"})
        loaded = manager.load_table(name)
        assert [field.name for field in loaded.schema().fields] == SCHEMA.names
        expected = {
            "write.target-file-size-bytes": "134217728",
            "write.parquet.row-group-size-bytes": "134217728",
            "write.parquet.compression-codec": "zstd",
            "history.expire.max-snapshot-age-ms": "604800000",
            "history.expire.min-snapshots-to-keep": "3",
            "commit.manifest-merge.enabled": "true",
            "owner": "me",
        }
        assert expected.items() <= loaded.properties.items()
        assert manager.get_current_snapshot(name) is None

    @pytest.mark.req("API-05")
    def test_creating_twice_fails(self, manager: IcebergTableManager, table: str) -> None:
        with pytest.raises(TableExistsError, match=table):
            manager.create_table(table, SCHEMA)

    @pytest.mark.req("FR-015", "API-06", "TM-02")
    def test_creating_if_not_exists_returns_the_existing_table(self, manager: IcebergTableManager, table: str) -> None:
        other = pa.schema([("x", pa.int64())])
        assert manager.create_table_if_not_exists(table, other).schema().column_names == SCHEMA.names
        assert manager.create_table(table, other, if_not_exists=True).schema().column_names == SCHEMA.names
        missing = new_name()
        made = [manager.create_table_if_not_exists(missing, other).metadata.table_uuid for _ in range(3)]
        assert made == [made[0]] * 3

    @pytest.mark.req("FR-015", "TM-02", "API-06")
    def test_a_table_created_concurrently_is_returned(
        self, manager: IcebergTableManager, table: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        existing = manager.load_table(table).metadata.table_uuid
        monkeypatch.setattr(type(manager.context.catalog), "table_exists", lambda *_: False)
        other = pa.schema([("x", pa.int64())])
        assert manager.create_table_if_not_exists(table, other).metadata.table_uuid == existing
        assert manager.create_table(table, other, if_not_exists=True).metadata.table_uuid == existing

    @pytest.mark.req("API-05")
    def test_a_missing_namespace_is_named(self, manager: IcebergTableManager) -> None:
        with pytest.raises(NamespaceNotFoundError, match="nowhere"):
            manager.create_table("nowhere.table", SCHEMA)
        with pytest.raises(NamespaceNotFoundError, match="nowhere"):
            manager.list_tables("nowhere")

    @pytest.mark.req("FR-014")
    def test_a_missing_table_is_named_with_its_neighbors(self, manager: IcebergTableManager, table: str) -> None:
        with pytest.raises(TableNotFoundError, match=table) as caught:
            manager.load_table(f"{table}x")
        assert caught.value.table == f"{table}x"
        assert "Did you mean" in str(caught.value)

    @pytest.mark.req("API-07")
    def test_tables_are_listed_by_unqualified_name(self, manager: IcebergTableManager, table: str) -> None:
        assert table.rpartition(".")[2] in manager.list_tables(NAMESPACE)
        assert manager.table_exists(table)
        assert manager.table_exists(TableIdentifier.from_string(table))
        assert not manager.table_exists(new_name())

    @pytest.mark.parametrize("wrong", ["no_namespace", "a..b", "", ".b", "a."])
    def test_an_invalid_name_is_refused(self, manager: IcebergTableManager, wrong: str) -> None:
        with pytest.raises(InvalidIdentifierError):
            manager.load_table(wrong)

    @pytest.mark.req("FR-013")
    @pytest.mark.parametrize("term", PARTITIONS)
    def test_every_transform_partitions(self, manager: IcebergTableManager, term: str) -> None:
        name = new_name()
        schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("us"))])
        manager.create_table(name, schema, partition_spec=[term])
        year = 366 * 86_400_000_000
        data = pa.table({"id": [1, 3, None], "name": ["aab", "bbc", None], "ts": [0, year, None]}, schema=schema)
        manager.append(name, data)
        assert manager.scan(name).sort_by("id").to_pylist() == data.sort_by("id").to_pylist()
        found = manager.load_table(name).inspect.partitions().to_pylist()
        values = {value: part["record_count"] for part in found for value in part["partition"].values()}
        assert values == dict.fromkeys(PARTITIONS[term], 1)

    def test_a_spec_against_the_schemas_own_ids_is_mapped(self, manager: IcebergTableManager) -> None:
        name = new_name()
        schema = Schema(
            NestedField(10, "inner", StructType(NestedField(11, "x", LongType(), required=False)), required=False),
            NestedField(20, "ts", TimestampType(), required=False),
        )
        spec = PartitionSpec(PartitionField(source_id=20, field_id=1000, transform=DayTransform(), name="ts_day"))
        loaded = manager.create_table(name, schema, partition_spec=spec)
        assert loaded.schema().find_column_name(loaded.spec().fields[0].source_id) == "ts"

    def test_a_partition_term_that_fits_no_column_is_refused(self, manager: IcebergTableManager) -> None:
        for term in ("day(nope)", "day(name)", "what(id)", "bucket(id)"):
            with pytest.raises(ConfigurationError):
                manager.create_table(new_name(), SCHEMA, partition_spec=[term])

    def test_a_declared_table_is_created_as_declared(self, manager: IcebergTableManager) -> None:
        name = new_name()
        config = TableConfig.model_validate(
            {
                "description": "Orders",
                "columns": [
                    {"name": "id", "type": "long", "required": True, "doc": "Number"},
                    {"name": "tags", "type": "list<string>"},
                ],
                "partition_by": ["bucket(4, id)"],
                "sort_by": ["id desc"],
                "keys": ["id"],
                "retention": {"snapshot_days": 2},
            }
        )
        loaded = manager.create_from_config(name, config)
        assert loaded.schema().find_field("id").doc == "Number"
        assert loaded.schema().identifier_field_names() == {"id"}
        assert loaded.properties["history.expire.max-snapshot-age-ms"] == str(2 * 86_400_000)
        manager.append(name, pa.table({"id": [1], "tags": [["a"]]}))
        manager.upsert(name, pa.table({"id": [1], "tags": [["b"]]}))
        assert manager.scan(name).to_pylist() == [{"id": 1, "tags": ["b"]}]

    def test_keys_are_recorded_when_rows_are_unique_by_them(self, manager: IcebergTableManager) -> None:
        name = new_name()
        columns = [{"name": column, "type": "long", "required": column != "part"} for column in ("id", "line", "part")]
        manager.create_from_config(name, TableConfig.model_validate({"columns": columns, "keys": ["id"]}))
        first = pa.table({"id": [1, 2], "line": [1, 1], "part": pa.array([None, 7], pa.int64())})
        manager.upsert(name, first)
        with pytest.raises(ConfigurationError, match="not unique by line"):
            manager.set_keys(name, ["line"])
        # Identifier fields follow the keys as long as no key is nullable.
        for keys, identifiers in ((["id", "line"], {"id", "line"}), (["id", "part"], set())):
            table = manager.set_keys(name, keys, null_keys=NullKeys.MATCH)
            assert table.schema().identifier_field_names() == identifiers
        for line in (3, 4):
            manager.upsert(name, pa.table({"id": [1], "line": [line], "part": pa.array([None], pa.int64())}))
        assert sorted(manager.scan(name)["line"].to_pylist()) == [1, 4]

    def test_a_renamed_table_keeps_its_rows(self, manager: IcebergTableManager, table: str) -> None:
        if not self.rename:
            pytest.skip("capability: no rename")
        manager.append(table, rows([1]))
        other = new_name()
        manager.rename_table(table, other)
        assert manager.scan(other).num_rows == 1
        assert not manager.table_exists(table)
        with pytest.raises(TableNotFoundError):
            manager.rename_table(table, other)

    @pytest.mark.req("FR-016")
    def test_a_dropped_table_can_be_registered_again(self, manager: IcebergTableManager, table: str) -> None:
        if not self.register:
            pytest.skip("capability: no register")
        manager.append(table, rows([1, 2]))
        location = manager.load_table(table).metadata_location
        manager.drop_table(table)
        with pytest.raises(TableNotFoundError):
            manager.load_table(table)
        manager.register_table(table, location)
        assert manager.scan(table).num_rows == 2
        with pytest.raises(TableExistsError):
            manager.register_table(table, location)

    @pytest.mark.req("FR-017", "API-07")
    def test_dropping_a_missing_table_fails(self, manager: IcebergTableManager) -> None:
        for purge in (False, True):
            with pytest.raises(TableNotFoundError):
                manager.drop_table(new_name(), purge=purge)


class SchemaContract:
    """Tests of schema evolution."""

    @pytest.mark.req("FR-020", "TM-09")
    def test_compatible_changes_are_made_in_one_commit(self, manager: IcebergTableManager) -> None:
        name = new_name()
        manager.create_table(
            name, pa.schema([pa.field("id", pa.int32(), nullable=False), ("name", pa.string()), ("f", pa.float32())])
        )
        changed = manager.evolve_schema(
            name,
            [
                SchemaChange(kind=SchemaChangeKind.ADD, column="email", type="string", doc="Mail"),
                SchemaChange(kind=SchemaChangeKind.WIDEN, column="id", type=LongType()),
                SchemaChange(kind=SchemaChangeKind.WIDEN, column="f", type=pa.float64()),
                SchemaChange(kind=SchemaChangeKind.MAKE_OPTIONAL, column="id"),
                SchemaChange(kind=SchemaChangeKind.RENAME, column="name", new_name="full_name"),
                SchemaChange(kind=SchemaChangeKind.REORDER, column="email"),
                SchemaChange(kind=SchemaChangeKind.DOC, column="id", doc="Key"),
            ],
        )
        assert [str(field.name) for field in changed.fields] == ["email", "id", "full_name", "f"]
        assert str(changed.find_field("id").field_type) == "long"
        assert not changed.find_field("id").required
        assert changed.find_field("id").doc == "Key"
        assert manager.load_table(name).schema() == changed

    def test_nested_fields_change(self, manager: IcebergTableManager) -> None:
        name = new_name()
        point = pa.struct([("x", pa.int32())])
        schema = pa.schema([("p", point), ("l", pa.list_(point)), ("m", pa.map_(pa.string(), point))])
        manager.create_table(name, schema)
        nested = [{"p": {"x": 1}, "l": [{"x": 1}], "m": [("k", {"x": 1})]}]
        manager.append(name, pa.Table.from_pylist(nested, schema=schema))
        manager.evolve_schema(
            name,
            [
                SchemaChange(kind=SchemaChangeKind.ADD, column="p.y", type="int"),
                SchemaChange(kind=SchemaChangeKind.ADD, column="l.element.y", type="int"),
                SchemaChange(kind=SchemaChangeKind.ADD, column="m.value.y", type="int"),
                SchemaChange(kind=SchemaChangeKind.RENAME, column="p.x", new_name="z"),
            ],
        )
        found = manager.scan(name).to_pylist()
        assert found == [{"p": {"z": 1, "y": None}, "l": [{"x": 1, "y": None}], "m": [("k", {"x": 1, "y": None})]}]

    @pytest.mark.req("TM-09")
    @pytest.mark.parametrize(
        "change",
        [
            SchemaChange(kind=SchemaChangeKind.DROP, column="amount"),
            SchemaChange(kind=SchemaChangeKind.MAKE_REQUIRED, column="id"),
            SchemaChange(kind=SchemaChangeKind.CHANGE_TYPE, column="id", type="int"),
            SchemaChange(kind=SchemaChangeKind.ADD, column="must", type="int", required=True),
        ],
        ids=["drop", "make-required", "narrow", "required-addition"],
    )
    def test_incompatible_changes_need_the_flag(
        self, manager: IcebergTableManager, table: str, change: SchemaChange
    ) -> None:
        before = manager.load_table(table).schema()
        with pytest.raises(SchemaEvolutionError) as caught:
            manager.evolve_schema(table, [change])
        assert caught.value.mismatches[0].column == change.column
        assert manager.load_table(table).schema() == before
        planned = manager.plan_evolution(table, [change], allow_incompatible_changes=True)
        assert planned != before
        assert manager.load_table(table).schema() == before
        assert manager.evolve_schema(table, [change], allow_incompatible_changes=True) == planned

    def test_changes_that_make_rows_unreadable_are_refused_even_with_the_flag(
        self, manager: IcebergTableManager, table: str
    ) -> None:
        manager.append(table, pa.table({"id": [None, 1]}))
        for change in (
            SchemaChange(kind=SchemaChangeKind.MAKE_REQUIRED, column="id"),
            SchemaChange(kind=SchemaChangeKind.CHANGE_TYPE, column="id", type="string"),
            SchemaChange(kind=SchemaChangeKind.ADD, column="must", type="int", required=True),
        ):
            with pytest.raises(SchemaEvolutionError):
                manager.evolve_schema(table, [change], allow_incompatible_changes=True)
        assert manager.scan(table).num_rows == 2

    def test_an_impossible_change_is_refused(self, manager: IcebergTableManager, table: str) -> None:
        with pytest.raises(SchemaEvolutionError, match="column does not exist"):
            manager.evolve_schema(table, [SchemaChange(kind=SchemaChangeKind.RENAME, column="nope", new_name="x")])
        with pytest.raises(SchemaEvolutionError, match="already"):
            manager.evolve_schema(table, [SchemaChange(kind=SchemaChangeKind.ADD, column="id", type=StringType())])


_CREATED: set[str] = set()
"""Names created by this process; other processes may use the same server and namespace."""


def new_name() -> str:
    """Return a unique table name in the suite's namespace."""
    name = f"{NAMESPACE}.t{uuid.uuid4().hex[:12]}"
    _CREATED.add(name)
    return name


class TableManagerContract(TablesContract, WritesContract, SchemaContract):
    """Tests of everything that the table manager guarantees on any catalog and engine."""

    broken_by_catalog: ClassVar[frozenset[Rule]] = frozenset()
    """Rules of the specification that the catalog itself violates."""

    @pytest.fixture
    def manager(self) -> IcebergTableManager:
        """Provide a manager whose catalog has the namespace ``contract``."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _audited(self, manager: IcebergTableManager) -> Iterator[None]:
        """Audit the tables that a test leaves, so that the suite also verifies their files."""
        _CREATED.clear()
        yield
        left = {f"{NAMESPACE}.{name}" for name in manager.list_tables(NAMESPACE)}
        for name in sorted(left & _CREATED):
            assert_audited(manager, name, except_for=self.broken_by_catalog)

    @pytest.fixture
    def table(self, manager: IcebergTableManager) -> str:
        """Provide the name of an empty table with the suite's schema."""
        name = new_name()
        manager.create_table(name, SCHEMA)
        return name
