"""``floe apply``, and the commands that change columns and properties."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from floe_cli.workspace import Workspace

ORDERS = "bronze.orders"
REVENUE = "gold.daily_revenue"


class Terminal(io.StringIO):
    """A person at the keyboard."""

    def isatty(self) -> bool:
        return True


def edit(old: str, new: str) -> None:
    text = Path("floe.yaml").read_text()
    assert old in text
    Path("floe.yaml").write_text(text.replace(old, new))


def location(table: str = ORDERS) -> str:
    with Workspace().tables() as manager:
        return manager.load_table(table).metadata_location


def columns(table: str = ORDERS) -> list[str]:
    with Workspace().tables() as manager:
        return manager.load_table(table).schema().column_names


def write(*ids: int) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("placed", pa.timestamp("us", tz="UTC")),
            ("customer", pa.string()),
            ("total", pa.decimal128(10, 2)),
        ]
    )
    placed = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{"id": n, "placed": placed, "customer": None, "total": Decimal(n)} for n in ids]
    with Workspace().tables() as manager:
        manager.append(ORDERS, pa.Table.from_pylist(rows, schema))


@pytest.fixture
def shop(shop):
    """A project whose declared tables exist, one of them with rows."""
    assert shop("apply").code == 0
    write(1, 2)
    return shop


def test_missing_tables_are_created(floe, monkeypatch):
    assert floe("init", "shop").code == 0
    monkeypatch.chdir("shop")
    look = floe("apply", "--dry-run", "-o", "json")
    assert (look.code, [entry["changed"] for entry in look.data["tables"]]) == (0, [False, False])
    assert floe("tables", "list", "-o", "json").data[0]["exists"] is False
    run = floe("apply", "-o", "json")
    assert [(entry["table"], entry["exists"], entry["changed"]) for entry in run.data["tables"]] == [
        (ORDERS, False, True),
        (REVENUE, False, True),
    ]
    assert "0 tables changed, 2 up to date." in floe("apply").out
    assert floe("tables", "drift").code == 0


def test_the_diff_is_shown_and_made(shop):
    edit("{name: customer, type: string}", "{name: buyer, type: string, renamed_from: customer, doc: Who.}")
    edit('type: "decimal(10, 2)"', 'type: "decimal(12, 2)"')
    edit("month(placed)", "day(placed)")
    before = location()
    look = shop("apply", "--dry-run")
    assert look.code == 0
    assert "rename column" in look.out
    assert "1 table would change, 1 up to date." in look.out
    assert location() == before
    run = shop("apply", "-o", "json")
    [entry] = [entry for entry in run.data["tables"] if entry["changed"]]
    assert {(item["kind"], item["path"], item["remedy"]) for item in entry["changes"]} == {
        ("rename", "customer", "apply"),
        ("doc", "buyer", "run"),
        ("type", "total", "run"),
        ("partitioning", "partition_by", "run"),
    }
    assert columns() == ["id", "placed", "buyer", "total"]
    assert shop("apply", "-o", "json").data["tables"][0]["changed"] is False


def test_plan_shows_what_apply_changes(shop):
    edit("{name: customer, type: string}", "{name: buyer, type: string, renamed_from: customer}")
    edit("    sort_by: [day]", "    sort_by: [day desc]")
    out = shop("plan").out
    assert f"{ORDERS}: customer: declared buyer, actual customer. Run floe apply" in out
    assert f"{REVENUE}: sort_by: declared day desc nulls last, actual day asc nulls first." in out
    edit("module: assets ", "module: assets")
    [first, _] = shop("plan", "-o", "json").data["assets"]
    assert [item["kind"] for item in first["differences"]] == ["rename"]
    assert shop("apply").code == 0
    assert "declared" not in shop("plan").out


def test_what_cannot_be_done_is_named_and_the_other_tables_are_changed(shop):
    edit("{name: customer, type: string}", "{name: customer, type: long}")
    edit("Orders as they arrive.", "Orders.")
    edit("Revenue and number of orders by day.", "Revenue by day.")
    before = location()
    run = shop("apply")
    assert run.code == 1
    assert "copy the values" in run.out
    assert "1 table changed, 1 failed." in run.out
    assert location() == before
    report = shop("apply", "--dry-run", "-o", "json")
    assert (report.code, report.json["ok"]) == (1, False)
    assert [item["path"] for item in report.data["tables"][0]["impossible"]] == ["customer"]
    assert report.data["tables"][1]["changes"] == []


def test_columns_are_dropped_by_flag_and_after_a_question(shop, monkeypatch):
    edit("      - {name: customer, type: string}\n", "")
    edit("Orders as they arrive.", "Orders.")
    run = shop("apply")
    assert run.code == 0
    assert "kept without --drop-columns" in run.out
    assert "customer" in columns()
    before = location()
    asked = shop("apply", "--drop-columns")
    assert asked.code == 1
    assert "--yes" in asked.err
    assert location() == before
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    refused = shop("apply", "--drop-columns")
    assert "Drop column customer of bronze.orders?" in refused.err
    assert location() == before
    assert shop("apply", "--drop-columns", "--dry-run").code == 0
    assert location() == before
    assert shop("apply", "--drop-columns", "--yes").code == 0
    assert "customer" not in columns()


def test_a_drop_in_an_environment_names_it(shop):
    with Path("floe.yaml").open("a") as stream:
        stream.write("\nenvironments:\n  dev: {storage: {root: dev}}\n")
    assert shop("apply", "--env", "dev").code == 0
    edit("      - {name: customer, type: string}\n", "")
    run = shop("apply", "--drop-columns", "--env", "dev")
    assert "--env dev --yes" in run.err
    assert shop("apply", "--drop-columns", "--env", "dev", "--yes").code == 0


def test_tables_are_selected(shop):
    edit("Orders as they arrive.", "Orders.")
    edit("Revenue and number of orders by day.", "Revenue by day.")
    run = shop("apply", "--select", "gold.*", "-o", "json")
    assert [entry["table"] for entry in run.data["tables"]] == [REVENUE]
    assert shop("apply", "--select", "gold.nope").code == 1
    assert len(shop("apply", "--select", f"{ORDERS},{REVENUE}", "-o", "json").data["tables"]) == 2


def test_a_broken_table_does_not_keep_the_others_from_being_changed(shop):
    Path(location().removeprefix("file://")).unlink()
    edit("Revenue and number of orders by day.", "Revenue by day.")
    run = shop("apply", "-o", "json")
    assert run.code == 2
    assert [(entry["table"], entry["changed"]) for entry in run.data["tables"]] == [(ORDERS, False), (REVENUE, True)]
    assert ORDERS in shop("apply").out


def test_tables_of_a_tenant(shop):
    assert shop("tenants", "bootstrap", "acme").code == 0
    run = shop("apply", "--tenant", "acme", "-o", "json")
    assert [entry["table"] for entry in run.data["tables"]] == [f"tenants.acme.{ORDERS}", f"tenants.acme.{REVENUE}"]
    edit("{name: customer, type: string}", "{name: buyer, type: string, renamed_from: customer}")
    assert shop("apply", "--tenant", "acme").code == 0
    assert "buyer" in columns(f"tenants.acme.{ORDERS}")
    assert "customer" in columns()
    assert shop("apply", "--tenant", "nobody").code == 1


class TestByHand:
    def test_columns_are_changed_in_one_commit(self, shop):
        asked = (
            *("--add", "note string", "--add", '"unit price" decimal(8, 2)', "--widen", "total decimal(12, 2)"),
            *("--comment", "id=The key.", "--make-optional", "id", "--move", "note first"),
        )
        before = location()
        look = shop("tables", "evolve", ORDERS, *asked, "--dry-run")
        assert look.code == 0
        assert "Would change" in look.out
        assert location() == before
        run = shop("tables", "evolve", ORDERS, *asked, "-o", "json")
        assert run.data["changed"] is True
        assert [column["name"] for column in run.data["before"]] == ["id", "placed", "customer", "total"]
        after = {column["name"]: column for column in run.data["after"]}
        assert list(after) == ["note", "id", "placed", "customer", "total", "unit price"]
        assert (after["id"]["doc"], after["id"]["required"], after["total"]["type"]) == (
            "The key.",
            False,
            "decimal(12, 2)",
        )
        with Workspace().tables() as manager:
            assert len(manager.load_table(ORDERS).schemas()) == 2

    def test_a_drop_is_asked_about(self, shop):
        before = location()
        assert "--yes" in shop("tables", "evolve", ORDERS, "--drop", "customer").err
        assert location() == before
        assert shop("tables", "evolve", ORDERS, "--drop", "customer", "--yes").code == 0
        assert "customer" not in columns()

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            ((), "No changes given"),
            (("--add", "note"), "not a valid column definition"),
            (("--add", "note nonsense"), "nonsense"),
            (("--widen", "total decimal(4, 2)"), "not a wider type"),
            (("--drop", "nope", "--yes"), "column does not exist"),
            (("--drop", "id", "--yes"), "used by the table's key"),
            (("--make-required", "customer"), "may contain nulls"),
            (("--comment", "id"), "not a valid comment"),
            (("--move", "id behind total"), "not a valid position"),
        ],
    )
    def test_mistakes_are_told_and_nothing_is_changed(self, shop, asked, told):
        before = location()
        run = shop("tables", "evolve", ORDERS, *asked)
        assert run.code == 1
        assert told in run.err
        assert location() == before

    def test_a_column_is_renamed(self, shop):
        before = location()
        assert shop("tables", "rename-column", ORDERS, "id", "number", "--dry-run").code == 0
        assert location() == before
        run = shop("tables", "rename-column", ORDERS, "id", "number")
        assert run.code == 0
        assert "floe.yaml declares the columns" in run.out
        assert columns()[0] == "number"
        with Workspace().tables() as manager:
            assert manager.load_table(ORDERS).properties["floe.keys"] == "number"
        assert shop("tables", "rename-column", ORDERS, "nope", "x").code == 1

    def test_properties_are_set_and_removed(self, shop):
        before = location()
        asked = (
            "tables",
            "set",
            ORDERS,
            "owner=sales=a",
            "write.parquet.compression-codec=snappy",
            "--unset",
            "comment",
        )
        assert shop(*asked, "--dry-run").code == 0
        assert location() == before
        run = shop(*asked, "-o", "json")
        assert {entry["property"]: (entry["before"], entry["after"]) for entry in run.data["properties"]} == {
            "owner": (None, "sales=a"),
            "write.parquet.compression-codec": ("zstd", "snappy"),
            "comment": ("Orders as they arrive.", None),
        }
        assert "already matches" in shop(*asked).out

    @pytest.mark.parametrize(
        "asked",
        ["format-version=3", "floe.keys=total", "floe.creation-id=1", "current-snapshot-id=1", "nothing", "=x"],
    )
    def test_properties_of_floe_and_iceberg_are_refused(self, shop, asked):
        before = location()
        assert shop("tables", "set", ORDERS, asked).code == 1
        assert location() == before

    def test_a_dangerous_property_is_asked_about(self, shop):
        assert shop("tables", "set", ORDERS, "gc.enabled=false", "floe.legal-hold=case 7").code == 0
        before = location()
        assert "--yes" in shop("tables", "set", ORDERS, "gc.enabled=true").err
        assert "--yes" in shop("tables", "set", ORDERS, "--unset", "floe.legal-hold").err
        assert location() == before
        assert "case 7" in shop("tables", "evolve", ORDERS, "--drop", "customer", "--yes").err
        assert shop("tables", "set", ORDERS, "--unset", "floe.legal-hold", "--yes").code == 0
