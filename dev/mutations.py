"""Generates the mutants of a module with Cosmic Ray's operators and some additional ones, without duplicates.

Mutants that are equivalent to the module or to another mutant are skipped, as are changes visible only in annotations.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent


class RemoveStatement(Operator):
    """Removes a call whose result is unused, or a raise statement."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[object, object]]:
        """Find statements that consist of a call or a raise."""
        called = node.type in {"atom_expr", "power"} and node.children[-1].get_first_leaf().value == "("
        if (called or node.type == "raise_stmt") and node.parent.type == "simple_stmt":
            yield node.start_pos, node.end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, _index: int) -> parso.tree.NodeOrLeaf:
        """Replace the statement with ``pass``."""
        return _code("pass", node)

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return no examples; only Cosmic Ray's own tests use them."""
        return ()


class ReturnNothing(RemoveStatement):
    """Replaces a returned value with None."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[object, object]]:
        """Find return statements with a value."""
        if node.type == "return_stmt":
            yield node.start_pos, node.end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, _index: int) -> parso.tree.NodeOrLeaf:
        """Return None."""
        return _code("return None", node)


class NegateFilter(RemoveStatement):
    """Negates the filter of a comprehension."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[object, object]]:
        """Find the filters of comprehensions."""
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, _index: int) -> parso.tree.NodeOrLeaf:
        """Negate the condition."""
        node.children[1] = _code(f"(not ({node.children[1].get_code().strip()}))", node.children[1])
        return node


class SwapMembership(RemoveStatement):
    """Swaps ``in`` and ``not in``."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[object, object]]:
        """Find membership tests."""
        if node.type == "comparison" and node.children[1].get_code().split() in (["in"], ["not", "in"]):
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, _index: int) -> parso.tree.NodeOrLeaf:
        """Use the opposite operator."""
        other = "not in" if node.children[1].get_code().strip() == "in" else "in"
        node.children[1] = _code(other, node.children[1])
        return node


class NeverRaisedError(Exception):
    """An exception that is never raised, for handlers in mutants."""


class MissException(RemoveStatement):
    """Makes a handler miss its exception."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[object, object]]:
        """Find the exception classes of handlers, individually."""
        yield from ((caught.start_pos, caught.end_pos) for caught in self._caught(node))

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        """Catch ``NeverRaisedError`` instead."""
        caught = self._caught(node)[index]
        siblings = caught.parent.children
        siblings[siblings.index(caught)] = _code(NeverRaisedError.__name__, caught)
        return node

    @staticmethod
    def _caught(node: parso.tree.NodeOrLeaf) -> list[parso.tree.NodeOrLeaf]:
        if node.type != "except_clause":
            return []
        [listed] = [child for child in getattr(node.children[1], "children", ()) if child.type == "testlist_comp"] or [
            None
        ]
        return listed.children[::2] if listed else [node.children[1]]


def _code(text: str, instead_of: parso.tree.NodeOrLeaf) -> parso.tree.NodeOrLeaf:
    return parso.parse(instead_of.get_first_leaf().prefix + text)


# Each comparison becomes its negation, and its neighbor at the boundary.
_COMPARISONS = (
    "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Is_IsNot IsNot_Is".split()  # noqa: SIM905 - a table
)
_ARITHMETIC = "Add_Sub Sub_Add BitOr_BitAnd BitAnd_BitOr".split()  # noqa: SIM905 - a table
OPERATORS = (
    *(get_operator(f"core/ReplaceComparisonOperator_{pair}") for pair in _COMPARISONS),
    *(get_operator(f"core/ReplaceBinaryOperator_{pair}") for pair in _ARITHMETIC),
    get_operator("core/AddNot"),
    get_operator("core/ReplaceUnaryOperator_Delete_Not"),
    get_operator("core/ReplaceTrueWithFalse"),
    get_operator("core/ReplaceFalseWithTrue"),
    get_operator("core/ReplaceAndWithOr"),
    get_operator("core/ReplaceOrWithAnd"),
    get_operator("core/ReplaceBreakWithContinue"),
    get_operator("core/ReplaceContinueWithBreak"),
    get_operator("core/NumberReplacer"),
    get_operator("core/ZeroIterationForLoop"),
    RemoveStatement,
    ReturnNothing,
    NegateFilter,
    SwapMembership,
    MissException,
)


