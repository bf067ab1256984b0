"""SQL models: the tables that a query reads, and invalid models."""

from __future__ import annotations

import dagster as dg
import pytest

from floe_core.config.sql_models import SqlModel, read_sql_models
from floe_core.errors import ConfigurationError
from floe_core.schemas.sql_model import SqlModelConfig
from floe_dagster.assets.sql_models import load_sql_models, parse_query
from floe_dagster.engine import ProjectEngine

ENGINE = ProjectEngine("spark", "spark")
DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01")


def model(text):
    return SqlModel("models/gold/daily.sql", ("gold", "daily"), SqlModelConfig(), text)


def over(text, **names):
    query = parse_query(model(text), dialect="spark")
    return query.over({table: names.get(table.replace(".", "_"), "v") for table in query.tables})


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select * from silver.orders", ("silver.orders",)),
        ("SELECT * FROM `silver`.`orders` o JOIN bronze.people p ON o.id = p.id", ("silver.orders", "bronze.people")),
        ("with orders as (select * from silver.orders) select * from orders", ("silver.orders",)),
        ("select * from silver.a union all select * from silver.b", ("silver.a", "silver.b")),
        ("select (select max(id) from silver.a) m from silver.b where id in (select id from silver.c)", None),
        ("select * from orders", ("public.orders",)),
        ("select * from range(10)", ()),
        ("select 1 as one", ()),
        ("select * from silver.a x lateral view explode(items) t as item", ("silver.a",)),
        ("select * from (values (1), (2)) as t(n)", ()),
        ("/* floe:\nwrite_mode: overwrite\n*/\n-- from nothing.real\nselect 'from silver.x' c from silver.a", None),
    ],
)
def test_the_tables_of_a_query_are_found(text, tables):
    found = parse_query(model(text), dialect="spark").tables
    if tables is None:
        assert set(found) in ({"silver.a", "silver.b", "silver.c"}, {"silver.a"})
    else:
        assert found == tables


def test_a_query_runs_as_it_is_written_but_for_its_tables():
    text = (
        "select /*+ BROADCAST(p) */ o.x, regexp_replace(y, '{2}|silver.orders', '') from silver.orders  o, b.people p"
    )
    assert over(text, silver_orders="v1", b_people="v2") == (
        "select /*+ BROADCAST(p) */ o.x, regexp_replace(y, '{2}|silver.orders', '') from `v1`  o, `v2` p"
    )


def test_a_table_goes_on_by_its_name():
    assert over("select orders.x, silver.orders.y from silver.orders") == (
        "select orders.x, orders.y from `v` AS `orders`"
    )


def test_all_columns_of_a_table_can_be_named_with_its_namespace():
    assert over("select silver.orders.* from silver.orders") == "select orders.* from `v` AS `orders`"


@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
@pytest.mark.parametrize(
    "text",
    [
        "select o.place.city, p.place.city as other from silver.orders o join silver.people p on o.id = p.id",
        "select o.place.city from silver.orders o where exists (select 1 from silver.people p where p.id = o.place.id)",
        "select place.city.name from silver.people p",
        "select o.a.b.c.d.e from silver.orders o",
        "select silver.place.city from silver.orders silver",
    ],
)
def test_fields_of_structs_keep_the_table_they_belong_to(text, dialect):
    replaced = text.replace("silver.orders ", "@ ").replace("silver.people ", "@ ")
    query = parse_query(model(text), dialect=dialect)
    names = dict.fromkeys(query.tables, "v")
    assert query.over(names).replace("`v`", "@").replace('"v"', "@") == replaced


def test_fields_of_structs_can_be_named_with_namespace_and_table():
    text = "select silver.orders.place.city, Silver.ORDERS.id, orders.place.city.name from silver.orders"
    assert over(text) == "select orders.place.city, ORDERS.id, orders.place.city.name from `v` AS `orders`"


def test_a_subquery_can_name_a_table_outside_of_it():
    text = "select id from silver.orders where exists (select 1 from silver.people p where p.id = silver.orders.id)"
    expected = "select id from `v` AS `orders` where exists (select 1 from `v` p where p.id = orders.id)"
    assert over(text) == expected


