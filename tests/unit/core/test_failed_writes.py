"""Every failed write raises a ``WriteError`` that is also of a more specific type."""

from __future__ import annotations

import copy
import pickle

import pytest

from floe_core import errors
from floe_core.errors import WriteError, is_retryable
from floe_core.failed_writes import failing_as_writes
from floe_core.resilience.circuit_breaker import CircuitBreaker
from floe_core.schemas import CircuitBreakerConfig
from floe_dagster.telemetry.causes import exit_code_of
from floe_polaris.errors import CatalogBusyError

FAILURES = {
    "disk full": errors.StorageFullError("The storage is full.", hint="Free space.", table="a.b"),
    "store refuses": errors.StorageAuthenticationError("The storage refuses access."),
    "catalog down": errors.CatalogUnavailableError("The catalog is down."),
    "slow down": CatalogBusyError("The catalog is busy.", retry_after=3.0),
    "deadline": errors.DeadlineExceededError("No answer."),
    "credentials": errors.CatalogAuthenticationError("Authentication failed."),
    "privileges": errors.CatalogAuthorizationError("The catalog refuses."),
    "rejected": errors.CatalogRequestError("The catalog rejected the request."),
    "engine": errors.EngineUnavailableError("Spark died."),
    "damaged file": errors.CorruptFileError("Damaged.", path="s3://lake/x.parquet"),
    "conflict": errors.ConcurrencyConflictError("Others were faster."),
    "in doubt": errors.CommitStateUnknownError("Nobody can tell.", operation_id="op-1"),
    "data": errors.InvalidDataError("No rows."),
}
ANSWERS = {
    "no table": errors.TableNotFoundError("Table not found."),
    "schema": errors.SchemaEvolutionError("No."),
    "arguments": errors.ConfigurationError("No."),
    "filter": errors.InvalidScanError("No such column."),
    "capability": errors.CapabilityError("Not here."),
}


def raised(err):
    with pytest.raises(errors.FloeStorageError) as caught, failing_as_writes():
        raise err
    return caught.value


@pytest.mark.req("API-13", "API-03")
@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_a_write_error_and_stays_what_it_is(case):
    plain = copy.copy(FAILURES[case])
    kind, text, retryable = type(plain), str(plain), is_retryable(plain)
    err = raised(plain)
    assert isinstance(err, WriteError)
    assert isinstance(err, kind)
    assert (str(err), err.exit_code, is_retryable(err)) == (text, kind.exit_code, retryable)
    # Logs, traces and Dagster use the name.
    assert (type(err).__name__, type(err).__module__) == (kind.__name__, kind.__module__)
    assert exit_code_of(type(err).__name__) == kind.exit_code
    assert err is plain


@pytest.mark.parametrize("case", ANSWERS)
def test_what_was_never_tried_is_no_failed_write(case):
    assert not isinstance(raised(copy.copy(ANSWERS[case])), WriteError)


@pytest.mark.parametrize("case", FAILURES)
def test_a_failed_write_crosses_process_boundaries(case):
    err = raised(copy.copy(FAILURES[case]))
    twin = pickle.loads(pickle.dumps(err))  # noqa: S301 - our own bytes
    assert type(twin) is type(err)
    assert (str(twin), vars(twin)) == (str(err), vars(err))
    assert type(copy.copy(err)) is type(err)


def test_the_cause_and_the_place_of_a_failure_are_kept():
    def fails():
        try:
            open("/nowhere/at/all")  # noqa: SIM115, PTH123 - it does not open
        except OSError as err:
            msg = "The storage failed."
            raise errors.StorageError(msg) from err

    with pytest.raises(WriteError) as caught, failing_as_writes():
        fails()
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert caught.traceback[-1].name == "fails"


def test_errors_that_are_not_floe_s_rise_as_they_are():
    with pytest.raises(ZeroDivisionError), failing_as_writes():
        1 / 0  # noqa: B018 - raises


def test_an_open_breaker_keeps_its_time_in_a_failed_write():
    breaker = CircuitBreaker(CircuitBreakerConfig(failure_threshold=1, reset_timeout_seconds=600))

    def down():
        raise errors.CatalogUnavailableError("down")  # noqa: EM101 - a message

    for _ in range(2):
        with pytest.raises(WriteError) as caught, failing_as_writes():
            breaker.call(down)
    assert isinstance(caught.value, errors.CircuitOpenError)
    assert caught.value.retry_at
    assert not is_retryable(caught.value)


def library_error(module, name="Strange"):
    return type(name, (Exception,), {"__module__": module})("password=hunter2hunter2 broke\nmore")


@pytest.mark.req("API-13")
@pytest.mark.parametrize("module", ["pyarrow.lib", "pyiceberg.exceptions", "botocore.exceptions", "py4j.protocol"])
def test_an_error_of_a_library_is_the_cause_of_a_write_error(module):
    cause = library_error(module)
    err = raised(cause)
    assert type(err) is WriteError
    assert err.__cause__ is cause
    assert str(err).startswith("The write failed: Strange: password=")
    assert "hunter2" not in str(err)
    assert "more" not in err.message
