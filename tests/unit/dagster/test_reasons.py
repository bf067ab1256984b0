"""How a failed asset is explained to whoever wrote it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import floe_dagster
from floe_dagster.progress import _reason

OWN = Path(floe_dagster.__file__).parent / "outputs.py"
STACK = [
    '  File "/usr/lib/python3.11/site-packages/dagster/step.py", line 10, in compute\n    yield from run()\n',
    '  File "/home/ada/shop/assets.py", line 24, in daily_revenue\n    .agg(F.sum("totl"))\n',
    '  File "/usr/lib/python3.11/site-packages/pyspark/sql/group.py", line 186, in agg\n    jdf = ...\n',
    f'  File "{OWN}", line 5, in write\n    ...\n',
]
SPARK = """\
pyspark.errors.exceptions.captured.AnalysisException: [UNRESOLVED_COLUMN] `totl` cannot be resolved. SQLSTATE: 42703;
'Aggregate [to_date(placed)]
+- RelationV2
"""


def event(message, stack=(), cause=None):
    error = SimpleNamespace(message=message, stack=list(stack), cause=cause)
    return SimpleNamespace(step_failure_data=SimpleNamespace(error=error))


@pytest.mark.parametrize(
    ("message", "stack", "reason"),
    [
        (SPARK, STACK, "AnalysisException: [UNRESOLVED_COLUMN] `totl` cannot be resolved. (assets.py, line 24)"),
        ("ValueError: a: b\nc\n", STACK, "ValueError: a: b\nc (assets.py, line 24)"),
        ("shop.errors.Stale: old", STACK[:1], "Stale: old"),
        ("floe_core.errors.TableNotFoundError: There is no table 'a.b'.\n", STACK, "There is no table 'a.b'."),
        ("no colon at all", [], "no colon at all"),
    ],
    ids=["spark", "python", "no line of the project", "floe", "bare"],
)
def test_the_reason_is_the_error_and_the_line_of_the_project(message, stack, reason):
    assert _reason(event(message, stack)) == reason


def test_the_error_that_began_it_counts():
    first = SimpleNamespace(message="KeyError: 'total'", stack=STACK, cause=None)
    assert _reason(event("RuntimeError: in the end", cause=first)) == "KeyError: 'total' (assets.py, line 24)"
