"""Destinations of telemetry, propagation of traces, and the cost of disabled telemetry."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from threading import Event, Thread

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from floe_core import telemetry
from floe_core.observing.observability import (
    LOG_LEVEL_VARIABLE,
    TRACE_PARENT_VARIABLE,
    Receiver,
    _signal_url,
    configure_observability,
    continued,
    join,
    propagated,
    trace_parent,
)
from floe_core.schemas import ObservabilityConfig
from floe_core.telemetry import get_logger, process_span, traced

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    exporter.tracer = provider.get_tracer("test")
    return exporter


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
        ("http://localhost:4318/", "http://localhost:4318/v1/metrics"),
        ("http://localhost:4318/v1/traces", "http://localhost:4318/v1/metrics"),
        ("https://host/otlp", "https://host/otlp/v1/metrics"),
        ("https://host/otlp/v1/traces/", "https://host/otlp/v1/metrics"),
    ],
)
def test_each_signal_has_its_path_below_the_endpoint(endpoint, url):
    assert _signal_url(endpoint, "v1/metrics") == url


def test_a_thread_works_for_the_span_of_its_process(spans):
    def work():
        with traced("iceberg.load_table", tracer=spans.tracer):
            pass

    with traced("dagster.asset", tracer=spans.tracer) as operation, process_span(operation.span):
        thread = Thread(target=work)
        thread.start()
        thread.join()
    work()
    inside, asset, outside = spans.get_finished_spans()
    assert inside.parent.span_id == asset.context.span_id
    assert outside.parent is None


def test_work_for_another_process_is_part_of_its_trace(spans):
    with continued(PARENT), traced("dagster.run", tracer=spans.tracer):
        assert trace_parent().split("-")[1] == PARENT.split("-")[1]
    [run] = spans.get_finished_spans()
    assert (f"{run.context.trace_id:032x}", f"{run.parent.span_id:016x}") == tuple(PARENT.split("-")[1:3])


def test_a_process_that_joined_a_trace_works_for_it_outside_of_its_own_spans(spans, monkeypatch):
    monkeypatch.setattr(telemetry, "_process_parents", [])
    join(None)
    join(PARENT)
    join(PARENT.replace("b7ad", "0000"))
    with traced("iceberg.connect", tracer=spans.tracer), traced("iceberg.load_table"):
        pass
    inner, outer = spans.get_finished_spans()
    assert f"{outer.parent.span_id:016x}" == PARENT.split("-")[2]
    assert inner.parent.span_id == outer.context.span_id


def test_a_receiver_that_failed_is_left_alone_and_told_of_once():
    receiver = Receiver("observability.openlineage")
    assert not receiver.paused
    with capture_logs() as logs:
        receiver.failed("lineage_not_sent", error="Timeout")
        receiver.failed("lineage_not_sent", error="Timeout")
    assert receiver.paused
    assert [(line["event"], line["error"]) for line in logs] == [("lineage_not_sent", "Timeout")]


def test_a_receiver_is_waited_for_no_longer_than_asked_and_meanwhile_left_alone():
    receiver, answered = Receiver("observability.openlineage"), Event()
    assert receiver.take(lambda: "taken", seconds=5) == "taken"
    with pytest.raises(TimeoutError):
        receiver.take(answered.wait, seconds=0.01)
    called = []
    with pytest.raises(TimeoutError):
        receiver.take(lambda: called.append(1), seconds=5)
    assert called == []
    answered.set()
    assert receiver._late.wait(5)
    with pytest.raises(ValueError, match="refused"):
        receiver.take(lambda: int("refused"), seconds=5)


def test_a_process_that_ends_and_starts_no_more_threads_sends_all_the_same(monkeypatch):
    def refused(_):
        raise RuntimeError

    monkeypatch.setattr(Thread, "start", refused)
    assert Receiver("observability.openlineage").take(lambda: "taken", seconds=5) == "taken"


def test_a_span_of_this_process_comes_before_one_of_another(spans):
    with traced("floe.run", tracer=spans.tracer), continued(PARENT), traced("dagster.run"):
        pass
    run, root = spans.get_finished_spans()
    assert run.parent.span_id == root.context.span_id


def test_processes_started_in_a_span_are_told_of_it(spans, monkeypatch):
    monkeypatch.delenv(TRACE_PARENT_VARIABLE, raising=False)
    with propagated():
        assert TRACE_PARENT_VARIABLE not in os.environ
    with traced("dagster.run", tracer=spans.tracer) as operation, propagated():
        span = operation.span.get_span_context()
        assert os.environ[TRACE_PARENT_VARIABLE].split("-")[2] == trace.format_span_id(span.span_id)
    assert TRACE_PARENT_VARIABLE not in os.environ


def test_a_failure_without_an_exception_marks_the_span(spans):
    with traced("dagster.asset", tracer=spans.tracer) as operation:
        operation.fail("token=s3cretvalue was refused")
    [span] = spans.get_finished_spans()
    assert not span.status.is_ok
    assert "s3cretvalue" not in span.status.description


def test_the_log_goes_as_the_project_says_unless_the_application_has_its_own(capsys):
    config = ObservabilityConfig(log_level="INFO", log_format="json")
    configure_observability(config)
    get_logger("floe.test").info("something_happened")
    assert '"event": "something_happened"' in capsys.readouterr().err
    stream = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(stream))
    configure_observability(config)
    get_logger("floe.test").info("something_else")
    assert "something_else" in stream.getvalue()


@pytest.mark.parametrize(("level", "logged"), [("DEBUG", True), ("debug", True), ("ERROR", False), ("loud", False)])
def test_a_process_that_a_command_started_logs_as_the_command_does(monkeypatch, capsys, level, logged):
    monkeypatch.setenv(LOG_LEVEL_VARIABLE, level)
    configure_observability(ObservabilityConfig(log_level="WARNING"))
    if level == "ERROR":
        get_logger("floe.test").warning("something_happened")
    get_logger("floe.test").debug("something_else_happened")
    assert ("happened" in capsys.readouterr().err) is logged


def test_nothing_is_configured_or_imported_when_nothing_is_asked_for():
    code = (
        "import sys, structlog\n"
        "from floe_core.observing.metrics import count_retry, timed_commit\n"
        "from floe_core.observing.observability import configure_observability, flush_observability\n"
        "from floe_core.schemas import ObservabilityConfig\n"
        "from floe_core.telemetry import traced\n"
        "configure_observability(ObservabilityConfig())\n"
        "with traced('iceberg.append', table='a.b'), timed_commit('a.b', conflict=KeyError): count_retry('a', 'b')\n"
        "flush_observability()\n"
        "assert not structlog.is_configured()\n"
        "heavy = ('opentelemetry.sdk', 'opentelemetry.metrics', 'opentelemetry.exporter', 'openlineage', 'requests')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
