"""Names, filters, comments and values that contain SQL are treated literally on both engines."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import InvalidIdentifierError
from floe_iceberg import SchemaChange, SchemaChangeKind
from floe_testing.audit import assert_audited

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

VICTIM = "n.victim"
ROWS = pa.table({"id": [1, 2], "note": ["a", "b"]})
INJECTION = "x`; DROP TABLE floe`n`victim; --"
# All characters that can end a name, a literal, a statement or a comment.
NAMES = [
    INJECTION,
    'it\'s "q" % * = : & <b> {x} [y] (z) $1 ~ ^ | ! @ , +',
    "select",
    "Ωμέγα \N{DROPLET} 数据",
    "snapshots",
    "branch_main",
    "VICTIM",
]
REFUSED = [
    "",
    " ",
    ".",
    "..",
    "a/b",
    "/etc",
    "..\\x",
    "a\nb",
    "a\tb",
    "a\0b",
    " padded ",
    "a\u2028b",
    "a\u202eb",
    "a#b",
    "a?b",
]
# The first name contains quotes and a statement; the others are special to a catalog or a file system.
QUICK = NAMES[:1]


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_names_that_cannot_be_quoted_or_stored_are_refused_at_the_door(two_engines, name):
    manager = two_engines.manager
    before = sorted(two_engines.root.rglob("*"))
    for table in (f"n.{name}", f"{name}.t", f"n.{name}.t"):
        for act in (
            lambda table=table: manager.create_table(table, ROWS.schema),
            lambda table=table: manager.load_table(table),
            lambda table=table: manager.append(table, ROWS, engine="spark"),
            lambda table=table: manager.drop_table(table, purge=True),
            lambda table=table: manager.rename_table(VICTIM, table),
            lambda table=table: manager.frame(table),
        ):
            with pytest.raises(InvalidIdentifierError):
                act()
    assert sorted(two_engines.root.rglob("*")) == before


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.live]) for n in NAMES], ids=ascii
)
def test_a_table_of_any_name_is_the_only_one_its_operations_touch(two_engines, name):
    manager = two_engines.manager
    manager.create_table(VICTIM, ROWS.schema)
    manager.append(VICTIM, ROWS)
    untouched = manager.load_table(VICTIM).metadata_location
    manager.create_namespace(name)
    tables = [f"n.{name}", f"{name}.t"]
    for table in tables:
        _exercise(manager, table)
    assert manager.load_table(VICTIM).metadata_location == untouched
    assert manager.list_tables("n") == sorted(["victim", name])
    assert manager.list_tables(name) == ["t"]
    assert {row["tableName"] for row in two_engines.sql("SHOW TABLES IN floe.n")} == {"victim", name}
    for table in tables:
        manager.rename_table(table, f"n.{name} 2")
        assert _ids(manager, f"n.{name} 2") == [1, 4, 5]
        assert manager.drop_table(f"n.{name} 2", purge=True).deleted_files > 0
    manager.namespaces.delete(name)
    assert manager.load_table(VICTIM).metadata_location == untouched
    assert _ids(manager, VICTIM) == [1, 2]


def _exercise(manager, table):
    manager.create_table(table, ROWS.schema)
    manager.append(table, ROWS)
    for engine in ("arrow", "spark"):
        manager.append(table, pa.table({"id": [3], "note": [engine]}), engine=engine)
        manager.upsert(table, pa.table({"id": [4 + (engine == "spark")], "note": ["u"]}), keys=["id"], engine=engine)
        manager.delete(table, "id = 2 or id = 3", engine=engine)
        manager.compact_table(table, engine=engine)
        manager.rewrite_manifests(table, engine=engine)
        assert _ids(manager, table) == ([1, 4] if engine == "arrow" else [1, 4, 5])
        manager.sweep_orphans(table, engine=engine, dry_run=False)
        manager.expire_snapshots(table, older_than_days=0, retain_last=1, engine=engine)
    manager.create_branch(table, "b")
    manager.append(table, pa.table({"id": [9], "note": ["b"]}), branch="b", engine="spark")
    assert manager.frame(table, ref="b").count() == 4
    assert manager.frame(table).count() == 3
    manager.remove_branch(table, "b")
    assert_audited(manager, table)


def _ids(manager, table):
    return sorted(manager.scan(table)["id"].to_pylist())


TEXTS = [
    "'; DROP TABLE floe.n.victim; --",
    "' OR 1 = 1 --",
    "\\' OR true --",
    "`; DELETE FROM floe.n.victim; --",
    "*/ x /*",
    "${env:HOME}",
    "a\nb",
    "\\u0027 OR true --",
]


def test_text_in_filters_columns_comments_and_properties_is_only_text(two_engines):
    manager = two_engines.manager
    manager.create_table(VICTIM, ROWS.schema)
    manager.append(VICTIM, ROWS)
    untouched = manager.load_table(VICTIM).metadata_location
    column = "c`; DROP TABLE floe`n`victim; -- '\""
    data = pa.table({"id": list(range(len(TEXTS))), column: TEXTS})
    for version in (2, 3):
        table = f"n.t{version}"
        two_engines.sql(
            f"CREATE TABLE floe.{table} (id bigint) USING iceberg TBLPROPERTIES ('format-version'='{version}')"
        )
        added = SchemaChange(kind=SchemaChangeKind.ADD, column=column, type="string", doc=TEXTS[0])
        manager.evolve_schema(table, [added])
        manager.context.plane().set_properties(table, updates={f"p {text}": text for text in TEXTS})
        assert {f"p {text}": text for text in TEXTS}.items() <= manager.load_table(table).properties.items()
        manager.append(table, data, engine="spark")
        for number, text in enumerate(TEXTS):
            where = f"`{column.replace('`', '``')}` = '{text.replace(chr(39), chr(39) * 2)}'"
            assert [row["id"] for row in manager.frame(table, row_filter=where).collect()] == [number]
        manager.delete(table, where, engine="spark")
        manager.upsert(table, data.slice(0, 1), keys=[column], engine="spark")
        assert _ids(manager, table) == list(range(len(TEXTS) - 1))
    assert manager.load_table(VICTIM).metadata_location == untouched
    assert [field.doc for field in manager.load_table("n.t3").schema().fields] == [None, TEXTS[0]]


def test_text_in_the_names_of_refs_is_only_text(two_engines):
    manager = two_engines.manager
    manager.create_table(VICTIM, ROWS.schema)
    manager.append(VICTIM, ROWS)
    two_engines.sql(
        "CREATE TABLE floe.n.t3 (id bigint, note string) USING iceberg TBLPROPERTIES ('format-version'='3')"
    )
    manager.append("n.t3", ROWS, engine="spark")
    untouched = manager.load_table(VICTIM).metadata_location
    for number, name in enumerate(["b`; DROP TABLE floe.n.victim; --", 'it\'s "q"', "ref /* c */", "Ω", "main2"]):
        try:
            manager.create_branch("n.t3", name)
        except InvalidIdentifierError:
            continue
        manager.create_tag("n.t3", f"{name}tag")
        manager.append("n.t3", pa.table({"id": [10 + number], "note": ["x"]}), branch=name, engine="spark")
        assert manager.frame("n.t3", ref=name).count() == 3
        assert manager.frame("n.t3", ref=f"{name}tag").count() == 2
        manager.remove_tag("n.t3", f"{name}tag")
        manager.remove_branch("n.t3", name)
        assert {ref.name for ref in manager.list_refs("n.t3")} == {"main"}
    assert manager.load_table(VICTIM).metadata_location == untouched
    assert _ids(manager, "n.t3") == [1, 2]
