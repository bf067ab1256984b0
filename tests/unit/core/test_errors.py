"""The error hierarchy: one base class, meaningful branches, actionable messages."""

from __future__ import annotations

import inspect
import pickle
import re
from datetime import UTC, datetime

import pytest

from floe_core import errors
from floe_core.errors import (
    CatalogConnectionError,
    ColumnMismatch,
    ConfigProblem,
    ConfigurationError,
    FloeStorageError,
    MissingDependencyError,
    SchemaEvolutionError,
    TransientError,
    WriteError,
)

ALL = [
    member
    for member in vars(errors).values()
    if inspect.isclass(member) and issubclass(member, Exception) and member.__module__ == "floe_core.errors"
]
EXTRAS = {
    "plugin": "floe.storage:s3",
    "retry_at": datetime(2024, 1, 1, tzinfo=UTC),
    "operation_id": "op-1",
    "path": "s3://lake/x.parquet",
    "extra": "spark",
}


def example(kind: type[FloeStorageError]) -> FloeStorageError:
    required = [
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is inspect.Parameter.empty and parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    return kind("It broke.", **{name: EXTRAS[name] for name in required})


@pytest.mark.req("API-13")
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_has_the_one_base_and_an_exit_code(kind):
    assert issubclass(kind, FloeStorageError)
    assert kind.exit_code in (1, 2)
    assert kind.__doc__


@pytest.mark.req("API-13")
@pytest.mark.parametrize(
    "name",
    [
        "CatalogAuthenticationError",
        "CatalogConnectionError",
        "ConcurrencyConflictError",
        "FloeStorageError",
        "SchemaEvolutionError",
        "TableNotFoundError",
    ],
)
def test_the_documented_exceptions_exist(name):
    assert issubclass(getattr(errors, name), FloeStorageError)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_the_drawn_tree_has_every_error_below_its_parent(kind):
    lines = (re.match(r"^([\s│├└─]*)(\w+Error)\b", line) for line in str(errors.__doc__).splitlines())
    drawn = [(len(match[1]), match[2]) for match in lines if match]
    names = [name for _, name in drawn]
    assert names.count(kind.__name__) == 1
    index = names.index(kind.__name__)
    depth = drawn[index][0]
    parents = [name for level, name in drawn[:index] if level < depth]
    if kind is not FloeStorageError:
        assert parents[-1] in {base.__name__ for base in kind.__mro__}


@pytest.mark.req("RD-05")
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_the_text_is_the_message_and_the_way_out(kind):
    error = example(kind)
    assert error.message
    assert str(error).startswith(error.message)
    if error.hint:
        assert error.hint in str(error)


@pytest.mark.req("RD-05")
def test_a_hint_follows_the_message():
    error = errors.TableNotFoundError("Table 'a.b' not found.", hint="Tables there: a.c.", table="a.b")
    assert str(error) == "Table 'a.b' not found. Tables there: a.c."
    assert (error.message, error.hint, error.table) == ("Table 'a.b' not found.", "Tables there: a.c.", "a.b")


def test_a_missing_extra_is_named_with_the_command():
    assert str(MissingDependencyError("Spark", extra="spark")) == (
        "Spark needs the extra 'spark'. Install it with: pip install 'floe-lakehouse[spark]'"
    )


def test_a_configuration_error_lists_every_problem_with_its_place():
    problems = [
        ConfigProblem("unknown key 'waerhouse'", file="floe.yaml", line=3, column=5, fix="did you mean 'warehouse'?"),
        ConfigProblem("no name", file="floe.yaml"),
    ]
    assert str(ConfigurationError("2 problems.", problems=problems)).splitlines() == [
        "2 problems.",
        "  floe.yaml:3:5: unknown key 'waerhouse'. did you mean 'warehouse'?",
        "  floe.yaml: no name",
    ]


def test_a_schema_error_lists_every_column():
    error = SchemaEvolutionError("No.", mismatches=[ColumnMismatch("price", "string", "int", "cannot be promoted")])
    assert str(error) == "No.\n  price: table has string, data has int (cannot be promoted)"


@pytest.mark.req("RD-02")
def test_a_caller_retries_by_type():
    transient = {kind.__name__ for kind in ALL if issubclass(kind, TransientError)}
    assert transient >= {
        "CatalogUnavailableError",
        "RateLimitedError",
        "CircuitOpenError",
        "DeadlineExceededError",
        "ConcurrencyConflictError",
    }
    assert not any(kind.exit_code == errors.USER_ERROR for kind in ALL if issubclass(kind, TransientError))
    assert issubclass(errors.CatalogUnavailableError, CatalogConnectionError)
    assert issubclass(errors.ConcurrencyConflictError, WriteError)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_crosses_process_boundaries_with_its_fields(kind):
    error = example(kind)
    twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(twin) is kind
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
