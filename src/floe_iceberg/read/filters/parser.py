r"""Parser for row filters: a subset of SQL that both engines interpret the same way.

predicate:  [not] term {and | or [not] term}, with parentheses
term:       column (= | == | != | <> | < | <= | > | >=) value, or the value first
            column [not] in (value, …)
            column [not] between value and value
            column [not] like 'pattern'         (% any string, _ one character, \% and \_ literally)
            column is [not] null
            column is [not] nan, or isnan(column)
            column                              (a boolean column)
            true | false
column:     name, `any name`, "any name"; dots select struct fields
value:      12, -1.5, 2e9, 'text' ('' is a quote), true, false, X'00ff', date '2026-01-31', timestamp '…'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NoReturn

from floe_iceberg.read.filters.syntax import (
    Among,
    And,
    Compare,
    Constant,
    Flag,
    Kind,
    Like,
    Literal,
    Name,
    NaN,
    Not,
    Null,
    Operator,
    Or,
    Wildcard,
)

if TYPE_CHECKING:
    from floe_iceberg.read.filters.syntax import Predicate

# No real filter is nested deeper, and deeper nesting could exhaust the stack.
_MAX_DEPTH = 100
_MAX_NUMBER_DIGITS = 400
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<bytes>[xX]'(?:[^']*)')
      | (?P<text>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d][\w$]*)
      | (?P<operator><=|>=|<>|!=|==|=|<|>)
      | (?P<sign>[-+(),.])
    )""",
    re.VERBOSE,
)
_OPERATORS = {"==": Operator.EQ, "<>": Operator.NE}
_RESERVED = frozenset({"and", "or", "not", "is", "in", "like", "between", "null", "true", "false"})


class FilterSyntaxError(ValueError):
    """Invalid filter syntax; ``position`` counts characters from 1."""

    def __init__(self, message: str, position: int) -> None:
        """Store the message and the position."""
        super().__init__(message)
        self.position = position


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int

    @property
    def word(self) -> str:
        """The keyword in lower case; empty for other tokens."""
        return self.text.lower() if self.kind == "word" else ""

    @property
    def shown(self) -> str:
        return f"'{self.text}'" if self.text else "the end of the filter"


def parse(text: str) -> Predicate:
    """Parse a filter.

    Raises:
        FilterSyntaxError: The text is not a valid filter.
    """
    return _Parser(_tokens(text)).parse()


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            found = text[start]
            what = {"'": "unterminated string", ";": "unexpected ';'"}.get(found)
            msg = what or f"unexpected character {found!r}"
            raise FilterSyntaxError(msg, start + 1)
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        position = match.end()
    return [*tokens, _Token("end", "", len(text) + 1)]


