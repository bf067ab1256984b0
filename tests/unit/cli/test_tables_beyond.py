"""``floe tables`` on tables whose metadata only Spark can read, such as those with a variant column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floe_cli.workspace import Workspace

ORDERS = "bronze.orders"


@pytest.fixture
def variant(shop):
    """A project with a table that has a variant column, and one that has none."""
    assert shop("tables", "create", "--all").code == 0
    with Workspace().tables() as manager:
        place = Path(manager.load_table(ORDERS).metadata_location.removeprefix("file://"))
    metadata = json.loads(place.read_text())
    metadata |= {"format-version": 3, "next-row-id": 0}
    for schema in metadata["schemas"]:
        next(field for field in schema["fields"] if field["name"] == "customer")["type"] = "variant"
    place.write_text(json.dumps(metadata))
    return shop


def files():
    return sorted(path for path in Path().rglob("*") if path.is_file() and "bronze/orders" in str(path))


def test_a_listing_shows_it(variant):
    run = variant("tables", "list", "-o", "json")
    assert run.code == 0
    assert ORDERS in {entry["table"] for entry in run.data}


def test_a_long_listing_shows_the_others_and_says_what_is_missing(variant):
    run = variant("tables", "list", "--long", "-o", "json")
    assert run.code == 1
    found = {entry["table"]: entry for entry in run.data}
    assert "type variant, which needs Spark" in found[ORDERS]["problem"]
    assert len(found) > 1
    assert all("rows" in entry and "problem" not in entry for name, entry in found.items() if name != ORDERS)
    shown = variant("tables", "list", "--long")
    assert shown.code == 1
    assert "needs Spark" in shown.out
    assert "Traceback" not in shown.out + shown.err


@pytest.mark.parametrize("command", ["show", "schema", "snapshots", "scan", "files", "history"])
def test_what_cannot_be_shown_is_said(variant, command):
    run = variant("tables", command, ORDERS, "-o", "json")
    assert (run.code, run.error["type"]) == (1, "CapabilityError")
    assert "type variant" in run.error["message"]
    assert "Spark" in run.error["hint"]


def test_it_is_dropped_and_its_files_stay(variant):
    before = files()
    dry = variant("tables", "drop", ORDERS, "--dry-run", "-o", "json")
    assert (dry.code, dry.data["dropped"]) == (0, False)
    run = variant("tables", "drop", ORDERS, "--yes", "-o", "json")
    assert (run.code, run.data["dropped"], run.data["location"]) == (0, True, None)
    assert ORDERS not in {entry["table"] for entry in variant("tables", "list", "-o", "json").data if entry["exists"]}
    assert files() == before
    assert variant("tables", "drop", ORDERS, "--yes", "-o", "json").error["type"] == "TableNotFoundError"


@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_a_purge_is_refused_with_a_way_out(variant, option):
    before = files()
    run = variant("tables", "drop", ORDERS, "--purge", option, "-o", "json")
    assert (run.code, run.error["type"]) == (1, "CapabilityError")
    assert "without purge" in run.error["hint"]
    assert files() == before
    assert ORDERS in {entry["table"] for entry in variant("tables", "list", "-o", "json").data if entry["exists"]}


def test_it_is_audited_from_its_files(variant):
    run = variant("tables", "audit", ORDERS, "-o", "json")
    assert run.code in {0, 2}, "the auditor reads the files itself"
    assert "Traceback" not in run.out + run.err


def test_a_table_is_renamed_and_moved(shop):
    assert shop("tables", "create", "bronze.orders", "--schema", "id long").code == 0
    assert shop("namespaces", "create", "archive").code == 0
    run = shop("tables", "rename", "bronze.orders", "orders_2025", "-o", "json")
    assert (run.code, run.data["renamed"]) == (0, "bronze.orders_2025")
    run = shop("tables", "rename", "bronze.orders_2025", "archive.orders", "-o", "json")
    assert (run.code, run.data["renamed"]) == (0, "archive.orders")
    run = shop("tables", "rename", "bronze.orders", "archive.x", "-o", "json")
    assert (run.code, run.error["type"]) == (1, "TableNotFoundError")
