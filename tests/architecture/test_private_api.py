"""Each dependency's private API is used in one place only, and each use has a test: see CONTRIBUTING.md."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
OWN = {init.parent.name for init in SRC.glob("*/__init__.py")}
PLACES = {
    "floe_dagster/dagster_internals.py": "dagster",
    "floe_iceberg/pyiceberg_internals/": "pyiceberg",
    "floe_testing/java/pyspark_internals.py": "pyspark",
}
# A single use, covered by a test where it is.
SINGLE_USES = {"floe_iceberg/table/files/file_listing.py": {"_strip_protocol"}}
# These are documented by Python; generated code uses the second.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_make", "_replace"}
ADVICE = "Use a public name, or move the use to {places} with a test that pins it (CONTRIBUTING.md)."


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def is_own(module: str | None) -> bool:
    return (module or "").partition(".")[0] in OWN | {"__future__"}


def is_python(module: str | None) -> bool:
    return (module or "").partition(".")[0] in sys.stdlib_module_names


@cache
def trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(SRC).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SRC.rglob("*.py"))
    }


def elsewhere() -> dict[str, ast.Module]:
    return {path: tree for path, tree in trees().items() if not path.startswith(tuple(PLACES))}


def names_defined(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(attr=name, value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
                found.add(name)
    return found


def names_imported(tree: ast.AST) -> set[str]:
    """Return the names that a module has from a dependency."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {one.asname or one.name.partition(".")[0] for one in names if not _is_near(one.name)}
            case ast.ImportFrom(module=module, level=0, names=names) if not _is_near(module):
                found |= {one.asname or one.name for one in names}
    return found


def _is_near(module: str | None) -> bool:
    return is_own(module) or is_python(module)


def private_imports(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [one.name for one in names if not is_own(one.name)]
            case ast.ImportFrom(module=str(module), level=0, names=names) if not is_own(module):
                found += [f"{module}.{one.name}" for one in names]
    return [name for name in found if any(map(is_private, name.split(".")))]


def private_attributes(tree: ast.AST, own: set[str]) -> list[str]:
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and is_private(node.attr)
        and node.attr not in own | DOCUMENTED
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    ]


def replaced_attributes(tree: ast.AST) -> list[str]:
    """Return what a module replaces of a dependency's classes and modules."""
    imported, found = names_imported(tree), []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name in imported:
                found.append(ast.unparse(node))
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=name), *_]) if name in imported:
                found.append(ast.unparse(node))
    return found


@cache
def classes() -> list[type]:
    found = []
    for package in sorted(OWN):
        importing = importlib.import_module(package)
        for info in pkgutil.walk_packages(importing.__path__, f"{package}."):
            if not info.name.endswith("__main__"):
                module = importlib.import_module(info.name)
                found += [one for one in vars(module).values() if inspect.isclass(one) and one.__module__ == info.name]
    return found


def inherited_names(cls: type) -> list[str]:
    """Return the private names of a dependency's class that a class of floe overrides or uses."""
    foreign = {
        name: base
        for base in reversed(cls.__mro__)
        if not is_own(base.__module__) and not is_python(base.__module__)
        for name in vars(base)
        if is_private(name) and not name.startswith("_abc_")
    }
    if not foreign:
        return []
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    places = {name: foreign[name] for name in foreign.keys() & (used | defined)}
    return [f"{cls.__name__}: {base.__module__}.{base.__name__}.{name}" for name, base in sorted(places.items())]


def advice() -> str:
    return ADVICE.format(places=", ".join(PLACES))


def test_each_place_exists():
    gone = [path for path in [*PLACES, *SINGLE_USES] if not (SRC / path).exists()]
    assert gone == []


def test_private_names_are_imported_in_their_places_only():
    found = [f"{path}: {name}" for path, tree in elsewhere().items() for name in private_imports(tree)]
    assert found == [], advice()


def test_private_attributes_are_used_in_their_places_only():
    own = set().union(*map(names_defined, elsewhere().values()))
    found = [
        f"{path}: {name}"
        for path, tree in elsewhere().items()
        for name in private_attributes(tree, own | SINGLE_USES.get(path, set()))
    ]
    assert found == [], advice()


def test_attributes_of_a_dependency_are_replaced_in_their_places_only():
    found = [f"{path}: {name}" for path, tree in elsewhere().items() for name in replaced_attributes(tree)]
    assert found == [], advice()


def test_private_methods_of_a_dependency_are_overridden_in_their_places_only():
    inside = tuple(place.removesuffix(".py").replace("/", ".") for place in PLACES)
    found = [name for cls in classes() if not cls.__module__.startswith(inside) for name in inherited_names(cls)]
    assert found == [], advice()


@pytest.mark.parametrize("path", PLACES)
def test_a_place_has_the_private_api_of_one_dependency(path):
    others = set(PLACES.values()) - {PLACES[path]}
    used = {
        name.partition(".")[0]
        for place, tree in trees().items()
        if place.startswith(path)
        for name in private_imports(tree)
    }
    assert not used & others


@pytest.mark.parametrize(
    ("code", "search"),
    [
        ("from dagster._core.storage import x", private_imports),
        ("import pyspark._globals", private_imports),
        ("from opentelemetry.metrics import _Gauge", private_imports),
        ("response._content = b''", lambda tree: private_attributes(tree, set())),
        ("from pyarrow import fs\nfs.LocalFileSystem = None", replaced_attributes),
        ("from pyarrow.fs import LocalFileSystem\nsetattr(LocalFileSystem, 'open', None)", replaced_attributes),
    ],
    ids=["module", "import", "name", "attribute", "assigned", "setattr"],
)
def test_the_search_finds_a_private_use(code, search):
    assert search(ast.parse(code))
    assert not search(ast.parse("from dagster import asset\nself._own = asset.name\nx = asset.name"))


def test_the_search_finds_an_override():
    from floe_dagster.dagster_internals import LaunchHook

    assert {name.rpartition(".")[2] for name in inherited_names(LaunchHook)} == {
        "_config_schema",
        "_resolved_config_dict",
        "_with_updated_values",
    }