class _Parser:
    """Recursive descent parser for the tokens of one filter."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def parse(self) -> Predicate:
        found = self._or()
        if self._current.kind != "end":
            self._fail("'and', 'or' or the end of the filter")
        return found

    @property
    def _current(self) -> _Token:
        return self._tokens[self._position]

    @property
    def _next(self) -> _Token:
        return self._tokens[min(self._position + 1, len(self._tokens) - 1)]

    def _take(self) -> _Token:
        token = self._current
        self._position += 1
        return token

    def _accept(self, *, word: str = "", sign: str = "") -> bool:
        found = self._current.word == word if word else self._current.kind == "sign" and self._current.text == sign
        if found:
            self._position += 1
        return found

    def _expect(self, sign: str) -> None:
        if not self._accept(sign=sign):
            self._fail(f"'{sign}'")

    def _fail(self, expected: str) -> NoReturn:
        msg = f"expected {expected}, found {self._current.shown}"
        raise FilterSyntaxError(msg, self._current.position)

    def _or(self) -> Predicate:
        operands = [self._and()]
        while self._accept(word="or"):
            operands.append(self._and())
        return operands[0] if len(operands) == 1 else Or(tuple(operands))

    def _and(self) -> Predicate:
        operands = [self._not()]
        while self._accept(word="and"):
            operands.append(self._not())
        return operands[0] if len(operands) == 1 else And(tuple(operands))

    def _not(self) -> Predicate:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            msg = f"nested more than {_MAX_DEPTH} levels deep"
            raise FilterSyntaxError(msg, self._current.position)
        found: Predicate
        if self._accept(word="not"):
            found = Not(self._not())
        elif self._accept(sign="("):
            found = self._or()
            self._expect(")")
        else:
            found = self._term()
        self._depth -= 1
        return found

    def _term(self) -> Predicate:
        now = self._current
        if now.word in {"true", "false"} and self._next.kind != "operator":
            self._take()
            return Constant(now.word == "true")
        if now.word == "isnan" and self._next.text == "(":
            self._position += 2
            column = self._column()
            self._expect(")")
            return NaN(column)
        literal = self._literal()
        if literal is not None:
            operator = self._operator()
            return Compare(self._column(), operator.mirrored, literal)
        return self._column_predicate(self._column())

    def _column_predicate(self, column: Name) -> Predicate:
        if self._current.kind == "operator":
            operator = self._operator()
            return Compare(column, operator, self._value())
        if self._accept(word="is"):
            negated = self._accept(word="not")
            return _negated(self._null_or_nan(column), negated=negated)
        negated = self._accept(word="not")
        if self._accept(word="in"):
            return _negated(self._among(column), negated=negated)
        if self._accept(word="between"):
            low = self._value()
            if not self._accept(word="and"):
                self._fail("'and'")
            bounds = (Compare(column, Operator.GE, low), Compare(column, Operator.LE, self._value()))
            return _negated(And(bounds), negated=negated)
        if self._accept(word="like"):
            return _negated(Like(column, self._pattern()), negated=negated)
        if negated:
            self._fail("'in', 'between' or 'like'")
        if self._current.text == "(":
            msg = f"functions such as {column.dotted}() are not supported"
            raise FilterSyntaxError(msg, self._current.position)
        return Flag(column)

    def _null_or_nan(self, column: Name) -> Predicate:
        if self._accept(word="null"):
            return Null(column)
        if self._accept(word="nan"):
            return NaN(column)
        return self._fail("'null', 'not null', 'nan' or 'not nan'")

    def _among(self, column: Name) -> Among:
        self._expect("(")
        literals: list[Literal] = []
        unknown = False
        while True:
            if self._accept(word="null"):
                unknown = True
            else:
                literals.append(self._value())
            if not self._accept(sign=","):
                break
        self._expect(")")
        return Among(column, tuple(literals), unknown)

    def _operator(self) -> Operator:
        if self._current.kind != "operator":
            self._fail("a comparison such as '='")
        text = self._take().text
        return _OPERATORS.get(text) or Operator(text)

    def _column(self) -> Name:
        parts, quoted = [], False
        while True:
            token = self._current
            if token.kind == "quoted":
                quote = token.text[0]
                parts.append(token.text[1:-1].replace(quote * 2, quote))
                quoted = True
            elif token.kind == "word" and token.word not in _RESERVED:
                parts.append(token.text)
            else:
                self._fail("a column")
            self._take()
            if not self._accept(sign="."):
                return Name(tuple(parts), whole=not quoted)

    def _value(self) -> Literal:
        if self._current.word == "null":
            msg = "comparisons with null are never true; use 'is null' or 'is not null'"
            raise FilterSyntaxError(msg, self._current.position)
        literal = self._literal()
        if literal is None:
            self._fail("a value")
        return literal

    def _literal(self) -> Literal | None:
        token = self._current
        if token.kind == "text":
            return Literal(Kind.TEXT, _unquoted(self._take()), token.text)
        if token.kind == "bytes":
            return Literal(Kind.BYTES, _bytes(self._take()), token.text)
        if token.word in {"true", "false"}:
            self._take()
            return Literal(Kind.BOOLEAN, token.word == "true", token.text)
        if token.word in {"date", "timestamp"} and self._next.kind == "text":
            self._take()
            # The column's type determines how the string is parsed; the keyword is only for readability.
            return Literal(Kind.TEXT, _unquoted(self._take()), token.text)
        if token.kind == "number" or (token.kind == "sign" and token.text in "+-" and self._next.kind == "number"):
            sign = self._take().text if token.kind == "sign" else ""
            return _number(sign, self._take(), self._current)
        return None

    def _pattern(self) -> tuple[str | Wildcard, ...]:
        token = self._current
        if token.kind != "text":
            self._fail("a string")
        return pattern_of(_unquoted(self._take()), token.position)


def _negated(predicate: Predicate, *, negated: bool) -> Predicate:
    return Not(predicate) if negated else predicate


def _unquoted(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _bytes(token: _Token) -> bytes:
    try:
        return bytes.fromhex(token.text[2:-1])
    except ValueError as err:
        msg = f"{token.text} is not a sequence of hexadecimal bytes"
        raise FilterSyntaxError(msg, token.position) from err


def _number(sign: str, token: _Token, following: _Token) -> Literal:
    if following.kind in {"word", "number"} and following.position == token.position + len(token.text):
        msg = f"'{token.text}{following.text}' is not a number"
        raise FilterSyntaxError(msg, token.position)
    try:
        value = Decimal(sign + token.text)
    except InvalidOperation as err:
        msg = f"'{token.text}' is not a number"
        raise FilterSyntaxError(msg, token.position) from err
    if len(token.text) > _MAX_NUMBER_DIGITS or abs(value.adjusted()) > _MAX_NUMBER_DIGITS:
        msg = f"numbers must have at most {_MAX_NUMBER_DIGITS} digits"
        raise FilterSyntaxError(msg, token.position)
    return Literal(Kind.NUMBER, value, sign + token.text)


def pattern_of(text: str, position: int = 1) -> tuple[str | Wildcard, ...]:
    """Split a LIKE pattern into literal strings and wildcards.

    Raises:
        FilterSyntaxError: A backslash precedes a character other than %, _ or a backslash.
    """
    parts: list[str | Wildcard] = []
    characters = iter(text)
    for character in characters:
        if character in {"%", "_"}:
            parts.append(Wildcard(character))
            continue
        if character == "\\":
            character = next(characters, "")  # noqa: PLW2901 - use the escaped character
            if character not in {"%", "_", "\\"}:
                msg = r"a backslash in a pattern must be followed by %, _ or \ only"
                raise FilterSyntaxError(msg, position)
        if parts and not isinstance(parts[-1], Wildcard):
            parts[-1] += character
        else:
            parts.append(character)
    return tuple(parts)
