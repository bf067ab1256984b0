"""Explanations of failed assets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import floe_dagster
from floe_core.observing.redaction import MASK
from floe_dagster.telemetry.causes import cause_of, exit_code_of
from floe_polaris.errors import CatalogServerError

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


def error(message, stack=(), cause=None):
    name = message.partition(":")[0].rpartition(".")[2]
    return SimpleNamespace(message=message, stack=list(stack), cause=cause, cls_name=name)


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
    assert cause_of(error(message, stack)).reason == reason


def test_the_reason_has_no_secret():
    reason = cause_of(error("OSError: postgres://shop:hunter22@db/x is gone, token=hunter23")).reason
    assert reason == f"OSError: postgres://shop:{MASK}@db/x is gone, token={MASK}"


def test_the_error_that_began_it_counts():
    first = error("KeyError: 'total'", STACK)
    assert cause_of(error("RuntimeError: in the end", cause=first)).reason == "KeyError: 'total' (assets.py, line 24)"


def test_what_floe_says_comes_before_what_began_it():
    first = error("OSError: [Errno 28] No space left on device")
    told = cause_of(
        error("HandleOutput: x", cause=error("floe_core.errors.StorageFullError: It is full.", cause=first))
    )
    assert (told.reason, told.error) == ("It is full.", "StorageFullError")


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        ("floe_core.errors.StorageFullError: full", "StorageFullError", 2),
        ("floe_core.errors.CatalogUnavailableError: down", "CatalogUnavailableError", 2),
        ("floe_core.errors.CatalogAuthenticationError: no", "CatalogAuthenticationError", 1),
        (f"floe_polaris.errors.{CatalogServerError.__name__}: broke", "CatalogServerError", 2),
        ("OSError: [Errno 28] No space left on device", "StorageFullError", 2),
        ("ValueError: mine", "ValueError", 1),
    ],
)
def test_the_exit_code_follows_the_class_of_the_error(text, name, code):
    told = cause_of(error("Wrapped: x", cause=error(text)))
    assert (told.error, exit_code_of(told.error)) == (name, code)


def test_whoever_presses_ctrl_c_is_no_failure():
    assert cause_of(error("dagster.DagsterExecutionInterruptedError: ", STACK)).interrupted
    assert not cause_of(error("ValueError: x")).interrupted
