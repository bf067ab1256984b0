"""What Spark's reports say, as text: for errors of this process and of others."""

from __future__ import annotations

import re

_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+;?\s*$")
# What a function in Python raised, below its traceback; of several, the last one is what Spark was told.
_PYTHON_REASON = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(?P<reason>\S[^\n]*)", re.MULTILINE
)
_REASON = re.compile(r"(?:\w+\.)+\w*(?:Exception|Error): (?P<reason>[^\n]+)")


def reason_in(text: str) -> str:
    """Return the first line that says what happened."""
    python = [*_PYTHON_REASON.finditer(text)]
    found = python[-1] if python else _REASON.search(text)
    return (found["reason"] if found else text.strip().partition("\n")[0]).strip()


def without_sql_state(reason: str) -> str:
    """Return a reason without the code of the SQL standard at its end."""
    return _SQL_STATE.sub("", reason)
