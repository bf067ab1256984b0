"""Packages above the engines use only the engine contract: no engine's SQL, and none of its classes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
MODULES = sorted(file for package in ("floe_dagster", "floe_iceberg") for file in (SRC / package).rglob("*.py"))
# The value of Engine.SPARK, which users write.
PUBLIC = {("floe_iceberg/models.py", "spark")}
CALLS = {"createDataFrame", "selectExpr"}


def docstrings(tree):
    """Yield the nodes of all docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def names_of_an_engine(tree):
    """Return the constants that name Spark or a module of PySpark, with their lines."""
    documented = {id(node) for node in docstrings(tree)}
    constants = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
    ]
    return [
        (node.value, node.lineno) for node in constants if node.value == "spark" or node.value.startswith("pyspark.")
    ]


def calls_of_an_engine(tree):
    """Return the calls of methods that only frames and sessions of Spark have, with their lines."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return [(node.func.attr, node.lineno) for node in calls if node.func.attr in CALLS]


def test_there_are_modules_to_look_at():
    assert len(MODULES) > 100


@pytest.mark.parametrize("module", MODULES, ids=lambda file: file.relative_to(SRC).as_posix())
def test_a_module_knows_no_engine(module):
    tree, name = ast.parse(module.read_text(encoding="utf-8")), module.relative_to(SRC).as_posix()
    assert [(text, line) for text, line in names_of_an_engine(tree) if (name, text) not in PUBLIC] == []
    assert calls_of_an_engine(tree) == []


def test_the_public_name_of_the_engine_is_written_once():
    for name, text in PUBLIC:
        found = names_of_an_engine(ast.parse((SRC / name).read_text(encoding="utf-8")))
        assert [value for value, _ in found] == [text]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 'spark'", [("spark", 1)]),
        ("def f():\n    'spark'\n    return kind.startswith('pyspark.')", [("pyspark.", 3)]),
        ('"""spark"""\nx = "sparkling"', []),
    ],
)
def test_a_name_in_code_is_found_and_one_in_a_docstring_is_not(text, found):
    assert names_of_an_engine(ast.parse(text)) == found


def test_a_call_of_spark_is_found():
    assert calls_of_an_engine(ast.parse("frame.selectExpr('1')")) == [("selectExpr", 1)]