@dataclass(frozen=True)
class Source:
    """An unmodified module."""

    module: str

    @cached_property
    def path(self) -> Path:
        """Path of the file."""
        return ROOT / "src" / (self.module.replace(".", "/") + ".py")

    @cached_property
    def text(self) -> str:
        """Source code of the module."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree of the module."""
        return ast.parse(self.text)

    def function_at(self, line: int) -> str | None:
        """Return the qualified name of the outermost function whose body contains a line; None outside of functions."""

        def search(node: ast.AST, outer: str) -> str | None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.ClassDef) and child.lineno <= line <= (child.end_lineno or 0):
                    return search(child, f"{outer}{child.name}.")
                if isinstance(child, ast.FunctionDef) and child.body[0].lineno <= line <= (child.end_lineno or 0):
                    return f"{outer}{child.name}"
            return None

        return search(self.tree, "")

    def lines_of_the_statement_at(self, line: int) -> range:
        """Return the lines of the innermost statement at a line; for compound statements, those before the body."""
        best = range(line, line + 1)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt | ast.ExceptHandler) and node.lineno <= line <= (node.end_lineno or 0):
                body = getattr(node, "body", None)
                last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno or 0
                if line <= last and (best == range(line, line + 1) or node.lineno >= best.start):
                    best = range(node.lineno, last + 1)
        return best


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    source: Source
    text: str
    line: int
    change: str

    @property
    def function(self) -> str | None:
        """The changed function."""
        return self.source.function_at(self.line)

    @property
    def place(self) -> str:
        """File and line of the change."""
        return f"{self.source.path.relative_to(ROOT)}:{self.line}"

    @property
    def name(self) -> str:
        """A name that does not depend on line numbers."""
        return f"{self.source.module}:{self.function or '(module)'}: {self.change}"


def mutants_of(source: Source) -> Iterator[Mutant]:
    """Generate the distinct mutants of a module that differ from the original program."""
    seen = {_program(source.text)}
    for operator in OPERATORS:
        for occurrence in range(10_000):
            text = mutate_code(source.text, operator(), occurrence)
            if text is None:
                break
            program = _program(text)
            if program is None or program in seen:
                continue
            seen.add(program)
            yield _mutant(source, text)


def _program(text: str) -> str | None:
    """Return a normalized syntax tree without annotations; None if the code is not valid Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    tree = _WithoutDoubles().visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


class _WithoutDoubles(ast.NodeTransformer):
    """Normalizes equivalent expressions: ``not a is b`` and ``a is not b``, ``not not a`` and ``a``.

    Imports under TYPE_CHECKING and dataclass arguments are dropped, because only type checkers use them.
    """

    OPPOSITES: ClassVar[dict[type[ast.cmpop], type[ast.cmpop]]] = {
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.Lt: ast.GtE,
        ast.GtE: ast.Lt,
        ast.Gt: ast.LtE,
        ast.LtE: ast.Gt,
    }

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        node.decorator_list = [one for one in node.decorator_list if not ast.unparse(one).startswith("dataclass(")]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.stmt | None:
        return None if "TYPE_CHECKING" in ast.unparse(node.test) else self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        inner = node.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.Not):
            return inner.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.Compare) and len(inner.ops) == 1:
            return ast.Compare(inner.left, [self.OPPOSITES[type(inner.ops[0])]()], inner.comparators)
        return node


def _mutant(source: Source, text: str) -> Mutant:
    before, after = source.text.splitlines(), text.splitlines()
    for tag, start, end, first, last in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            old, new = (" ".join(part.split()) for part in (" ".join(before[start:end]), " ".join(after[first:last])))
            return Mutant(source, text, start + 1, f"{old} → {new}")
    msg = "The mutant does not differ from the module"
    raise AssertionError(msg)
