"""``floe tables`` on the embedded catalog."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from floe_cli.workspace import Workspace

ORDERS = "bronze.orders"
SNAPSHOT_KEYS = {
    "snapshot_id",
    "timestamp_ms",
    "timestamp",
    "operation",
    "summary",
    "manifest_list",
    "parent_snapshot_id",
    "sequence_number",
}


def orders(*ids: int) -> pa.Table:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "placed": pa.array([start + timedelta(days=20 * n) for n in ids], pa.timestamp("us", tz="UTC")),
            "customer": pa.array([f"customer-{n}" if n else None for n in ids], pa.string()),
            "total": pa.array([Decimal(n) for n in ids], pa.decimal128(10, 2)),
        },
        schema=pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                ("placed", pa.timestamp("us", tz="UTC")),
                ("customer", pa.string()),
                ("total", pa.decimal128(10, 2)),
            ]
        ),
    )


def write(*batches: tuple[int, ...], table: str = ORDERS) -> list[int]:
    with Workspace().tables() as manager:
        return [manager.append(table, orders(*ids)).snapshot_id for ids in batches]


@pytest.fixture
def tables(shop):
    """A project whose declared tables exist."""
    assert shop("tables", "create", "--all").code == 0
    return shop


class TestDefinition:
    def test_declared_tables_are_listed_before_they_exist(self, shop):
        assert shop("tables", "list", "-o", "json").data == [
            {"table": ORDERS, "exists": False, "declared": True},
            {"table": "gold.daily_revenue", "exists": False, "declared": True},
        ]
        assert "declared, not created yet" in shop("tables", "list").out

    @pytest.mark.req("FR-012", "FR-015")
    def test_create_all_is_idempotent(self, shop):
        first = shop("tables", "create", "--all", "-o", "json")
        assert first.data == {"created": [ORDERS, "gold.daily_revenue"], "existing": []}
        second = shop("tables", "create", "--all", "-o", "json")
        assert second.data == {"created": [], "existing": [ORDERS, "gold.daily_revenue"]}

    def test_create_one_fails_when_it_is_there(self, tables):
        run = tables("tables", "create", ORDERS, "-o", "json")
        assert run.code == 1
        assert run.error["type"] == "TableExistsError"
        assert tables("tables", "create", ORDERS, "--if-not-exists").code == 0

    @pytest.mark.req("FR-013")
    def test_create_from_a_typed_schema(self, shop):
        columns = "id long not null, ts timestamptz, tags list<string>"
        terms = ["--partition-by", "day(ts)", "--partition-by", "bucket(4, id)", "--partition-by", "id"]
        created = shop("tables", "create", "x.events", "--schema", columns, *terms, "--sort-by", "ts desc")
        assert created.code == 0
        assert shop("tables", "schema", "x.events", "-o", "json").data == {
            "table": "x.events",
            "schema_id": 0,
            "columns": [
                {"id": 1, "name": "id", "type": "long", "required": True, "doc": None},
                {"id": 2, "name": "ts", "type": "timestamptz", "required": False, "doc": None},
                {"id": 3, "name": "tags", "type": "list<string>", "required": False, "doc": None},
            ],
            "partition_by": ["day(ts)", "bucket(4, id)", "id"],
            "sort_by": ["ts desc nulls last"],
        }
        assert "not in floe.yaml" in shop("tables", "list").out

    @pytest.mark.parametrize(
        "arguments", [(), ("a.b", "--all"), ("a.b", "--partition-by", "day(ts)"), ("a.b",)], ids=" ".join
    )
    def test_create_wants_to_know_what(self, shop, arguments):
        assert shop("tables", "create", *arguments).code == 1

    def test_an_undeclared_table_names_the_declared_ones(self, shop):
        run = shop("tables", "create", "bronze.order")
        assert ORDERS in run.err
        assert "--schema" in run.err

    def test_list_long_shows_figures(self, tables):
        write((1, 2))
        entry = tables("tables", "list", "--long", "-n", "bronze", "-o", "json").data[0]
        figures = {"rows", "rows_exact", "files", "bytes", "changed"}
        assert set(entry) == {"table", "exists", "declared", "broken", *figures}
        assert (entry["rows"], entry["rows_exact"], entry["broken"]) == (2, True, False)
        text = tables("tables", "list", "--long").out
        assert re.search(r"bronze.orders .* (just now|ago)\n", text)
        assert "never" in text

    @pytest.mark.req("FR-014")
    def test_show(self, tables):
        write((1, 2))
        data = tables("tables", "show", ORDERS, "-o", "json").data
        assert set(data) == {
            "table",
            "location",
            "format_version",
            "partition_by",
            "sort_by",
            "properties",
            "columns",
            "snapshot_id",
            "health",
            "retention_days",
        }
        assert data["health"]["rows"] == 2
        assert data["retention_days"] == 7
        text = tables("tables", "show", ORDERS).out
        assert "month(placed)" in text
        assert "2 files" in text

    def test_an_unknown_table_is_a_user_error(self, tables):
        run = tables("tables", "show", "bronze.order", "-o", "json")
        assert run.code == 1
        assert run.error["type"] == "TableNotFoundError"

    @pytest.mark.req("FR-017")
    def test_drop_wants_a_yes(self, tables):
        location = tables("tables", "drop", ORDERS, "--dry-run", "-o", "json").data["location"]
        assert tables("tables", "drop", ORDERS).code == 1
        assert tables("tables", "drop", ORDERS, "--yes", "-o", "json").data == {
            "table": ORDERS,
            "location": location,
            "purge": False,
            "broken": False,
            "problem": None,
            "left": [location],
            "dropped": True,
            "kept_foreign_files": [],
        }
        assert Path(location.removeprefix("file://"), "metadata").exists()

    @pytest.mark.req("FR-017")
    def test_purge_deletes_the_files(self, tables):
        write((1,))
        run = tables("tables", "drop", ORDERS, "--purge", "--yes", "-o", "json")
        assert not list(Path(run.data["location"].removeprefix("file://")).rglob("*.parquet"))

    def test_a_table_that_shares_its_files_is_not_purged_or_expired(self, tables):
        write((1,), (2,))
        with Workspace().tables() as manager, manager.load_table(ORDERS).transaction() as change:
            change.set_properties({"gc.enabled": "false"})
        for command in (["drop", "--purge"], ["drop", "--purge", "--dry-run"], ["expire", "--dry-run"], ["sweep"]):
            run = tables("tables", command[0], ORDERS, *command[1:], "-o", "json")
            assert (run.code, run.error["type"]) == (1, "SharedFilesError")

    def test_kept_files_of_others_are_named(self, tables, tmp_path):
        import pyarrow.parquet as pq

        foreign = tmp_path / "foreign.parquet"
        pq.write_table(orders(7), foreign)
        with Workspace().tables() as manager:
            manager.load_table(ORDERS).add_files([f"file://{foreign}"])
        run = tables("tables", "drop", ORDERS, "--purge", "--yes")
        assert "Kept 1 file outside the table's location" in run.out
        assert foreign.exists()

    @pytest.mark.req("TM-13")
    def test_drift_is_found_and_ends_with_1(self, tables):
        clean = tables("tables", "drift", "-o", "json")
        assert (clean.code, [report["items"] for report in clean.data]) == (0, [[], []])
        assert "No drift: 2 tables" in tables("tables", "drift").out
        text = Path("floe.yaml").read_text().replace("{name: customer, type: string}", "{name: customer, type: long}")
        Path("floe.yaml").write_text(text)
        run = tables("tables", "drift", ORDERS, "-o", "json")
        assert (run.code, run.json["ok"]) == (1, False)
        assert run.data[0]["items"][0]["path"] == "customer"
        assert "customer" in tables("tables", "drift").out


class TestRows:
    @pytest.mark.req("FR-021", "FR-022", "FR-023")
    def test_scan_selects_columns_rows_and_versions(self, tables):
        first, _ = write((1, 2, 3), (4,))
        run = tables("tables", "scan", ORDERS, "--columns", "id, customer", "--where", "id > 1", "-o", "json")
        assert run.data["columns"] == ["id", "customer"]
        assert sorted(row["id"] for row in run.data["rows"]) == [2, 3, 4]
        old = tables("tables", "scan", ORDERS, "--snapshot", str(first), "-o", "json")
        assert len(old.data["rows"]) == 3
        assert len(tables("tables", "scan", ORDERS, "--limit", "2", "-o", "json").data["rows"]) == 2
        assert tables("tables", "scan", ORDERS, "--as-of", "1d").code == 1

    def test_scan_a_tag(self, tables):
        first, _ = write((1,), (2,))
        tables("tables", "tag", ORDERS, "v1", "--snapshot", str(first))
        assert len(tables("tables", "scan", ORDERS, "--ref", "v1", "-o", "json").data["rows"]) == 1

    def test_scan_for_people(self, tables):
        write((0, 1))
        out = tables("tables", "scan", ORDERS).out
        assert "null" in out
        assert "2 rows." in out
        assert "use --limit to show more" in tables("tables", "scan", ORDERS, "--limit", "1").out

    def test_scan_as_csv_and_json(self, tables):
        write((0, 1))
        rows = list(csv.DictReader(io.StringIO(tables("tables", "scan", ORDERS, "--format", "csv").out)))
        assert sorted((row["id"], row["customer"], row["total"]) for row in rows) == [
            ("0", "", "0.00"),
            ("1", "customer-1", "1.00"),
        ]
        assert len(json.loads(tables("tables", "scan", ORDERS, "--format", "json").out)) == 2

    def test_values_json_has_no_numbers_for_stay_json(self, shop):
        shop("tables", "create", "x.odd", "--schema", "f double, b binary, m map<string, double>, l list<long>")
        values = {"f": [float("nan")], "b": [b"\x01\x02"], "m": [[("k", float("inf"))]], "l": [[1, 2]]}
        schema = pa.schema(
            [
                ("f", pa.float64()),
                ("b", pa.binary()),
                ("m", pa.map_(pa.string(), pa.float64())),
                ("l", pa.list_(pa.int64())),
            ]
        )
        with Workspace().tables() as manager:
            manager.append("x.odd", pa.table(values, schema=schema))
        [row] = shop("tables", "scan", "x.odd", "-o", "json").data["rows"]
        assert row == {"f": "nan", "b": "0102", "m": {"k": "inf"}, "l": [1, 2]}

    def test_snapshot_ids_are_text_and_rows_are_left_alone(self, shop):
        created = shop("tables", "create", "x.log", "--schema", "snapshot_id long, nested struct<snapshot_id: long>")
        assert created.code == 0, created.err
        big = 2**60 + 1
        with Workspace().tables() as manager:
            manager.append("x.log", pa.table({"snapshot_id": [big], "nested": [{"snapshot_id": big}]}))
        [row] = shop("tables", "scan", "x.log", "-o", "json").data["rows"]
        assert row == {"snapshot_id": big, "nested": {"snapshot_id": big}}
        [listed] = shop("tables", "snapshots", "x.log", "-o", "json").data
        assert shop("tables", "show", "x.log", "-o", "json").data["snapshot_id"] == listed["snapshot_id"]
        [file] = shop("tables", "files", "x.log", "-o", "json").data
        assert file["snapshot_id"] == listed["snapshot_id"]
        assert isinstance(listed["snapshot_id"], str)

    def test_an_unknown_column_is_a_user_error(self, tables):
        run = tables("tables", "scan", ORDERS, "--columns", "nope", "-o", "json")
        assert run.code == 1
        assert run.error["type"] == "InvalidScanError"

    @pytest.mark.req("FR-033")
    def test_files(self, tables):
        write((1, 2), (3,))
        data = tables("tables", "files", ORDERS, "-o", "json").data
        assert {"path", "content", "partition", "records", "bytes"} <= set(data[0])
        assert sum(file["records"] for file in data) == 3
        assert len(tables("tables", "files", ORDERS, "--limit", "1", "-o", "json").data) == 1
        assert "placed_month=2026-01" in tables("tables", "files", ORDERS).out


class TestHistory:
    @pytest.mark.req("FR-031")
    def test_snapshots_newest_first_with_their_names(self, tables):
        assert "no snapshots yet" in tables("tables", "snapshots", ORDERS).out
        first, second = write((1,), (2,))
        data = tables("tables", "snapshots", ORDERS, "-o", "json").data
        assert [info["snapshot_id"] for info in data] == [str(second), str(first)]
        assert [info["parent_snapshot_id"] for info in data] == [str(first), None]
        assert set(data[0]) == {*SNAPSHOT_KEYS, "added_rows", "rows", "refs"}
        assert [(info["added_rows"], info["rows"]) for info in data] == [(1, 2), (1, 1)]
        assert data[0]["refs"] == ["main"]
        assert "append" in tables("tables", "snapshots", ORDERS, "--limit", "1").out

    @pytest.mark.req("TM-10")
    def test_rollback_and_history(self, tables):
        first, second = write((1,), (2,))
        planned = tables("tables", "rollback", ORDERS, "--snapshot", str(first), "--dry-run", "-o", "json").data
        assert planned["rolled_back"] is False
        assert tables("tables", "rollback", ORDERS, "--snapshot", str(first)).code == 1
        done = tables("tables", "rollback", ORDERS, "--snapshot", str(first), "--yes", "-o", "json").data
        assert set(done) == {"table", "from_snapshot_id", "to", "rolled_back"}
        assert (done["from_snapshot_id"], done["to"]["snapshot_id"]) == (str(second), str(first))
        assert done["rolled_back"] is True
        assert len(tables("tables", "scan", ORDERS, "-o", "json").data["rows"]) == 1
        entries = tables("tables", "history", ORDERS, "-o", "json").data
        assert [entry["snapshot_id"] for entry in entries] == [str(first), str(second), str(first)]
        assert [entry["is_current_ancestor"] for entry in entries] == [True, False, True]
        assert "CURRENT ANCESTOR" in tables("tables", "history", ORDERS).out

    def test_rollback_to_a_tag(self, tables):
        first, _ = write((1,), (2,))
        assert tables("tables", "tag", ORDERS, "good", "--snapshot", str(first)).code == 0
        done = tables("tables", "rollback", ORDERS, "--ref", "good", "--yes", "-o", "json").data
        assert done["to"]["snapshot_id"] == str(first)
        assert len(tables("tables", "scan", ORDERS, "-o", "json").data["rows"]) == 1
        assert "no branch or tag" in tables("tables", "rollback", ORDERS, "--ref", "godo", "--yes").err

    def test_rollback_wants_one_goal(self, tables):
        assert tables("tables", "rollback", ORDERS, "--ref", "main", "--to", "1d").code == 1
        assert tables("tables", "rollback", ORDERS).code == 1
        assert tables("tables", "rollback", ORDERS, "--snapshot", "1", "--to", "1d").code == 1
        assert tables("tables", "rollback", ORDERS, "--to", "1d").code == 1
        assert tables("tables", "rollback", ORDERS, "--to", "0s").code == 1

    def test_tags(self, tables):
        assert tables("tables", "tag", ORDERS).out == "No tags yet.\n"
        [first] = write((1,))
        made = tables("tables", "tag", ORDERS, "v1", "--keep", "30d", "-o", "json").data
        assert (made["name"], made["kind"], made["snapshot_id"]) == ("v1", "tag", str(first))
        assert tables("tables", "tag", ORDERS, "-o", "json").data == [made]
        assert "30 days" in tables("tables", "tag", ORDERS).out
        assert tables("tables", "tag", ORDERS, "v1").code == 1
        assert tables("tables", "tag", ORDERS, "v1", "--delete", "-o", "json").data["removed"] is True
        assert tables("tables", "tag", ORDERS, "v1", "--delete").code == 1

    def test_branches_are_published(self, tables):
        write((1,))
        assert tables("tables", "branch", ORDERS, "audit", "-o", "json").data["kind"] == "branch"
        with Workspace().tables() as manager:
            head = manager.append(ORDERS, orders(2), branch="audit").snapshot_id
        assert len(tables("tables", "scan", ORDERS, "-o", "json").data["rows"]) == 1
        published = tables("tables", "branch", ORDERS, "audit", "--publish", "--delete", "-o", "json").data
        assert published == {"table": ORDERS, "branch": "audit", "snapshot_id": str(head), "removed": True}
        assert len(tables("tables", "scan", ORDERS, "-o", "json").data["rows"]) == 2
        assert [ref["name"] for ref in tables("tables", "branch", ORDERS, "-o", "json").data] == ["main"]

    def test_a_branch_is_removed(self, tables):
        write((1,))
        tables("tables", "branch", ORDERS, "audit")
        assert "audit" in tables("tables", "branch", ORDERS).out
        assert tables("tables", "branch", ORDERS, "audit", "--delete").out == "Removed branch audit.\n"


class TestMaintenance:
    @pytest.mark.req("FR-032", "TM-11", "RD-06")
    def test_expiry_shows_its_retention_and_its_figures(self, tables):
        first, second = write((1,), (2,))
        young = tables("tables", "expire", ORDERS, "-o", "json").data
        assert (young["expired"], young["snapshot_ids"], young["retention_days"]) == (0, [], 7)
        assert "no level asks" in young["derivation"][0]
        planned = tables(
            "tables", "expire", ORDERS, "--older-than", "0s", "--retain-last", "1", "--dry-run", "-o", "json"
        )
        assert planned.data["snapshot_ids"] == [str(first)]
        assert tables("tables", "expire", ORDERS, "--older-than", "0s", "--retain-last", "1").code == 1
        done = tables(
            "tables", "expire", ORDERS, "--older-than", "0s", "--retain-last", "1", "--yes", "-o", "json"
        ).data
        assert (done["expired"], done["snapshot_ids"]) == (1, [str(first)])
        assert [s["snapshot_id"] for s in tables("tables", "snapshots", ORDERS, "-o", "json").data] == [str(second)]

    @pytest.mark.req("RD-06")
    def test_expiry_never_undercuts_governance(self, tables):
        write((1,), (2,))
        with Path("floe.yaml").open("a") as stream:
            stream.write("\ngovernance: {enterprise: {snapshot_retention_days: 90, reason: audit}}\n")
        run = tables("tables", "expire", ORDERS, "--older-than", "30d", "--yes")
        assert run.code == 1
        assert "enterprise asks for 90 days (audit)" in run.err
        assert tables("tables", "expire", ORDERS, "--older-than", "91d", "--yes").code == 0
        assert "Retention: 90 days" in tables("tables", "expire", ORDERS).out
        now = ("--older-than", "0s", "--retain-last", "1", "--yes")
        assert "--allow-below-retention" in tables("tables", "expire", ORDERS, *now).err
        allowed = tables("tables", "expire", ORDERS, *now, "--allow-below-retention", "-o", "json")
        assert allowed.data["expired"] == 1

    @pytest.mark.req("RD-06")
    def test_a_branch_and_a_purge_do_not_undercut_governance_either(self, tables):
        write((1,), (2,), (3,))
        with Path("floe.yaml").open("a") as stream:
            stream.write("\ngovernance: {enterprise: {snapshot_retention_days: 90, reason: audit}}\n")
        with Workspace().tables() as manager:
            first = manager.list_snapshots(ORDERS)[-1].snapshot_id
            manager.create_branch(ORDERS, "audit", max_snapshot_age=1, min_snapshots_to_keep=1)
            manager.rollback(ORDERS, first)
        expire = ("tables", "expire", ORDERS, "--retain-last", "1", "--yes", "-o", "json")
        assert tables(*expire).data["snapshot_ids"] == []
        assert len(tables("tables", "snapshots", ORDERS, "-o", "json").data) == 3
        assert len(tables(*expire, "--allow-below-retention").data["snapshot_ids"]) == 1
        purge = ("tables", "drop", ORDERS, "--purge", "--yes")
        refused = tables(*purge)
        assert refused.code == 1
        assert "enterprise asks for 90 days (audit)" in refused.err
        assert tables(*purge, "--allow-below-retention").code == 0

    @pytest.mark.req("TM-12")
    def test_compaction_reports_files_before_and_after(self, tables):
        write(*[(1,)] * 8)
        run = tables("tables", "compact", ORDERS, "--engine", "arrow", "--manifests", "-o", "json")
        assert run.code == 0
        assert (run.data["files_before"], run.data["files_after"]) == (8, 1)
        assert run.data["manifests"]["manifests_after"] >= 1
        assert "Files" in tables("tables", "compact", ORDERS, "--engine", "arrow").out
        assert len(tables("tables", "scan", ORDERS, "-o", "json").data["rows"]) == 8

    @pytest.mark.req("TM-16")
    def test_the_sweep_looks_first(self, tables):
        write((1,))
        location = tables("tables", "show", ORDERS, "-o", "json").data["location"]
        stray = Path(location.removeprefix("file://"), "data", "stray.parquet")
        stray.write_bytes(b"left behind")
        long_ago = datetime.now(UTC) - timedelta(days=10)
        os.utime(stray, (long_ago.timestamp(), long_ago.timestamp()))
        found = tables("tables", "sweep", ORDERS, "--engine", "arrow", "-o", "json").data
        assert [Path(path).name for path in found["files"]] == ["stray.parquet"]
        assert (found["dry_run"], stray.exists()) == (True, True)
        assert tables("tables", "sweep", ORDERS, "--delete", "--dry-run").code == 1
        assert tables("tables", "sweep", ORDERS, "--delete", "--engine", "arrow").code == 1
        assert "Deleted 1 file" in tables("tables", "sweep", ORDERS, "--delete", "--yes", "--engine", "arrow").out
        assert not stray.exists()
        assert "Nothing to delete." in tables("tables", "sweep", ORDERS, "--engine", "arrow").out

    def test_a_sweep_that_could_hit_a_running_write_is_refused(self, tables):
        write((1,))
        run = tables("tables", "sweep", ORDERS, "--older-than", "1m", "-o", "json")
        assert run.code == 1
        assert run.error["type"] == "UnsafeRetentionError"
