"""Translation of Spark's errors."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogUnavailableError,
    ClockSkewError,
    CommitStateUnknownError,
    ConcurrencyConflictError,
    EngineError,
    EngineUnavailableError,
    InvalidDataError,
    StorageAuthenticationError,
    StorageFullError,
    TableNotFoundError,
)
from floe_spark.plane.errors import reason_of, translated

UNKNOWN_AND_FAILED = """x: org.apache.iceberg.exceptions.CommitStateUnknownException: 502
Caused by: org.apache.iceberg.exceptions.CommitFailedException: x"""


class Raised(Exception):  # noqa: N818 - stands for any of Spark's
    """An exception that came over the bridge as text."""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "An error occurred.\n: org.apache.iceberg.exceptions.CommitFailedException: Cannot commit",
            ConcurrencyConflictError,
        ),
        (
            "x: org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain records",
            ConcurrencyConflictError,
        ),
        (UNKNOWN_AND_FAILED, CommitStateUnknownError),
        ("x: org.apache.iceberg.exceptions.NoSuchTableException: Table does not exist: a.b", TableNotFoundError),
        (
            "x: org.apache.iceberg.exceptions.RESTException: Error occurred while processing POST request",
            CommitStateUnknownError,
        ),
        (
            "x: org.apache.iceberg.exceptions.RESTException: GET\nCaused by: java.net.X: Connection refused",
            CatalogUnavailableError,
        ),
        (
            "x: org.apache.iceberg.exceptions.ServiceUnavailableException: Service unavailable: x",
            CatalogUnavailableError,
        ),
        ("x: org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: me", CatalogAuthenticationError),
        ("x: org.apache.iceberg.exceptions.ForbiddenException: Forbidden: x", CatalogAuthorizationError),
        ("java.lang.IllegalArgumentException: [BUG] Expected sorted snapshot log entries.", ClockSkewError),
        (
            "java.lang.IllegalArgumentException: Invalid update timestamp 1: before last snapshot log entry at 2",
            ClockSkewError,
        ),
        ("java.lang.OutOfMemoryError: Java heap space", EngineUnavailableError),
        ("Job aborted: java.io.IOException: No space left on device", StorageFullError),
        (
            "software.amazon.awssdk.services.s3.model.S3Exception: Access Denied. (Service: S3, Status Code: 403)",
            StorageAuthenticationError,
        ),
        ("java.io.FileNotFoundException: /data/x.parquet (Permission denied)", StorageAuthenticationError),
        ("<_InactiveRpcError of RPC: status = StatusCode.UNAVAILABLE>", EngineUnavailableError),
        ("java.lang.UnsupportedOperationException: Spark does not support time fields", CapabilityError),
    ],
)
def test_java_exceptions_by_name(text, kind):
    with pytest.raises(kind) as caught, translated("ns.t", operation_id="op-1"):
        raise Raised(text)
    assert isinstance(caught.value.__cause__, Raised)
    assert caught.value.table == "ns.t"
    if isinstance(caught.value, CommitStateUnknownError):
        assert caught.value.operation_id == "op-1"


@pytest.mark.parametrize(
    "err",
    [
        Raised("something else"),
        Raised("org.apache.iceberg.exceptions.ValidationException: Cannot find field 'x'"),
        InvalidDataError("floe's own: OutOfMemoryError"),
    ],
    ids=["unknown", "no conflict", "floe's own"],
)
def test_what_has_no_better_name_rises_as_it_is(err):
    with pytest.raises(type(err)) as caught, translated("ns.t"):
        raise err
    assert caught.value is err


def test_a_lost_connection_is_an_unavailable_engine():
    with pytest.raises(EngineUnavailableError), translated("ns.t"):
        raise ConnectionResetError


def test_the_reason_is_the_first_line_that_says_one():
    assert reason_of(Raised("An error.\n: a.b.SomeException: it broke\n\tat x")) == "it broke"
    assert reason_of(Raised("plain\nmore")) == "plain"


def test_the_reason_of_a_function_in_python_is_what_it_raised():
    text = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "a.py", line 2, in inner\n    {}["x"]\nKeyError: \'x\'\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "a.py", line 4, in cleaned\n    raise ValueError(said)\n'
        "ValueError: no such airport: XXX\n"
    )
    assert reason_of(Raised(text)) == "ValueError: no such airport: XXX"


@pytest.mark.req("RD-05")
def test_what_a_server_says_of_a_login_is_for_the_log_alone():
    text = "x: org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: client-4711 is locked"
    with capture_logs() as logs, pytest.raises(CatalogAuthenticationError) as caught, translated("ns.t"):
        raise RuntimeError(text)
    assert str(caught.value) == ("The catalog rejected Spark's credentials. Check catalog.credentials in floe.yaml.")
    assert [entry["said"] for entry in logs] == ["Not authorized: client-4711 is locked"]


TEXT = "An error.\n: java.lang.FooException: it broke\n\tat x"


@pytest.mark.parametrize("module", ["py4j.protocol", "grpc._channel", "pyspark.errors.exceptions.connect"])
def test_whatever_spark_reports_of_a_write_is_an_error_of_the_engine(module):
    report = type("Report", (Exception,), {"__module__": module})(TEXT)
    told = r"Spark failed to write to 'ns\.t': it broke"
    with pytest.raises(EngineError, match=told) as caught, translated("ns.t", action="write to"):
        raise report
    assert caught.value.__cause__ is report
    assert caught.value.table == "ns.t"


def test_a_mistake_outside_of_spark_rises_as_it_is():
    with pytest.raises(ZeroDivisionError), translated("ns.t", action="write to"):
        1 / 0  # noqa: B018 - raises
