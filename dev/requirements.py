"""Prints each requirement with what shows it to hold: tests, measured figures, or a gate; --check prints less.

Fails when a requirement has nothing that shows it, and when a test or a figure names one that is not listed.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("tests", "src/floe_testing")
FIGURES = "benchmarks/results/latest.json"
# What neither a test nor a figure can show, and the command that fails when it does not hold.
GATED = {"SC-010": "make coverage"}
LINE = re.compile(r"^\| (?P<id>[A-Z]{2,3}-\d+[a-z]?) \| (?P<text>.+) \|$", re.MULTILINE)


def listed() -> dict[str, str]:
    """Return every requirement of docs/requirements.md."""
    text = (ROOT / "docs/requirements.md").read_text(encoding="utf-8")
    return {match["id"]: match["text"] for match in LINE.finditer(text)}


def marked_ids(node: ast.ClassDef | ast.FunctionDef | ast.Module) -> set[str]:
    """Return the ids of ``req`` marks on a class, a function or a whole module."""
    if isinstance(node, ast.Module):
        assigned = [
            n.value for n in node.body if isinstance(n, ast.Assign) and "pytestmark" in ast.unparse(n.targets[0])
        ]
        calls = [call for value in assigned for call in ast.walk(value)]
    else:
        calls = list(node.decorator_list)
    return {
        argument.value
        for call in calls
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.req")
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }


def tests_by_requirement() -> dict[str, list[str]]:
    """Return the tests that name each requirement, read from the sources."""
    found: dict[str, list[str]] = defaultdict(list)

    def visit(node: ast.AST, file: Path, inherited: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                visit(child, file, inherited | marked_ids(child))
            elif isinstance(child, ast.FunctionDef) and child.name.startswith("test_"):
                for requirement in inherited | marked_ids(child):
                    found[requirement].append(f"{file.relative_to(ROOT)}::{child.name}")

    for suite in SUITES:
        for file in sorted((ROOT / suite).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
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


def main(arguments: list[str]) -> int:
    """Print the table, or only what is wrong with --check."""
    requirements = listed()
    evidence: dict[str, list[str]] = defaultdict(list)
    for source in (tests_by_requirement(), figures_by_requirement(), {key: [gate] for key, gate in GATED.items()}):
        for requirement, shown in source.items():
            evidence[requirement] += shown
    if "--check" not in arguments:
        for requirement, text in requirements.items():
            print(f"{requirement}  {text}")
            for shown in evidence[requirement]:
                print(f"        {shown}")
    missing = [requirement for requirement in requirements if not evidence[requirement]]
    print(f"{len(requirements) - len(missing)} of {len(requirements)} requirements are shown to hold", end="")
    print(f"; nothing shows {', '.join(missing)}" if missing else "")
    unknown = sorted(set(evidence) - set(requirements))
    for requirement in unknown:
        print(f"unknown requirement {requirement} in {', '.join(evidence[requirement])}")
    return 1 if unknown or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
