"""What every engine makes of values, names and requests that engines tend to take differently."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from floe_core.dataplane import Aggregate, DataPlane, Figure, Measure, NullKeys, ReadRequest
from floe_core.errors import CapabilityError, InvalidScanError
from floe_testing.plugins.engine_tables import NAMESPACE, ORDERS, ROWS, SCHEMA, created, head, named, predicate

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAN, INFINITY = float("nan"), float("inf")
NUMBERS = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "small": pa.array([0.1, 0.5, NAN, -0.0, INFINITY, None], pa.float32()),
        "large": [0.1, 0.5, NAN, -0.0, INFINITY, None],
    }
)
# Names that an engine could give to columns of its own.
TAKEN = ("k0", "key_0", "count", "mine", "theirs", "example", "value_0")


class EngineValuesContract:
    """The part of ``DataPlaneContract`` about values, names and requests that engines tend to take differently."""

    @staticmethod
    def collected(frame: Any) -> pa.Table:
        """Compute one of the engine's frames; override it for frames that Arrow does not know."""
        return pa.table(frame)

    @pytest.fixture
    def numbers(self, catalog: Catalog) -> Table:
        """Return a table of numbers with NaN, a negative zero, infinity and null."""
        return created(catalog, f"{NAMESPACE}.numbers", NUMBERS)

    @pytest.fixture
    def source(self, catalog: Catalog) -> Table:
        """Return the table that requests are about."""
        return created(catalog, ORDERS, pa.Table.from_pylist(ROWS, schema=SCHEMA))

    # Numbers

    def test_whole_numbers_are_compared_with_fractions(self, data_plane: DataPlane, numbers: Table) -> None:
        found = data_plane.aggregate(
            ReadRequest(named(numbers)),
            [
                Aggregate("other", Measure.OTHER, (("id",),), values=(1, 2.5)),
                Aggregate("below", Measure.OUTSIDE, (("id",),), low=2.5),
                Aggregate("condition", Measure.VIOLATIONS, condition="id <> 2.5"),
                Aggregate("where", Measure.ROWS, where="id = 1.5"),
                Aggregate("filter", Measure.ROWS, row_filter=predicate(numbers, "id <> 1.5")),
            ],
        )
        values = {name: figure.value for name, figure in found.items()}
        assert values == {"other": 5, "below": 2, "condition": 0, "where": 0, "filter": 6}

    @pytest.mark.parametrize("column", ["small", "large"])
    def test_floats_are_compared_exactly(self, data_plane: DataPlane, numbers: Table, column: str) -> None:
        """The float nearest to 0.1 is a little larger than the double."""
        path, exact = (column,), column == "large"
        found = data_plane.aggregate(
            ReadRequest(named(numbers)),
            [
                Aggregate("above", Measure.OUTSIDE, (path,), high=0.1),
                Aggregate("below", Measure.OUTSIDE, (path,), low=0.1),
                Aggregate("other", Measure.OTHER, (path,), values=(0.1, 0.5, 0)),
                Aggregate("equal", Measure.ROWS, row_filter=predicate(numbers, f"{column} = 0.1")),
            ],
        )
        values = {name: figure.value for name, figure in found.items()}
        assert values == {"above": 3 if exact else 4, "below": 1, "other": 2 if exact else 3, "equal": int(exact)}

    def test_numbers_of_any_size_are_limits_and_values(self, data_plane: DataPlane, numbers: Table) -> None:
        path = (("large",),)
        found = data_plane.aggregate(
            ReadRequest(named(numbers)),
            [
                Aggregate("above", Measure.OUTSIDE, path, high=1e300),
                Aggregate("below", Measure.OUTSIDE, path, low=1e-300),
                Aggregate("huge", Measure.OUTSIDE, (("id",),), high=1e300),
                Aggregate("other", Measure.OTHER, path, values=(1e300, 10**25, INFINITY, NAN)),
            ],
        )
        assert {name: figure.value for name, figure in found.items()} == {
            "above": 2,
            "below": 1,
            "huge": 0,
            "other": 3,
        }

    def test_nan_equals_nan_and_negative_zero_equals_zero(self, data_plane: DataPlane, catalog: Catalog) -> None:
        rows = pa.table({"x": [NAN, NAN, -0.0, 0.0, 1.0, None, None]})
        twice, zero = created(catalog, f"{NAMESPACE}.twice", rows), pa.table({"x": [0.0, NAN]})
        request = ReadRequest(named(twice))
        repeated = Aggregate("x", Measure.REPEATED, (("x",),))
        assert data_plane.aggregate(request, [repeated])["x"].value == 2
        keys = data_plane.repeated_keys(request, [("x",)], null_keys=NullKeys.REFUSE, limit=9)
        assert sorted(str(abs(key)) for (key,) in keys) == ["0.0", "nan"]
        other = ReadRequest(named(created(catalog, f"{NAMESPACE}.zero", zero)))
        assert data_plane.unmatched(repeated, request, other, [("x",)]) == Figure(1, "1.0")

    # Names and examples

    def test_columns_may_have_names_that_engines_use(self, data_plane: DataPlane, catalog: Catalog) -> None:
        rows = pa.table({name: [1, 1, 2] for name in TAKEN})
        table = created(catalog, f"{NAMESPACE}.taken", rows)
        first = head(table)
        table.append(rows.slice(2))
        before, after = ReadRequest(named(table), snapshot_id=first), ReadRequest(named(table))
        for name in TAKEN:
            keys = [(name,), ("k0",)]
            asked = Aggregate(name, Measure.REPEATED, ((name,),))
            assert data_plane.aggregate(after, [asked])[name].value == 2
            assert data_plane.unmatched(asked, after, before, [("count",)]).value == 0
            repeated = data_plane.repeated_keys(after, keys, null_keys=NullKeys.REFUSE, limit=9)
            assert sorted(repeated) == [(1, 1), (2, 2)]
            ones, twos = (data_plane.frame(ReadRequest(named(table), where=f"{name} = {n}")) for n in (1, 2))
            assert not data_plane.rows_changed(before, after, TAKEN, keys=keys, keyed=ones)
            assert data_plane.rows_changed(before, after, TAKEN, keys=keys, keyed=twos)

    def test_an_example_shows_columns_that_are_null(self, data_plane: DataPlane, source: Table) -> None:
        shown = (("id",), ("amount",))
        asked = Aggregate("x", Measure.VIOLATIONS, shown, condition="id <> 3")
        example = data_plane.aggregate(ReadRequest(named(source)), [asked])["x"].example
        assert json.loads(example or "") == {"id": 3, "amount": None}

    def test_maps_are_compared(self, data_plane: DataPlane, catalog: Catalog) -> None:
        kind = pa.map_(pa.string(), pa.int64())
        schema = pa.schema({"id": pa.int64(), "m": kind, "nested": pa.struct({"maps": pa.list_(kind)})})
        rows: list[dict[str, Any]] = [
            {"id": 1, "m": [("a", 1), ("b", None)], "nested": {"maps": [[("x", 1)], None]}},
            {"id": 2, "m": [], "nested": {"maps": []}},
            {"id": 3, "m": None, "nested": None},
        ]
        table = created(catalog, f"{NAMESPACE}.maps", pa.Table.from_pylist(rows, schema=schema))
        first = head(table)
        rows[1] |= {"m": [("c", 3)]}
        table.overwrite(pa.Table.from_pylist([*rows, rows[0]], schema=schema))
        before, after = ReadRequest(named(table), snapshot_id=first), ReadRequest(named(table))
        added = data_plane.added_rows(before, after, schema.names)
        found = sorted(self.collected(added).to_pylist(), key=repr)
        assert found == [rows[0], rows[1]]
        assert data_plane.rows_changed(before, after, ["m"])
        assert not data_plane.rows_changed(after, after, schema.names)

    # Requests

    @pytest.mark.parametrize("condition", ["no_such_column > 0", "cast(name as int) > 0"], ids=["column", "value"])
    def test_a_read_whose_condition_does_not_fit_is_refused_with_the_reason_alone(
        self, data_plane: DataPlane, source: Table, condition: str
    ) -> None:
        with pytest.raises(InvalidScanError) as caught:
            data_plane.read_arrow(ReadRequest(named(source), where=condition))
        assert caught.value.message
        assert caught.value.hint is None
        assert "\n" not in caught.value.message

    def test_something_else_than_a_row_filter_is_refused(self, data_plane: DataPlane, source: Table) -> None:
        """Or else every row would pass it."""
        wrong: Any = {"id": 1}
        with pytest.raises(TypeError, match="row filter"):
            data_plane.read_arrow(ReadRequest(named(source), row_filter=wrong))
        asked = Aggregate("x", Measure.ROWS, row_filter=wrong)
        with pytest.raises(TypeError, match="row filter"):
            data_plane.aggregate(ReadRequest(named(source)), [asked])

    def test_what_was_appended_ends_at_a_snapshot(self, data_plane: DataPlane, source: Table) -> None:
        first = head(source)
        source.append(source.scan(row_filter="id = 1").to_arrow())
        assert data_plane.read_arrow(ReadRequest(named(source), start_snapshot_id=first)).num_rows == 1
        for end in ({"ref": "main"}, {"as_of": datetime(2026, 1, 1, tzinfo=UTC)}):
            with pytest.raises(CapabilityError):
                data_plane.read_arrow(ReadRequest(named(source), start_snapshot_id=first, **end))

    @pytest.mark.parametrize("where", [None, "id = 1"])
    def test_a_field_of_a_struct_is_read_as_a_column(
        self, data_plane: DataPlane, source: Table, where: str | None
    ) -> None:
        request = ReadRequest(named(source), columns=("place.city", "id"), where=where, limit=1)
        assert data_plane.columns(data_plane.frame(request)) == ("city", "id")
        assert data_plane.read_arrow(request).column_names == ["city", "id"]

    def test_dots_may_be_part_of_names(self, data_plane: DataPlane, catalog: Catalog) -> None:
        rows = pa.table({"a.b": [1], "a": [{"c.d": 2, 'e"f`': 3}]})
        table = created(catalog, f"{NAMESPACE}.dots", rows)
        names = ("a.b", "a.c.d", 'a.e"f`')
        for where in (None, "1 = 1"):
            found = data_plane.read_arrow(ReadRequest(named(table), columns=names, where=where))
            assert found.to_pylist() == [{"a.b": 1, "c.d": 2, 'e"f`': 3}]

    def test_a_table_without_columns_has_neither_columns_nor_rows(
        self, data_plane: DataPlane, catalog: Catalog
    ) -> None:
        request = ReadRequest(named(created(catalog, f"{NAMESPACE}.bare", pa.schema([]).empty_table())))
        assert data_plane.columns(data_plane.frame(request)) == ()
        assert data_plane.aggregate(request, [Aggregate("rows", Measure.ROWS)]) == {"rows": Figure(0)}

    def test_a_query_reads_a_frame_without_columns(self, data_plane: DataPlane) -> None:
        frames = {ORDERS: data_plane.empty_frame()}
        found = data_plane.query(frames, lambda names: f"select count(*) as n from {names[ORDERS]}")
        assert self.collected(found).to_pylist() == [{"n": 0}]
