"""The tables of the contract suite for engines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from floe_iceberg.names import name_of
from floe_iceberg.read.predicates import parse_row_filter

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from floe_iceberg.read.predicates import RowPredicate

NAMESPACE = "contract"
ORDERS, CUSTOMERS = f"{NAMESPACE}.orders", f"{NAMESPACE}.customers"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("amount", pa.int64()),
        pa.field("paid", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("seen", pa.timestamp("us")),
        pa.field("heard", pa.timestamp("us", tz="UTC")),
        pa.field("place", pa.struct([pa.field("city", pa.string()), pa.field("floor", pa.int64())])),
    ]
)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def _order(id: int, name: str | None, amount: int | None, *, paid: bool | None, city: str | None) -> dict[str, Any]:  # noqa: A002 - the column's name
    moment = NOON.replace(day=min(id, 28))
    return {
        "id": id,
        "name": name,
        "amount": amount,
        "paid": paid,
        "day": moment.date(),
        "seen": moment.replace(tzinfo=None),
        "heard": moment,
        "place": {"city": city, "floor": id % 2},
    }


ROWS = [
    _order(1, "ann", 10, paid=True, city="Oslo"),
    _order(2, "bob", -5, paid=False, city="Oslo"),
    _order(3, "bob", None, paid=True, city=None),
    _order(4, None, 200, paid=None, city="Rome"),
    _order(5, "cid", 10, paid=True, city="Rome"),
    _order(6, "bob", 30, paid=True, city="Oslo"),
]


def created(catalog: Catalog, name: str, rows: pa.Table) -> Table:
    """Create a table in the suite's namespace, with its rows."""
    catalog.create_namespace_if_not_exists(NAMESPACE)
    table = catalog.create_table(name, rows.schema)
    if rows.num_rows:
        table.append(rows)
    return table


def named(table: Table) -> str:
    """Return the full name of a table."""
    return name_of(table)


def head(table: Table) -> int:
    """Return the id of a table's current snapshot."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def predicate(table: Table, text: str) -> RowPredicate:
    """Return a row filter bound to a table's schema."""
    return parse_row_filter(text, table.schema(), table=named(table))
