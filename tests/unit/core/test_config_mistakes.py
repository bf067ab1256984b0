"""All mistakes in floe.yaml are reported at once, each with its location and a suggestion."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from floe_core.compile import compile_project
from floe_core.config import load_project
from floe_core.errors import ConfigProblem, ConfigurationError, SchemaVersionError
from floe_core.plugins import PluginType

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, text: str) -> Path:
    path = folder / "floe.yaml"
    path.write_text(dedent(text), encoding="utf-8")
    return path


def problems(folder: Path, text: str, **options) -> list[ConfigProblem]:
    with pytest.raises(ConfigurationError) as caught:
        load_project(written(folder, text), environ={}, **options)
    return list(caught.value.problems)


def places(found: list[ConfigProblem]) -> list[tuple[int, int]]:
    return [(problem.line, problem.column) for problem in found]


@pytest.mark.req("FR-036", "RD-05")
def test_five_different_mistakes_give_five_located_errors(tmp_path):
    path = written(
        tmp_path,
        """\
        name: shop
        catalog:
          waerhouse: lake
          retry:
            max_attempts: 50
          type: sqll
        compute:
          master: ${SPARK_MASTER}
        storage: local
        """,
    )
    with pytest.raises(ConfigurationError) as caught:
        compile_project(path, environ={})
    found = caught.value.problems
    assert places(found) == [(3, 3), (5, 19), (6, 9), (8, 11), (9, 10)]
    assert all(problem.file == str(path) and problem.fix for problem in found)
    messages = [problem.message for problem in found]
    assert messages[0] == "unknown key 'waerhouse', did you mean 'warehouse'?"
    assert messages[1] == "catalog.retry.max_attempts is 50: it must be at most 10"
    assert messages[2] == "no catalog plugin 'sqll' is installed, did you mean 'sql'?"
    assert messages[3] == "compute.master needs the environment variable SPARK_MASTER, which is not set"
    assert messages[4] == "storage is 'local': expected a mapping of keys"
    assert caught.value.exit_code == 1
    assert str(caught.value).count("\n") == 5


@pytest.mark.parametrize(
    ("text", "place", "message", "fix"),
    [
        ("name: a\nname: b\n", (2, 1), "duplicate key 'name', first used on line 1", "Keep one"),
        ("name: a\ncatalog:\n\ttype: sql\n", (3, 1), "a tab is used", "spaces"),
        ("name: 5\n", (1, 7), "name is 5: expected text", '"5"'),
        ("name: true\n", (1, 7), "name is true: expected text", '"true"'),
        ("name: a\ncatalog: [1]\n", (2, 10), "catalog is a list: expected a mapping of keys", "key: value"),
        ("name: a\ntables: {b.c: {keys: id}}\n", (2, 22), "keys is 'id': expected a list", "[a, b]"),
        ("name: a\nstorage: {bucket: ab}\n", (2, 19), "storage.bucket is 'ab': it is too short", "3 characters"),
        ("name: A b\n", (1, 7), "name is 'A b': it has the wrong format", "lowercase letters"),
        ("name:\n", (1, 1), "the key 'name' is missing", "Add: name"),
        ("description: x\n", (1, 1), "the key 'name' is missing", "Add: name"),
        ("name: a\ntables: {orders: }\n", (2, 10), "'orders' is not a valid table name", "namespace.table"),
        ("name: a\nwarehouse: x\n", (2, 1), "unknown key 'warehouse' here", "under 'catalog'"),
        ("name: a\nversion: 1\n", (2, 1), "unknown key 'version', did you mean 'schema_version'?", "schema_version"),
        ("name: a\nzzz: 1\n", (2, 1), "unknown key 'zzz'", "keys here: schema_version, name"),
        (
            "name: a\nobservability: {otlp_endpoint: 'localhost:4318'}\n",
            (2, 32),
            "is not a valid address; use http://",
            "",
        ),
        (
            "name: a\nobservability: {openlineage: {url: 'http://h:99999'}}\n",
            (2, 36),
            "is not a valid address; use http://",
            "",
        ),
        ("name: a\nobservability: {log_level: debug}\n", (2, 28), "it must be 'DEBUG'", "Write 'DEBUG'"),
        ("name: a\ncatalog: {access_delegation: nome}\n", (2, 30), "is 'nome': it must be", "Write 'none'"),
        (
            "name: a\ncatalog: {retry: {max_attempts: true}}\n",
            (2, 33),
            "is true: expected a number",
            "number of attempts",
        ),
        ("name: a\ncatalog: {retry: {max_attempts: '${N}'}}\n", (2, 33), "expected a whole number", "only in text"),
        ("name: a\ncompute: {master: yarnn://x, conf: {a: {b: c}}}\n", (2, 40), "a mapping: expected text", "Write"),
        ("name: a\ncompute: {master: loca}\n", (2, 19), "'loca' is not a valid Spark master; use local[*]", ""),
        (
            "name: a\ncatalog: {uri: ${URI}}\n",
            (2, 17),
            "unexpected text in a list or mapping",
            "put values that contain ${…}",
        ),
        ("name: a\ncatalog: {type: a: b}\n", (2, 18), "invalid YAML", "quotes"),
        ("name: 'a\n", (2, 1), "a quote is never closed", "Close the quote"),
        ("name: [a\n", (2, 1), "invalid YAML", "Close the bracket"),
        ("name: a\n  b: c\n", (2, 4), "invalid YAML", "quotes"),
        ("name: !!python/object:os.system a\n", (1, 7), "the tag", "Remove the tag"),
        ("? [a, b]\n: c\n", (1, 3), "a key must be a scalar", "plain text"),
        ("name: *nobody\n", (1, 7), "the alias '*nobody' has no anchor", "&nobody"),
        ("name: a\ncatalog: &c {options: *c}\n", (2, 23), "refers to itself", "Write the values out"),
        ("name: a\n<<: text\n", (2, 5), "'<<' needs a mapping", "<<: *defaults"),
        ("name: a\n---\nname: b\n", (2, 1), "a second document starts here", "one document"),
        ("", (1, 1), "the file is empty", "name: my_project"),
        ("# nothing\n", (1, 1), "the file is empty", "name: my_project"),
        ("- a\n- b\n", (1, 1), "the top level must be a mapping", "name: my_project"),
        ("name: a\x07b\n", (1, 8), "the character #x0007 is not allowed in YAML", "Remove it"),
        ('name: "\\ud83d"\n', (1, 7), "half of a surrogate pair", "both escapes"),
        ("name: a\nenvironments: [dev]\n", (2, 15), "environments must be a mapping", "{prod:"),
        ("name: a\nenvironments: {dev: 1}\n", (2, 21), "the environment 'dev' must be a mapping", "sections"),
        ("name: a\nenvironments: {dev: {schema_version: 1}}\n", (2, 22), "applies to the whole file", "Move it"),
    ],
)
def test_a_mistake_has_a_place_a_reason_and_a_fix(tmp_path, text, place, message, fix):
    found = problems(tmp_path, text)
    match = [problem for problem in found if message in problem.message]
    assert match, found
    assert (match[0].line, match[0].column) == place
    assert fix in match[0].fix


def test_mistakes_come_in_the_order_of_the_file(tmp_path):
    found = problems(tmp_path, "zz: 1\nname: 5\ncatalog: {name: 1a}\nyy: 2\nname: x\n")
    assert places(found) == sorted(places(found))
    assert len(found) == 5


def test_each_bad_term_of_a_table_is_named(tmp_path):
    text = """\
        name: a
        tables:
          bronze.orders:
            columns: [{name: id, type: long}, {name: placed, type: timestamptz}]
            partition_by: [week(placed), "bucket(4, idd)"]
            sort_by: [placed up, plaecd]
            keys: [id, other]
        """
    found = problems(tmp_path, text)
    assert places(found) == [(5, 20), (5, 34), (6, 15), (6, 26), (7, 16)]
    assert "did you mean 'id'?" in found[1].message
    assert "did you mean 'placed'?" in found[3].message
    assert "declared: id, placed" in found[4].fix


def test_a_mistake_in_an_environment_that_is_not_selected_is_reported_in_its_place(tmp_path):
    text = """\
        name: a
        environments:
          dev: {}
          prod:
            catalog: {retry: {max_attempts: 11}}
            stroage: {}
        """
    found = problems(tmp_path, text, environment="dev")
    assert places(found) == [(5, 37), (6, 5)]
    assert found[0].path == "environments.prod.catalog.retry.max_attempts"


def test_a_mistake_of_the_base_is_reported_once_however_many_environments_share_it(tmp_path):
    assert len(problems(tmp_path, "name: 5\nenvironments: {dev: {}, prod: {}}\n")) == 1


def test_an_unknown_environment_lists_the_known_ones(tmp_path):
    (found,) = problems(tmp_path, "name: a\nenvironments: {dev: {}, prod: {}}\n", environment="prd")
    assert "unknown environment 'prd', did you mean 'prod'?" in found.message
    assert found.fix == "Known environments: dev, prod"


def test_a_plugin_named_by_an_environment_is_checked_there(tmp_path):
    text = "name: a\nenvironments:\n  prod: {storage: {type: s33}}\n"
    (found,) = problems(tmp_path, text, known_plugins={PluginType.STORAGE: {"s3", "local"}})
    assert (found.line, found.column) == (3, 26)
    assert "did you mean 's3'?" in found.message


def test_a_plugin_may_be_named_by_a_variable(tmp_path):
    path = written(tmp_path, "name: a\nstorage: {type: '${STORE:-s3}'}\n")
    known = {PluginType.STORAGE: {"s3"}}
    assert load_project(path, environ={}, known_plugins=known).storage.type == "${STORE:-s3}"
    with pytest.raises(ConfigurationError, match="no storage plugin 'ftp'"):
        load_project(path, environ={"STORE": "ftp"}, known_plugins=known)


def test_variables_are_needed_only_by_the_selected_environment(tmp_path):
    path = written(
        tmp_path,
        """\
        name: a
        description: "${PROSE} needs nothing"
        catalog: {uri: "${DEV_URI:-sqlite:///x.db}"}
        environments:
          prod:
            catalog: {uri: "${PROD_URI}", credentials: {client_secret: "${PROD_SECRET}"}}
        """,
    )
    assert load_project(path, environ={}).catalog.uri == "${DEV_URI:-sqlite:///x.db}"
    with pytest.raises(ConfigurationError) as caught:
        load_project(path, environment="prod", environ={"PROD_URI": ""})
    assert places(caught.value.problems) == [(6, 20), (6, 64)]
    assert "PROD_SECRET:-" not in caught.value.problems[1].fix
    assert load_project(path, environment="prod", environ={}, allow_missing_env=True)


@pytest.mark.parametrize("key", ["schema_version", "version"])
def test_a_newer_file_says_to_upgrade_floe(tmp_path, key):
    with pytest.raises(SchemaVersionError, match="Upgrade floe") as caught:
        load_project(written(tmp_path, f"name: a\n{key}: 2\n"))
    assert places(caught.value.problems) == [(2, len(key) + 3)]


@pytest.mark.req("FR-036")
def test_a_column_type_that_does_not_exist_is_found_where_it_is_written(tmp_path):
    found = problems(
        tmp_path,
        """\
        name: shop
        tables:
          bronze.orders:
            columns:
              - {name: id, type: lnog}
              - {name: price, type: "decimal(50, 2)"}
              - {name: tags, type: "list<string"}
              - {name: rest, type: "map<string, struct<a: bigint not null>>"}
        """,
    )
    assert places(found) == [(5, 26), (6, 29), (7, 28)]
    prefix = "tables.bronze.orders.columns"
    assert found[0].message == f"{prefix}[0].type: unknown type 'lnog', did you mean 'long'?"
    assert "a decimal needs a precision of 1 to 38" in found[1].message
    assert "expected '>' but found the end" in found[2].message
