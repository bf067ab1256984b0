"""Contract suite for writes on any catalog and engine; part of ``floe_testing.tables``."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

from floe_core.dataplane import OPERATION_ID_PROPERTY
from floe_core.errors import (
    CapabilityError,
    ConfigurationError,
    InvalidDataError,
    RefNotFoundError,
    SchemaEvolutionError,
)
from floe_iceberg import CommitStrategy, Engine, IcebergTableManager, WriteMode

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("day", pa.date32()),
        pa.field("amount", pa.float64()),
    ]
)


def rows(ids: Iterable[int], name: str = "a", day: dt.date = dt.date(2024, 1, 1)) -> pa.Table:
    """Return rows of the suite's schema."""
    numbers = list(ids)
    return pa.table(
        {
            "id": numbers,
            "name": [name] * len(numbers),
            "day": [day] * len(numbers),
            "amount": [float(number) for number in numbers],
        },
        schema=SCHEMA,
    )


class WritesContract:
    """Tests of appends, overwrites, upserts and deletes; ``manager`` and ``table`` are fixtures of the suite.

    Attributes:
        engine: The engine that writes the data.
        branches: Whether the catalog supports branches.
        history: Whether the catalog exposes snapshots other than the latest.
    """

    engine: ClassVar[Engine] = Engine.ARROW
    branches: ClassVar[bool] = True
    history: ClassVar[bool] = True

    @property
    def on_main(self) -> bool:
        """Whether writes go directly to main: an engine that stages on a branch cannot do so without branches."""
        return self.engine is Engine.SPARK and not self.branches

    def write(self, manager: IcebergTableManager, table: str, data: pa.Table, mode: WriteMode, **options: Any) -> Any:
        return manager.write_data(table, data, mode, engine=self.engine, **options)

    def append(self, manager: IcebergTableManager, table: str, data: pa.Table, **options: Any) -> Any:
        return self.write(manager, table, data, WriteMode.APPEND, **options)

    @staticmethod
    def ids(manager: IcebergTableManager, table: str, **options: Any) -> list[int]:
        return sorted(manager.scan(table, columns=["id"], **options)["id"].to_pylist())

    @staticmethod
    def manifests(manager: IcebergTableManager, table: str) -> int:
        loaded = manager.load_table(table)
        snapshot = loaded.current_snapshot()
        return len(snapshot.manifests(loaded.io)) if snapshot else 0

    @pytest.mark.req("FR-018", "API-08")
    def test_append_adds_rows_in_one_snapshot(self, manager: IcebergTableManager, table: str) -> None:
        first = self.append(manager, table, rows([1, 2]))
        second = self.append(manager, table, rows([3]))
        assert self.ids(manager, table) == [1, 2, 3]
        made = [second.snapshot_id, first.snapshot_id] if self.history else [second.snapshot_id]
        assert [snapshot.snapshot_id for snapshot in manager.list_snapshots(table)] == made
        assert first.operation == "append"

    @pytest.mark.req("TM-04")
    def test_snapshot_properties_arrive_in_the_summary(self, manager: IcebergTableManager, table: str) -> None:
        written = self.append(manager, table, rows([1]), snapshot_properties={"pipeline_run_id": "run-1"})
        summary = manager.list_snapshots(table)[0].summary
        assert written.summary["pipeline_run_id"] == summary["pipeline_run_id"] == "run-1"
        assert summary[OPERATION_ID_PROPERTY]

    @pytest.mark.req("TM-14")
    def test_a_repeated_operation_id_writes_once(self, manager: IcebergTableManager, table: str) -> None:
        first = self.append(manager, table, rows([1]), operation_id="op-1")
        others = [2] if self.history else []
        if others:
            self.append(manager, table, rows(others))
        again = self.append(manager, table, rows([1]), operation_id="op-1")
        assert again.snapshot_id == first.snapshot_id
        assert self.ids(manager, table) == [1, *others]
        assert len(manager.list_snapshots(table)) == 1 + len(others)

    @pytest.mark.req("FR-019", "API-08")
    def test_overwrite_replaces_every_row(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, rows([1, 2]))
        self.append(manager, table, rows([3]))
        snapshot = self.write(manager, table, rows([9]), WriteMode.OVERWRITE)
        assert self.ids(manager, table) == [9]
        assert snapshot.operation == "overwrite"

    @pytest.mark.req("TM-05")
    def test_overwrite_by_filter_replaces_matching_rows(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, rows([1, 2, 3, 4]))
        some = "id > 1 and id < 4"
        if self.on_main:
            with pytest.raises(CapabilityError):
                self.write(manager, table, rows([20, 30]), WriteMode.OVERWRITE, overwrite_filter=some)
            assert self.ids(manager, table) == [1, 2, 3, 4]
            return
        self.write(manager, table, rows([20, 30]), WriteMode.OVERWRITE, overwrite_filter=some)
        assert self.ids(manager, table) == [1, 4, 20, 30]

    @pytest.mark.req("FR-019", "TM-05")
    @pytest.mark.parametrize("term", ["day", "month(day)", "year(day)"])
    def test_overwrite_partitions_replaces_the_written_partitions(
        self, manager: IcebergTableManager, table: str, term: str
    ) -> None:
        name = f"{table}_by_{term.partition('(')[0]}"
        manager.create_table(name, SCHEMA, partition_spec=[term])
        january, later = dt.date(2024, 1, 1), dt.date(2025, 3, 1)
        self.append(manager, name, pa.concat_tables([rows([1, 2], day=january), rows([3, 4], day=later)]))
        self.write(manager, name, rows([9], day=january), WriteMode.OVERWRITE_PARTITIONS)
        assert self.ids(manager, name) == [3, 4, 9]

    def test_overwriting_partitions_of_an_unpartitioned_table_is_refused(
        self, manager: IcebergTableManager, table: str
    ) -> None:
        with pytest.raises(ConfigurationError, match="no partitions"):
            self.write(manager, table, rows([1]), WriteMode.OVERWRITE_PARTITIONS)

    @pytest.mark.req("TM-06")
    def test_upsert_updates_by_key_and_adds_the_rest(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, rows([1, 2, 3], name="old"))
        self.write(manager, table, rows([2, 4], name="new"), WriteMode.UPSERT, keys=["id"])
        found = {row["id"]: row["name"] for row in manager.scan(table).to_pylist()}
        assert found == {1: "old", 2: "new", 3: "old", 4: "new"}

    @pytest.mark.req("TM-06")
    def test_upsert_by_several_keys(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, pa.concat_tables([rows([1, 2], name="x"), rows([1, 2], name="y")]))
        changed = rows([1], name="y").set_column(3, "amount", pa.array([100.0]))
        self.write(manager, table, changed, WriteMode.UPSERT, keys=["id", "name"])
        found = {(row["id"], row["name"]): row["amount"] for row in manager.scan(table).to_pylist()}
        assert found == {(1, "x"): 1.0, (2, "x"): 2.0, (1, "y"): 100.0, (2, "y"): 2.0}

    @pytest.mark.req("TM-06")
    def test_upsert_keeps_columns_the_data_lacks(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, rows([1, 2], name="old"))
        self.write(manager, table, pa.table({"id": [2, 3], "name": ["new", "new"]}), WriteMode.UPSERT, keys=["id"])
        found = {row["id"]: (row["name"], row["amount"]) for row in manager.scan(table).to_pylist()}
        assert found == {1: ("old", 1.0), 2: ("new", 2.0), 3: ("new", None)}

    @pytest.mark.req("TM-06")
    def test_null_in_a_key_is_refused(self, manager: IcebergTableManager, table: str) -> None:
        nameless = pa.table({"id": pa.array([None], pa.int64()), "name": ["a"]})
        self.append(manager, table, nameless)
        with pytest.raises(InvalidDataError, match="nulls in key columns"):
            self.write(manager, table, nameless, WriteMode.UPSERT, keys=["id"])
        self.write(manager, table, rows([1]), WriteMode.UPSERT, keys=["id"])
        assert manager.scan(table).num_rows == 2

    def test_upsert_refuses_several_rows_for_one_key(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, rows([1]))
        with pytest.raises(InvalidDataError, match="id"):
            self.write(manager, table, rows([7, 7]), WriteMode.UPSERT, keys=["id"])
        assert self.ids(manager, table) == [1]

    def test_upsert_without_keys_is_refused(self, manager: IcebergTableManager, table: str) -> None:
        with pytest.raises(ConfigurationError, match="keys"):
            self.write(manager, table, rows([1]), WriteMode.UPSERT)

    def test_delete_removes_matching_rows(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, rows(range(10)))
        manager.delete(table, "id >= 3 and id < 8", engine=self.engine)
        assert self.ids(manager, table) == [0, 1, 2, 8, 9]

    def test_delete_keeps_rows_for_which_the_filter_is_unknown(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, pa.table({"id": [1, 2], "name": ["a", None]}))
        manager.delete(table, "name = 'a'", engine=self.engine)
        assert self.ids(manager, table) == [2]

    def test_delete_keeps_nan(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, pa.table({"id": [1, 2], "amount": [float("nan"), 1.0]}))
        manager.delete(table, "amount < 10.0", engine=self.engine)
        assert self.ids(manager, table) == [1]

    def test_a_delete_that_matches_nothing_leaves_no_snapshot(self, manager: IcebergTableManager, table: str) -> None:
        before = self.append(manager, table, rows([1]))
        after = manager.delete(table, "id = 77", engine=self.engine)
        assert self.ids(manager, table) == [1]
        # Spark commits an empty snapshot; staging on a branch keeps it off main.
        assert (after.snapshot_id == before.snapshot_id) is not self.on_main
        assert len(manager.list_snapshots(table)) == 1 + (self.on_main and self.history)

    @pytest.mark.req("TM-14")
    def test_repeating_a_delete_or_an_upsert_changes_nothing(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, rows([1, 2, 3]))
        for _ in range(2):
            self.write(manager, table, rows([3, 4], name="new"), WriteMode.UPSERT, keys=["id"], operation_id="up")
            manager.delete(table, "id = 1", operation_id="del", engine=self.engine)
        assert self.ids(manager, table) == [2, 3, 4]
        assert len(manager.list_snapshots(table)) == (3 if self.history else 1)

    @pytest.mark.req("TM-03")
    def test_fast_append_adds_manifests_and_merge_does_not(self, manager: IcebergTableManager, table: str) -> None:
        if self.engine is not Engine.ARROW:
            pytest.skip("capability: the engine follows the table's properties")
        self.append(manager, table, rows([0]), commit_strategy=CommitStrategy.FAST_APPEND)
        for number in (1, 2):
            # Fast append is the default.
            manager.write_data(table, rows([number]), engine=self.engine)
        assert self.manifests(manager, table) == 3
        self.append(manager, table, rows([9]), commit_strategy=CommitStrategy.MERGE)
        assert self.manifests(manager, table) == 1
        assert self.ids(manager, table) == [0, 1, 2, 9]

    def test_writes_to_a_branch_do_not_change_main(self, manager: IcebergTableManager, table: str) -> None:
        if not self.branches:
            pytest.skip("capability: no branches")
        self.append(manager, table, rows([1]))
        manager.create_branch(table, "audit")
        self.append(manager, table, rows([2]), branch="audit")
        self.write(manager, table, rows([1], name="new"), WriteMode.UPSERT, keys=["id"], branch="audit")
        assert self.ids(manager, table) == [1]
        assert self.ids(manager, table, ref="audit") == [1, 2]
        manager.publish_branch(table, "audit")
        assert self.ids(manager, table) == [1, 2]

    def test_a_missing_branch_is_refused(self, manager: IcebergTableManager, table: str) -> None:
        with pytest.raises(RefNotFoundError, match="nowhere"):
            self.append(manager, table, rows([1]), branch="nowhere")

    @pytest.mark.req("FR-020", "API-08")
    def test_new_columns_and_wider_types_are_adopted(self, manager: IcebergTableManager, table: str) -> None:
        manager.create_table(f"{table}_narrow", pa.schema([("id", pa.int32())]))
        self.append(manager, f"{table}_narrow", pa.table({"id": pa.array([1], pa.int32())}))
        self.append(manager, f"{table}_narrow", pa.table({"id": [2**40], "note": ["new"]}))
        found = manager.scan(f"{table}_narrow").sort_by("id").to_pylist()
        assert found == [{"id": 1, "note": None}, {"id": 2**40, "note": "new"}]

    @pytest.mark.req("FR-020")
    def test_new_columns_are_refused_without_schema_evolution(self, manager: IcebergTableManager, table: str) -> None:
        extended = rows([1]).append_column("extra", pa.array(["x"]))
        with pytest.raises(SchemaEvolutionError) as caught:
            self.append(manager, table, extended, evolve_schema=False)
        assert [mismatch.column for mismatch in caught.value.mismatches] == ["extra"]
        assert manager.get_current_snapshot(table) is None

    def test_absent_columns_become_null_and_are_never_dropped(self, manager: IcebergTableManager, table: str) -> None:
        self.append(manager, table, pa.table({"id": [1]}))
        assert manager.scan(table).to_pylist() == [{"id": 1, "name": None, "day": None, "amount": None}]

    def test_incompatible_types_are_reported_per_column(self, manager: IcebergTableManager, table: str) -> None:
        wrong = pa.table({"id": ["x"], "amount": ["y"], "name": ["fine"]})
        with pytest.raises(SchemaEvolutionError) as caught:
            self.append(manager, table, wrong)
        found = {mismatch.column: (mismatch.table_type, mismatch.data_type) for mismatch in caught.value.mismatches}
        assert found == {"id": ("long", "string"), "amount": ("double", "string")}
