"""Contract suite for data planes: what every engine computes for checks, gates and models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from floe_core.dataplane import Aggregate, DataPlane, Figure, Measure, NullKeys, ReadRequest
from floe_core.errors import InvalidScanError
from floe_testing.plugins.engine_tables import (
    CUSTOMERS,
    NAMESPACE,
    NOON,
    ORDERS,
    ROWS,
    SCHEMA,
    created,
    head,
    named,
    predicate,
)
from floe_testing.plugins.engine_values import EngineValuesContract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


class DataPlaneContract(EngineValuesContract):
    """Tests of an engine on the tables of a catalog.

    Override the fixtures ``data_plane`` with an open engine, and ``catalog`` with the connected PyIceberg catalog that
    it uses. The suite creates its tables in the namespace ``contract``. Its conditions are standard SQL.
    """

    @pytest.fixture
    def data_plane(self) -> DataPlane:
        """Return an open engine."""
        msg = "override the fixture data_plane"
        raise NotImplementedError(msg)

    @pytest.fixture
    def catalog(self) -> Catalog:
        """Return the catalog that the engine uses."""
        msg = "override the fixture catalog"
        raise NotImplementedError(msg)

    @pytest.fixture
    def orders(self, catalog: Catalog) -> Table:
        """Return a small table with nulls, repeated values and a struct."""
        return created(catalog, ORDERS, pa.Table.from_pylist(ROWS, schema=SCHEMA))

    @pytest.fixture
    def customers(self, catalog: Catalog) -> Table:
        """Return a table that some orders refer to."""
        rows = [{"name": "ann", "city": "Oslo"}, {"name": "bob", "city": "Rome"}, {"name": None, "city": None}]
        return created(catalog, CUSTOMERS, pa.Table.from_pylist(rows))

    # Frames

    def test_a_frame_is_one_of_the_engines_own(self, data_plane: DataPlane, orders: Table) -> None:
        frame = data_plane.frame(ReadRequest(named(orders)))
        assert data_plane.accepts(frame)
        assert data_plane.gives(type(frame))
        assert data_plane.columns(frame) == tuple(SCHEMA.names)
        assert data_plane.arrow_schema(frame).names == SCHEMA.names

    def test_an_empty_frame_has_neither_columns_nor_rows(self, data_plane: DataPlane) -> None:
        frame = data_plane.empty_frame()
        assert data_plane.accepts(frame)
        assert data_plane.columns(frame) == ()

    def test_foreign_classes_are_not_frames_of_the_engine(self, data_plane: DataPlane) -> None:
        assert not any(data_plane.gives(kind) for kind in (object, dict, pa.Table))

    @pytest.mark.parametrize("form", ["text", "predicate"])
    def test_a_read_keeps_the_rows_that_pass_both_filters(
        self, data_plane: DataPlane, orders: Table, form: str
    ) -> None:
        row_filter: object = "amount > 0" if form == "text" else predicate(orders, "amount > 0")
        request = ReadRequest(named(orders), columns=("id",), row_filter=row_filter, where="name = 'bob' -- his own")
        assert self._rows(data_plane.frame(request)) == [{"id": 6}]
        assert data_plane.read_arrow(request).to_pylist() == [{"id": 6}]

    # Aggregates

    def test_rows_are_counted(self, data_plane: DataPlane, orders: Table) -> None:
        found = data_plane.aggregate(
            ReadRequest(named(orders)),
            [
                Aggregate("all", Measure.ROWS),
                Aggregate("filtered", Measure.ROWS, row_filter=predicate(orders, "amount > 0")),
                Aggregate("by_text", Measure.ROWS, row_filter="amount > 0"),
                Aggregate("by_user", Measure.ROWS, where="name = 'bob' or amount = 200"),
                Aggregate("both", Measure.ROWS, row_filter="amount > 0", where="name = 'bob' or amount = 200 -- both"),
            ],
        )
        assert {name: figure.value for name, figure in found.items()} == {
            "all": 6,
            "filtered": 4,
            "by_text": 4,
            "by_user": 4,
            "both": 2,
        }

    def test_only_the_rows_of_the_read_are_counted(self, data_plane: DataPlane, orders: Table) -> None:
        rows = [Aggregate("rows", Measure.ROWS)]
        filtered = ReadRequest(named(orders), row_filter=predicate(orders, "amount > 0"), where="name = 'bob'")
        assert data_plane.aggregate(filtered, rows) == {"rows": Figure(1)}

    def test_a_read_of_a_version_counts_the_rows_of_that_version(self, data_plane: DataPlane, orders: Table) -> None:
        first = head(orders)
        orders.append(orders.scan().to_arrow())
        rows = [Aggregate("rows", Measure.ROWS)]
        assert data_plane.aggregate(ReadRequest(named(orders)), rows)["rows"].value == 12
        assert data_plane.aggregate(ReadRequest(named(orders), snapshot_id=first), rows)["rows"].value == 6

    def test_a_table_without_rows_has_figures_too(self, data_plane: DataPlane, catalog: Catalog) -> None:
        empty = created(catalog, f"{NAMESPACE}.empty", SCHEMA.empty_table())
        found = data_plane.aggregate(
            ReadRequest(named(empty)),
            [
                Aggregate("rows", Measure.ROWS),
                Aggregate("repeated", Measure.REPEATED, (("id",),)),
                Aggregate("outside", Measure.OUTSIDE, (("amount",),), low=0),
                Aggregate("newest", Measure.NEWEST, (("seen",),)),
            ],
        )
        assert found == {"rows": Figure(0), "repeated": Figure(0), "outside": Figure(0), "newest": Figure(None)}

    def test_without_aggregates_there_are_no_figures(self, data_plane: DataPlane, orders: Table) -> None:
        assert data_plane.aggregate(ReadRequest(named(orders)), []) == {}

    def test_nulls_are_counted(self, data_plane: DataPlane, orders: Table) -> None:
        found = data_plane.aggregate(
            ReadRequest(named(orders)),
            [
                Aggregate("name", Measure.NULLS, (("name",),)),
                Aggregate("city", Measure.NULLS, (("place", "city"),)),
                Aggregate("none", Measure.NULLS, (("id",),)),
                Aggregate("scoped", Measure.NULLS, (("name",),), where="amount < 100"),
            ],
        )
        assert [found[name].value for name in ("name", "city", "none", "scoped")] == [1, 1, 0, 0]

    def test_rows_beyond_the_first_of_their_key_are_counted(self, data_plane: DataPlane, orders: Table) -> None:
        found = data_plane.aggregate(
            ReadRequest(named(orders)),
            [
                Aggregate("id", Measure.REPEATED, (("id",),)),
                Aggregate("name", Measure.REPEATED, (("name",),)),
                Aggregate("city", Measure.REPEATED, (("place", "city"),)),
                Aggregate("pair", Measure.REPEATED, (("name",), ("place", "city"))),
                Aggregate("scoped", Measure.REPEATED, (("name",), ("place", "city")), where="amount > 0"),
            ],
        )
        assert [found[name].value for name in ("id", "name", "city", "pair", "scoped")] == [0, 2, 3, 1, 0]

    def test_values_outside_of_limits_are_counted_with_the_least_as_example(
        self, data_plane: DataPlane, orders: Table
    ) -> None:
        amount = (("amount",),)
        found = data_plane.aggregate(
            ReadRequest(named(orders)),
            [
                Aggregate("low", Measure.OUTSIDE, amount, low=0),
                Aggregate("high", Measure.OUTSIDE, amount, high=29.5),
                Aggregate("both", Measure.OUTSIDE, amount, low=0, high=100),
                Aggregate("inside", Measure.OUTSIDE, amount, low=-5, high=200),
                Aggregate("scoped", Measure.OUTSIDE, amount, low=0, high=100, row_filter=predicate(orders, "id > 2")),
                Aggregate("day", Measure.OUTSIDE, (("day",),), low="2026-01-02", high="2026-01-05"),
                Aggregate("nested", Measure.OUTSIDE, (("place", "floor"),), high=0),
            ],
        )
        assert found == {
            "low": Figure(1, "-5"),
            "high": Figure(2, "30"),
            "both": Figure(2, "-5"),
            "inside": Figure(0),
            "scoped": Figure(1, "200"),
            "day": Figure(2, "2026-01-01"),
            "nested": Figure(3, "1"),
        }

    def test_values_that_are_not_accepted_are_counted_with_the_least_as_example(
        self, data_plane: DataPlane, orders: Table
    ) -> None:
        found = data_plane.aggregate(
            ReadRequest(named(orders)),
            [
                Aggregate("name", Measure.OTHER, (("name",),), values=("ann", "it's ${x}")),
                Aggregate("amount", Measure.OTHER, (("amount",),), values=(10, 30.0, 200)),
                Aggregate("paid", Measure.OTHER, (("paid",),), values=(True,)),
                Aggregate("scoped", Measure.OTHER, (("name",),), values=("ann",), where="amount = 10"),
            ],
        )
        assert found == {
            "name": Figure(4, "bob"),
            "amount": Figure(1, "-5"),
            "paid": Figure(1, "false"),
            "scoped": Figure(1, "cid"),
        }

    def test_a_condition_is_violated_where_it_is_false_and_not_where_it_is_null(
        self, data_plane: DataPlane, orders: Table
    ) -> None:
        found = data_plane.aggregate(
            ReadRequest(named(orders)),
            [
                Aggregate("shown", Measure.VIOLATIONS, (("id",), ("amount",)), condition="amount > 0 -- or unknown"),
                Aggregate("one", Measure.VIOLATIONS, (("amount",),), condition="amount > 0"),
                Aggregate("quiet", Measure.VIOLATIONS, condition="amount > 10 or name = 'ann'"),
                Aggregate("kept", Measure.VIOLATIONS, (("id",),), condition="id > 0"),
                Aggregate("scoped", Measure.VIOLATIONS, (("id",),), condition="amount > 0", where="id > 2"),
            ],
        )
        assert [found[name].value for name in ("shown", "one", "quiet", "kept", "scoped")] == [1, 1, 2, 0, 0]
        assert json.loads(found["shown"].example or "") == {"id": 2, "amount": -5}
        assert json.loads(found["one"].example or "") == {"amount": -5}
        assert [found[name].example for name in ("quiet", "kept", "scoped")] == [None, None, None]

    def test_the_newest_value_is_in_seconds_and_without_zone_it_is_utc(
        self, data_plane: DataPlane, orders: Table
    ) -> None:
        found = data_plane.aggregate(
            ReadRequest(named(orders)),
            [
                Aggregate("seen", Measure.NEWEST, (("seen",),)),
                Aggregate("heard", Measure.NEWEST, (("heard",),)),
                Aggregate("day", Measure.NEWEST, (("day",),)),
                Aggregate("scoped", Measure.NEWEST, (("seen",),), where="name = 'ann'"),
                Aggregate("none", Measure.NEWEST, (("heard",),), where="id > 100"),
            ],
        )
        newest, first = NOON.replace(day=6), NOON.replace(day=1)
        assert {name: figure.value for name, figure in found.items()} == {
            "seen": newest.timestamp(),
            "heard": newest.timestamp(),
            "day": newest.replace(hour=0).timestamp(),
            "scoped": first.timestamp(),
            "none": None,
        }

    @pytest.mark.parametrize("condition", ["no_such_column > 0", "cast(name as int) > 0"], ids=["column", "value"])
    @pytest.mark.parametrize("place", ["condition", "where", "read"])
    def test_an_invalid_condition_is_refused_with_only_the_reason(
        self, data_plane: DataPlane, orders: Table, condition: str, place: str
    ) -> None:
        request = ReadRequest(named(orders), where=condition if place == "read" else None)
        aggregate = Aggregate(
            "bad",
            Measure.VIOLATIONS,
            (("id",),),
            condition=condition if place == "condition" else "id > 0",
            where=condition if place == "where" else None,
        )
        with pytest.raises(InvalidScanError) as caught:
            data_plane.aggregate(request, [aggregate])
        assert caught.value.message
        assert caught.value.hint is None
        assert "\n" not in caught.value.message

    # Rows without a match in another table

    def test_values_missing_in_another_table_are_counted(
        self, data_plane: DataPlane, orders: Table, customers: Table
    ) -> None:
        reads = ReadRequest(named(orders)), ReadRequest(named(customers))
        aggregate = Aggregate("names", Measure.ROWS, (("name",),))
        assert data_plane.unmatched(aggregate, *reads, [("name",)]) == Figure(1, "cid")
        cities = Aggregate("cities", Measure.ROWS, (("place", "city"),))
        assert data_plane.unmatched(cities, *reads, [("city",)]) == Figure(0)

    def test_values_of_several_columns_are_matched_together(
        self, data_plane: DataPlane, orders: Table, customers: Table
    ) -> None:
        aggregate = Aggregate("pairs", Measure.ROWS, (("name",), ("place", "city")), where="name = 'bob'")
        found = data_plane.unmatched(
            aggregate, ReadRequest(named(orders)), ReadRequest(named(customers)), [("name",), ("city",)]
        )
        assert found.value == 2
        assert json.loads(found.example or "") == {"name": "bob", "place.city": "Oslo"}

    def test_only_rows_that_pass_the_filters_are_matched(
        self, data_plane: DataPlane, orders: Table, customers: Table
    ) -> None:
        others = ReadRequest(named(customers))
        filtered = Aggregate("names", Measure.ROWS, (("name",),), row_filter=predicate(orders, "id < 5"))
        assert data_plane.unmatched(filtered, ReadRequest(named(orders)), others, [("name",)]) == Figure(0)
        aggregate = Aggregate("names", Measure.ROWS, (("name",),))
        pushed = ReadRequest(named(orders), row_filter=predicate(orders, "id < 5"))
        assert data_plane.unmatched(aggregate, pushed, others, [("name",)]) == Figure(0)
        fewer = ReadRequest(named(customers), row_filter="name = 'bob'")
        assert data_plane.unmatched(aggregate, ReadRequest(named(orders)), fewer, [("name",)]) == Figure(2, "ann")

    def test_an_invalid_condition_on_matched_rows_is_refused(
        self, data_plane: DataPlane, orders: Table, customers: Table
    ) -> None:
        aggregate = Aggregate("names", Measure.ROWS, (("name",),), where="no_such_column > 0")
        with pytest.raises(InvalidScanError):
            data_plane.unmatched(aggregate, ReadRequest(named(orders)), ReadRequest(named(customers)), [("name",)])

    # Keys

    def test_repeated_keys_are_found(self, data_plane: DataPlane, orders: Table) -> None:
        orders.append(orders.scan(row_filter="id = 4").to_arrow())
        request = ReadRequest(named(orders))
        refused, matched = (
            sorted(data_plane.repeated_keys(request, [("name",)], null_keys=null_keys, limit=9), key=str)
            for null_keys in (NullKeys.REFUSE, NullKeys.MATCH)
        )
        assert refused == [("bob",)]
        assert matched == [("bob",), (None,)]

    def test_repeated_keys_of_several_columns_are_found(self, data_plane: DataPlane, orders: Table) -> None:
        request, keys = ReadRequest(named(orders)), [("place", "city"), ("name",)]
        found = data_plane.repeated_keys(request, keys, null_keys=NullKeys.REFUSE, limit=9)
        assert found == [("Oslo", "bob")]

    def test_repeated_keys_are_limited(self, data_plane: DataPlane, orders: Table) -> None:
        request, keys = ReadRequest(named(orders)), [("place", "city")]
        assert len(data_plane.repeated_keys(request, keys, null_keys=NullKeys.REFUSE, limit=1)) == 1
        assert data_plane.repeated_keys(request, [("id",)], null_keys=NullKeys.REFUSE, limit=1) == []

    # Differences between two versions

    def test_added_rows_are_returned_as_often_as_they_were_added(self, data_plane: DataPlane, orders: Table) -> None:
        first = head(orders)
        one = orders.scan(row_filter="id = 1").to_arrow()
        orders.append(pa.concat_tables([one, one]))
        before, after = ReadRequest(named(orders), snapshot_id=first), ReadRequest(named(orders))
        added = data_plane.added_rows(before, after, ["id", "place"])
        assert data_plane.accepts(added)
        assert self._rows(added) == [{"id": 1, "place": {"city": "Oslo", "floor": 1}}] * 2
        assert self._rows(data_plane.added_rows(after, before, ["id"])) == []

    def test_a_column_that_a_version_lacks_is_null_there(self, data_plane: DataPlane, orders: Table) -> None:
        first = head(orders)
        with orders.update_schema() as update:
            update.add_column("note", StringType())
        orders.append(pa.table({"id": pa.array([7], pa.int64()), "note": ["new"]}))
        reads = ReadRequest(named(orders), snapshot_id=first), ReadRequest(named(orders))
        assert self._rows(data_plane.added_rows(*reads, ["note", "id"])) == [{"note": "new", "id": 7}]
        assert data_plane.rows_changed(*reads, ["note"])
        old = predicate(orders, "id < 7")
        kept = [ReadRequest(read.table, row_filter=old, snapshot_id=read.snapshot_id) for read in reads]
        assert not data_plane.rows_changed(kept[0], kept[1], ["id", "note"])

    def test_rows_are_compared_by_the_given_columns_and_by_count(self, data_plane: DataPlane, orders: Table) -> None:
        first = head(orders)
        changed = [row | {"amount": 11} if row["id"] == 1 else row for row in ROWS]
        orders.overwrite(pa.Table.from_pylist(changed, schema=SCHEMA))
        before, after = ReadRequest(named(orders), snapshot_id=first), ReadRequest(named(orders))
        assert not data_plane.rows_changed(before, before, SCHEMA.names)
        assert data_plane.rows_changed(before, after, SCHEMA.names)
        assert not data_plane.rows_changed(before, after, ["id", "name", "place"])
        orders.append(orders.scan(row_filter="id = 2").to_arrow())
        assert data_plane.rows_changed(before, after, ["id"])
        assert data_plane.rows_changed(after, before, ["id"])

    def test_only_rows_that_pass_the_filters_are_compared(self, data_plane: DataPlane, orders: Table) -> None:
        first = head(orders)
        orders.delete("id = 1")
        changes = {
            text: data_plane.rows_changed(
                ReadRequest(named(orders), row_filter=predicate(orders, text), snapshot_id=first),
                ReadRequest(named(orders), row_filter=predicate(orders, text)),
                ["id", "amount"],
            )
            for text in ("amount = 10", "amount > 10")
        }
        assert changes == {"amount = 10": True, "amount > 10": False}

    def test_only_rows_with_the_keys_of_a_frame_are_compared(self, data_plane: DataPlane, orders: Table) -> None:
        first = head(orders)
        changed = [row | {"amount": 11} if row["id"] in {1, 4} else row for row in ROWS]
        orders.overwrite(pa.Table.from_pylist(changed, schema=SCHEMA))
        before, after = ReadRequest(named(orders), snapshot_id=first), ReadRequest(named(orders))

        def changes(where: str, *keys: Sequence[str]) -> bool:
            keyed = data_plane.frame(ReadRequest(named(orders), where=where))
            return data_plane.rows_changed(
                before, after, ["id", "name", "amount", "place"], keys=[tuple(key) for key in keys], keyed=keyed
            )

        assert changes("id = 1", ["name"])
        assert not changes("id = 2", ["name"])
        # The fourth row has a null name, which is a regular key here.
        assert changes("id = 4", ["name"])
        assert changes("id = 5", ["place", "city"])
        assert not changes("id = 5", ["name"], ["place", "city"])

    # Guarded rows and queries

    def test_guarded_rows_are_the_same_rows(self, data_plane: DataPlane, orders: Table) -> None:
        frame = data_plane.frame(ReadRequest(named(orders)))
        guarded = data_plane.guard_rows(frame, predicate(orders, "id > 0"), column="id", message="outside")
        assert data_plane.columns(guarded) == tuple(SCHEMA.names)
        assert self._rows(guarded) == self._rows(frame)
        nested = data_plane.frame(ReadRequest(named(orders), where="id <> 3"))
        cities = predicate(orders, "place.city in ('Oslo', 'Rome')")
        watched = data_plane.guard_rows(nested, cities, column="place.city", message="outside")
        assert self._rows(watched) == self._rows(nested)

    @pytest.mark.parametrize(
        ("text", "column"),
        [("id < 6", "id"), ("amount > -10", "amount"), ("place.city = 'Oslo'", "place.city")],
        ids=["false", "null", "nested"],
    )
    def test_a_row_that_does_not_pass_the_guard_fails_with_the_message(
        self, data_plane: DataPlane, orders: Table, text: str, column: str
    ) -> None:
        frame = data_plane.frame(ReadRequest(named(orders)))
        guarded = data_plane.guard_rows(frame, predicate(orders, text), column=column, message="it's outside")
        with pytest.raises(Exception, match="it's outside"):
            self.collected(guarded)

    def test_the_result_of_a_query_can_be_read_later(
        self, data_plane: DataPlane, orders: Table, customers: Table
    ) -> None:
        frames = {table: data_plane.frame(ReadRequest(table)) for table in (named(orders), named(customers))}
        joined = data_plane.query(
            frames,
            lambda names: (
                f"select o.id, c.city from {names[ORDERS]} o join {names[CUSTOMERS]} c "
                "on o.name = c.name where o.amount > 0"
            ),
        )
        swapped = {ORDERS: frames[CUSTOMERS]}
        other = data_plane.query(swapped, lambda names: f"select name from {names[ORDERS]}")
        assert data_plane.accepts(joined)
        assert data_plane.columns(joined) == ("id", "city")
        assert len(self._rows(other)) == 3
        assert self._rows(joined) == [{"id": 1, "city": "Oslo"}, {"id": 6, "city": "Rome"}]

    def test_a_query_without_frames_runs(self, data_plane: DataPlane) -> None:
        assert self._rows(data_plane.query({}, lambda _names: "select 1 as one")) == [{"one": 1}]

    def _rows(self, frame: Any) -> list[dict[str, Any]]:
        return sorted(self.collected(frame).to_pylist(), key=repr)
