"""Lists each requirement with its evidence: tests, measured figures, or a gate; --check prints only a summary.

Fails if a requirement has no evidence, or if a test or a figure names an unlisted requirement. Tests that pytest does
not collect, that are skipped or that are expected to fail do not count.
"""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
from collections import defaultdict
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("tests", "src/floe_testing")
FIGURES = "benchmarks/results/latest.json"
# Requirements that neither tests nor figures can show, with the command that fails if they are not met.
GATED = {"SC-010": "make coverage"}
LEAST_COVERAGE = 80
Marked: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.Module
LINE = re.compile(r"^\| (?P<id>[A-Z]{2,3}-\d+[a-z]?) \| (?P<text>.+) \|$", re.MULTILINE)


def listed() -> dict[str, str]:
    """Return all requirements in docs/requirements.md."""
    text = (ROOT / "docs/requirements.md").read_text(encoding="utf-8")
    return {match["id"]: match["text"] for match in LINE.finditer(text)}


def marks(node: Marked) -> list[ast.AST]:
    """Return the marks of a function, class or module, including those in ``pytestmark``."""
    body = [] if isinstance(node, ast.FunctionDef) else node.body
    assigned = [n.value for n in body if isinstance(n, ast.Assign) and "pytestmark" in ast.unparse(n.targets[0])]
    own = [] if isinstance(node, ast.Module) else node.decorator_list
    return [*own, *(part for value in assigned for part in ast.walk(value))]


def marked_ids(node: Marked) -> set[str]:
    """Return the ids in ``req`` marks on a class, function or module."""
    return {
        argument.value
        for call in marks(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.req")
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }


def is_put_aside(node: Marked) -> bool:
    """Whether tests are always skipped or expected to fail."""
    named = {ast.unparse(mark.func if isinstance(mark, ast.Call) else mark) for mark in marks(node)}
    return any(name.endswith(("mark.skip", "mark.xfail")) for name in named) or _begins_with_skip(node)


def _begins_with_skip(node: Marked) -> bool:
    """Whether a test or module starts with an unconditional skip."""
    calls = [n.value for n in node.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
    first = calls if isinstance(node, ast.Module) else calls[:1]
    return any(ast.unparse(call.func) in {"pytest.skip", "pytest.xfail"} for call in first)


def _is_collected(file: Path) -> bool:
    return file.name.startswith("test_") and (ROOT / "tests") in file.parents


def collected_classes(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the classes whose tests pytest runs: those collected by name, and their base suites."""
    classes = [
        (node, file) for file, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    ]
    bases: dict[str, set[str]] = defaultdict(set)
    for node, _ in classes:
        bases[node.name] |= {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    waiting = [
        node.name
        for node, file in classes
        if _is_collected(file) and node.name.startswith("Test") and not is_put_aside(node)
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += bases[name]
    return found


def tests_by_requirement() -> dict[str, list[str]]:
    """Return the collected tests of each requirement, found in the source files."""
    found: dict[str, list[str]] = defaultdict(list)
    files = [file for suite in SUITES for file in sorted((ROOT / suite).rglob("*.py"))]
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
    collected = collected_classes(trees)

    def visit(node: ast.Module | ast.ClassDef, file: Path, inherited: set[str]) -> None:
        if is_put_aside(node):
            return
        functions = isinstance(node, ast.ClassDef) or _is_collected(file)
        for child in node.body:
            if isinstance(child, ast.ClassDef) and child.name in collected:
                visit(child, file, inherited | marked_ids(child))
            elif isinstance(child, ast.FunctionDef) and child.name.startswith("test_") and functions:
                for requirement in set() if is_put_aside(child) else inherited | marked_ids(child):
                    found[requirement].append(f"{file.relative_to(ROOT)}::{child.name}")

    for file, tree in trees.items():
        visit(tree, file, marked_ids(tree))
    return found


def figures_by_requirement() -> dict[str, list[str]]:
    """Return the measured figures that name each requirement and meet its goal."""
    found: dict[str, list[str]] = defaultdict(list)
    for workload in json.loads((ROOT / FIGURES).read_text(encoding="utf-8"))["workloads"]:
        for figure in workload["figures"]:
            if figure["requirement"] and figure["met"]:
                shown = f"{figure['figure']} {figure['value']:.4g}, goal {figure['goal']:g}"
                found[figure["requirement"]].append(f"{FIGURES}: {workload['name']} {workload['variant']} {shown}")
    return found


def gates_by_requirement() -> dict[str, list[str]]:
    """Return the commands that fail if a requirement is not met, if they still check it."""
    check = runpy.run_path(str(ROOT / "dev/check.py"))
    counted = {"floe_iceberg", "floe_polaris"} <= set(check["COVERED_PACKAGES"])
    holds = {"SC-010": counted and int(check["COVERAGE_FLOOR"]) > LEAST_COVERAGE}
    return {requirement: [command] for requirement, command in GATED.items() if holds[requirement]}


def main(arguments: list[str]) -> int:
    """Print the requirements with their evidence, or only problems with --check."""
    requirements = listed()
    evidence: dict[str, list[str]] = defaultdict(list)
    for source in (tests_by_requirement(), figures_by_requirement(), gates_by_requirement()):
        for requirement, shown in source.items():
            evidence[requirement] += shown
    if "--check" not in arguments:
        for requirement, text in requirements.items():
            print(f"{requirement}  {text}")
            for shown in evidence[requirement]:
                print(f"        {shown}")
    missing = [requirement for requirement in requirements if not evidence[requirement]]
    print(f"{len(requirements) - len(missing)} of {len(requirements)} requirements have evidence", end="")
    print(f"; no evidence for {', '.join(missing)}" if missing else "")
    unknown = sorted(set(evidence) - set(requirements))
    for requirement in unknown:
        print(f"unknown requirement {requirement} in {', '.join(evidence[requirement])}")
    return 1 if unknown or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