def test_a_table_that_is_read_twice_is_replaced_twice():
    assert over("select * from silver.a x join silver.a y on x.id = y.id") == (
        "select * from `v` x join `v` y on x.id = y.id"
    )


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("select 1;\nselect 2", "2 statements", 1),
        ("", "0 statements", 1),
        ("insert into silver.a select 1", "a statement that is not a query", 1),
        ("select *\nfrom lake.silver.a", "more than two parts", 2),
        ("select *\nfrom silver.a version as of 12", "time travel is not supported", 2),
        ("select from from\nwhere (", "", 2),
    ],
)
def test_what_cannot_be_a_model_is_said_with_its_place(text, message, line):
    with pytest.raises(ConfigurationError) as caught:
        parse_query(model(text), dialect="spark")
    (problem,) = caught.value.problems
    assert message in problem.message
    assert (problem.file, problem.line) == ("models/gold/daily.sql", line)


def write(root, path, text):
    file = root / "models" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_every_mistake_in_a_header_has_its_place(tmp_path):
    write(tmp_path, "gold/a.sql", "/* floe:\nwrite_mod: overwrite\n*/\nselect 1")
    write(tmp_path, "gold/b.sql", "\n/* floe:\n  write_mode: replace\n*/\nselect 1")
    write(tmp_path, "c.sql", "select 1")
    with pytest.raises(ConfigurationError) as caught:
        read_sql_models(tmp_path / "models", tmp_path)
    problems = {(problem.file, problem.line): str(problem) for problem in caught.value.problems}
    assert "write_mode" in problems["models/gold/a.sql", 2]
    assert "replace" in problems["models/gold/b.sql", 3]
    assert "NAMESPACE/TABLE.sql" in problems["models/c.sql", 1]


def test_models_get_the_metadata_partitions_and_inputs_they_ask_for(tmp_path):
    @dg.asset(key=["silver", "orders"], partitions_def=DAYS)
    def orders():
        """Made elsewhere."""

    write(
        tmp_path,
        "gold/daily.sql",
        "/* floe:\ndescription: By day.\npartitions: silver.orders\nupsert_keys: [day]\nwrite_mode: upsert\n*/\n"
        "select day, count(*) n from silver.orders group by day",
    )
    write(tmp_path, "gold/best.sql", "/* floe:\nwrite_mode: overwrite\n*/\nselect max(n) n from gold.daily")
    best, daily = sorted(
        load_sql_models(tmp_path / "models", tmp_path, [orders], engine=ENGINE), key=lambda made: made.key
    )
    spec = daily.get_asset_spec()
    assert (spec.description, spec.partitions_def) == ("By day.", DAYS)
    assert (spec.metadata["write_mode"], spec.metadata["upsert_keys"]) == ("upsert", ["day"])
    assert [dep.asset_key.path for dep in spec.deps] == [["silver", "orders"]]
    assert [dep.asset_key.path for dep in best.get_asset_spec().deps] == [["gold", "daily"]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"gold/a.sql": "select * from gold.b", "gold/b.sql": "select * from gold.a"}, "form a cycle"),
        ({"gold/a.sql": "/* floe:\npartitions: silver.order\n*/\nselect 1"}, "not a partitioned asset"),
        ({"silver/orders.sql": "select 1"}, "another asset also writes"),
    ],
)
def test_models_that_do_not_go_with_the_others_are_refused(tmp_path, files, message):
    @dg.asset(key=["silver", "orders"], partitions_def=DAYS)
    def orders():
        """Made elsewhere."""

    for path, text in files.items():
        write(tmp_path, path, text)
    with pytest.raises(ConfigurationError) as caught:
        load_sql_models(tmp_path / "models", tmp_path, [orders], engine=ENGINE)
    assert message in caught.value.problems[0].message


def test_a_project_without_models_has_none(tmp_path):
    assert load_sql_models(tmp_path / "models", tmp_path, [], engine=ENGINE) == []


def test_a_model_depends_on_assets_whose_keys_are_not_the_names_of_their_tables(tmp_path):
    @dg.asset
    def orders(): ...

    @dg.asset(key=["silver", "a", "b"])
    def deep(): ...

    file = tmp_path / "models" / "gold" / "daily.sql"
    file.parent.mkdir(parents=True)
    file.write_text("select * from orders join silver.a_b using (id)")
    [made] = load_sql_models(tmp_path / "models", tmp_path, [orders, deep], engine=ENGINE)
    assert set(made.keys_by_input_name.values()) == {dg.AssetKey("orders"), dg.AssetKey(["silver", "a", "b"])}
