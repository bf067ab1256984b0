"""S01 for drops, renames, registrations and namespaces on the embedded catalog: lost replies."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CatalogConnectionError, TableNotFoundError
from floe_testing.faults.database_faults import LANDED, DatabaseFault

SCHEMA = pa.schema([("id", pa.int64())])
ORDERS = "bronze.orders"
landed = pytest.mark.parametrize("fault", LANDED, ids=lambda fault: fault.name.lower())


@pytest.fixture
def orders(faulty, database):
    faulty.create_table(ORDERS, SCHEMA)
    faulty.append(ORDERS, pa.table({"id": [1]}))
    return ORDERS


@landed
def test_s01_a_table_that_was_made_is_ours(faulty, database, fault):
    database.play([fault])
    faulty.create_table(ORDERS, SCHEMA, properties={"owner": "sales"})
    assert database.commits == 1
    assert faulty.load_table(ORDERS).properties["owner"] == "sales"


@landed
def test_s01_a_table_that_was_dropped_is_no_error(faulty, database, orders, fault):
    database.play([fault])
    faulty.drop_table(orders)
    assert database.commits == 1
    assert not faulty.table_exists(orders)


@landed
def test_s01_a_table_that_was_renamed_is_returned(faulty, database, orders, fault):
    database.play([fault])
    faulty.rename_table(orders, "bronze.sales")
    assert faulty.scan("bronze.sales").num_rows == 1
    assert not faulty.table_exists(orders)


@landed
def test_s01_a_table_that_was_registered_is_returned(faulty, database, orders, fault):
    location = faulty.load_table(orders).metadata_location
    faulty.drop_table(orders)
    database.play([fault])
    faulty.register_table("bronze.again", location)
    assert faulty.scan("bronze.again").num_rows == 1


@landed
def test_s01_a_namespace_that_was_made_is_ours(faulty, database, fault):
    database.play([fault])
    assert faulty.create_namespace("silver", {"owner": "sales"})
    assert faulty.namespaces.properties("silver") == {"owner": "sales"}


@landed
def test_s01_a_namespace_that_was_dropped_is_no_error(faulty, database, fault):
    faulty.create_namespace("silver")
    database.play([fault])
    faulty.namespaces.delete("silver")
    assert not faulty.namespaces.exists("silver")


@landed
def test_s01_properties_that_were_set_are_returned(faulty, database, fault):
    database.play([fault])
    assert faulty.namespaces.update_properties("bronze", updates={"owner": "sales"}) == {"owner": "sales"}


def test_s03_a_call_that_never_landed_is_an_error_and_changes_nothing(faulty, database, orders):
    calls = [
        lambda: faulty.drop_table(orders),
        lambda: faulty.rename_table(orders, "bronze.sales"),
        lambda: faulty.create_namespace("silver"),
    ]
    for call in calls:
        database.play([DatabaseFault.UNREACHABLE])
        with pytest.raises(CatalogConnectionError):
            call()
    assert faulty.scan(orders).num_rows == 1
    assert not faulty.namespaces.exists("silver")


def test_s01_a_table_that_is_not_there_is_still_not_found(faulty, database):
    with pytest.raises(TableNotFoundError):
        faulty.drop_table("bronze.nothing")
