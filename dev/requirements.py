"""Prints each requirement with its tests; with --check, fails when a test names an unknown one."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = ("tests", "src/floe_testing")
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


def main(arguments: list[str]) -> int:
    """Print the table, or only what is wrong with --check."""
    requirements, tests = listed(), tests_by_requirement()
    unknown = sorted(set(tests) - set(requirements))
    if "--check" not in arguments:
        for requirement, text in requirements.items():
            print(f"{requirement}  {text}")
            for test in tests.get(requirement, ()):
                print(f"        {test}")
    missing = [requirement for requirement in requirements if not tests.get(requirement)]
    shown = len(requirements) - len(missing)
    print(f"{shown} of {len(requirements)} requirements have tests; none yet: {', '.join(missing) or 'none'}")
    for requirement in unknown:
        print(f"unknown requirement {requirement} in {', '.join(tests[requirement])}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
