"""SQL conditions of checks: one expression over the rows of one table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

# The condition is parsed in parentheses on separate lines, so that a trailing comment does not hide the parenthesis.
_BEFORE, _AFTER = "SELECT (\n", "\n)"
_LINES_BEFORE = 1
_UNITS = frozenset(
    {
        *("year", "quarter", "month", "week", "day", "dayofyear", "hour", "minute", "second"),
        *("millisecond", "microsecond", "yyyy", "yy", "mon", "mm", "dd"),
    }
)
_FORBIDDEN: tuple[tuple[Any, str], ...] = (
    (exp.Query, "a subquery"),
    (exp.AggFunc, "an aggregate function"),
    (exp.Window, "a window function"),
    (exp.Star, "a star"),
    (exp.Explode, "a function that generates rows"),
    (exp.Placeholder, "a parameter"),
    (exp.Parameter, "a parameter"),
)
# Functions that call code outside of SQL.
_FOREIGN = frozenset({"java_method", "reflect", "try_reflect"})


@dataclass(frozen=True)
class Condition:
    """A condition over the rows of a table.

    Attributes:
        text: The source text.
        columns: The top-level columns that it uses, each once.
    """

    text: str
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The condition in parentheses, for combining it with others."""
        return f"(\n{self.text}\n)"


@lru_cache(maxsize=512)
def parse_condition(text: str, dialect: str) -> Condition:
    """Parse a condition.

    Args:
        text: The condition in a check.
        dialect: The SQL dialect of the engine that evaluates it.

    Raises:
        ConfigurationError: The text is not a single expression, or needs more than one row.
    """
    try:
        statements = [one for one in sqlglot.parse(f"{_BEFORE}{text}{_AFTER}", dialect=dialect) if one is not None]
    except SqlglotError as err:
        raise _syntax_error(text, err) from err
    inner = _alone(statements)
    if inner is None:
        msg = f"'{text}' is not a single condition."
        raise ConfigurationError(
            msg, hint="Write one SQL expression, such as: amount >= 0 and currency in ('EUR', 'USD')"
        )
    for kind, what in _FORBIDDEN:
        if inner.find(kind) is not None:
            msg = f"'{text}' contains {what}, but a condition is evaluated for each row separately."
            raise ConfigurationError(msg, hint="Compute the value in an asset, or define an @asset_check.")
    if foreign := [one.name for one in inner.find_all(exp.Anonymous) if one.name.lower() in _FOREIGN]:
        msg = f"'{text}' calls {foreign[0]}, which runs code outside of SQL. This is not allowed in conditions."
        raise ConfigurationError(msg)
    found = dict.fromkeys(
        column.parts[0].name for column in inner.find_all(exp.Column) if not (_is_unit(column) or _is_element(column))
    )
    return Condition(text, tuple(found))


def _alone(statements: Sequence[Any]) -> Any:  # noqa: ANN401 - the parser's classes have no common name
    """Return the expression in the parentheses; None if the text closes them itself or is not a single expression."""
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        return None
    [*chosen] = statements[0].expressions
    extra = [name for name, value in statements[0].args.items() if value and name != "expressions"]
    if len(chosen) != 1 or extra:
        return None
    if isinstance(chosen[0], exp.Subquery):
        return chosen[0]
    if not isinstance(chosen[0], exp.Paren):
        return None
    inner = chosen[0].this
    return None if isinstance(inner, exp.Alias | exp.Tuple | exp.Command) else inner


def _is_unit(column: exp.Column) -> bool:
    """Whether a name is the unit of a function such as timestampadd, which the parser reports as a column."""
    return (
        len(column.parts) == 1 and column.name.lower() in _UNITS and isinstance(column.parent, exp.Func | exp.Anonymous)
    )


def _is_element(column: exp.Column) -> bool:
    """Whether a name is the element of a list comprehension, such as x in [x + 1 for x in items]."""
    around = column.find_ancestor(exp.Comprehension)
    while around is not None:
        if around.expression.name == column.parts[0].name:
            return True
        around = around.find_ancestor(exp.Comprehension)
    return False


def _syntax_error(text: str, err: SqlglotError) -> ConfigurationError:
    first = (getattr(err, "errors", None) or [{}])[0]
    reason = str(first.get("description") or "unclosed quote or parenthesis").rstrip(".")
    if reason.startswith("Required keyword"):
        # The parser's message mentions its internal classes.
        reason = "an operand is missing"
    lines = text.count("\n") + 1
    line = (first.get("line") or 0) - _LINES_BEFORE
    near = str(first.get("highlight") or "").strip()
    if not 1 <= line <= lines or not near:
        place = "at the end"
    else:
        place = f"near '{near}'" + (f" on line {line}" if lines > 1 else f", column {first.get('col')}")
    return ConfigurationError(f"'{text}' is not valid SQL: {reason}, {place}.")
