"""Extracts the reason from the text of a Spark error, including errors reported by other processes."""

from __future__ import annotations

import re

_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+;?\s*$")
# The error below a Python traceback; of several chained errors, the last one was reported to Spark.
_PYTHON_REASON = re.compile(
    r"^Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(?P<reason>\S[^\n]*)", re.MULTILINE
)
_REASON = re.compile(r"(?:\w+\.)+\w*(?:Exception|Error): (?P<reason>[^\n]+)")


def reason_in(text: str) -> str:
    """Return the line that states the reason of an error."""
    python = [*_PYTHON_REASON.finditer(text)]
    found = python[-1] if python else _REASON.search(text)
    return (found["reason"] if found else text.strip().partition("\n")[0]).strip()


def without_sql_state(reason: str) -> str:
    """Return a reason without the SQLSTATE at its end."""
    return _SQL_STATE.sub("", reason)
