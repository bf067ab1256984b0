"""Log events and spans: content, destinations, and values that must not appear."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from structlog.testing import capture_logs

from floe_core.errors import TableNotFoundError
from floe_core.observing.observability import configure_tracing
from floe_core.schemas import CatalogConfig, ObservabilityConfig
from floe_core.telemetry import configure_logging, get_logger, redact_event, traced

CANARY = "cAn4ryZq9w8Lk"


@pytest.fixture(autouse=True)
def _structlog_as_it_was():
    yield
    structlog.reset_defaults()


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    exporter.tracer = provider.get_tracer("test")
    return exporter


def fail(error: Exception) -> None:
    raise error


def logged(log_format: str, emit, level="DEBUG") -> str:
    stream = io.StringIO()
    configure_logging(ObservabilityConfig(log_format=log_format, log_level=level), stream=stream)
    emit(get_logger("floe_core.test"))
    return stream.getvalue()


@pytest.mark.req("FR-038")
def test_figures_known_later_join_the_span_and_the_log_line(spans):
    with capture_logs() as logs, traced("iceberg.append", tracer=spans.tracer, table="a.b", branch=None) as operation:
        operation.set(num_rows=3, columns=["x", "y"], schema_id=None)
    (span,) = spans.get_finished_spans()
    assert dict(span.attributes) == {"iceberg.table": "a.b", "iceberg.num_rows": 3, "iceberg.columns": ("x", "y")}
    (event,) = logs
    assert event.pop("took_ms") >= 0
    assert event == {
        "event": "iceberg.append",
        "log_level": "info",
        "outcome": "ok",
        "table": "a.b",
        "num_rows": 3,
        "columns": ["x", "y"],
    }


@pytest.mark.req("FR-037", "RD-05")
def test_an_expected_error_is_a_warning_without_traceback(spans):
    with (
        capture_logs() as logs,
        pytest.raises(TableNotFoundError),
        traced("iceberg.load_table", tracer=spans.tracer, table="a.b"),
    ):
        fail(TableNotFoundError("Table 'a.b' not found.", hint="Tables there: a.c."))
    (event,) = logs
    assert (event["log_level"], event["outcome"], event["error"]) == ("warning", "failed", "TableNotFoundError")
    assert "exception" not in event
    assert "exc_info" not in event
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "Table 'a.b' not found. Tables there: a.c."
    assert span.attributes["error.type"] == "TableNotFoundError"


def test_an_unexpected_error_is_logged_with_its_masked_traceback(spans):
    with (
        capture_logs() as logs,
        pytest.raises(ValueError, match="cAn4ry"),
        traced("iceberg.append", tracer=spans.tracer),
    ):
        fail(ValueError(f"cannot use password={CANARY}"))
    (event,) = logs
    assert event["log_level"] == "error"
    assert "Traceback" in event["exception"]
    assert "test_telemetry.py" in event["exception"]
    assert CANARY not in str(logs)
    (span,) = spans.get_finished_spans()
    assert CANARY not in span.to_json()


def test_an_interruption_is_no_failure_of_floes(spans):
    with capture_logs() as logs, pytest.raises(KeyboardInterrupt), traced("iceberg.scan", tracer=spans.tracer):
        raise KeyboardInterrupt
    assert logs[0]["log_level"] == "warning"
    assert "exception" not in logs[0]
    (span,) = spans.get_finished_spans()
    assert span.status.description == "KeyboardInterrupt"


@pytest.mark.req("RD-04")
def test_no_secret_reaches_a_span(spans):
    with traced(
        "polaris.authenticate",
        tracer=spans.tracer,
        client_secret=CANARY,
        uri=f"https://u:{CANARY}@h/",
        properties={"s3.secret-access-key": CANARY, "s3.region": "eu"},
    ) as operation:
        operation.set(headers=[f"Bearer {CANARY}"])
    (span,) = spans.get_finished_spans()
    assert CANARY not in span.to_json()
    assert "eu" in span.attributes["iceberg.properties"]


def emit_every_kind(logger):
    catalog = CatalogConfig.model_validate(
        {
            "uri": f"postgresql://u:{CANARY}@h/db",
            "options": {"token": CANARY, "header.Authorization": f"Bearer {CANARY}"},
        }
    )
    logger.info("config", catalog=catalog, nested={"list": [{"account_key": CANARY}]})
    logger.bind(session_token=CANARY).warning("bound", text=f"AccountKey={CANARY};x", password=CANARY)
    try:
        fail(ConnectionError(f"refused client_secret={CANARY}"))
    except ConnectionError as err:
        logger.exception("failed", error=err)


@pytest.mark.req("FR-037")
@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_secret_reaches_a_log(log_format):
    text = logged(log_format, emit_every_kind)
    assert "Traceback" in text
    assert "failed" in text
    assert CANARY not in text


@pytest.mark.req("FR-037")
def test_no_secret_passes_under_the_applications_own_structlog_configuration():
    stream = io.StringIO()
    structlog.configure(
        processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    emit_every_kind(get_logger("floe_core.test"))
    assert "refused" in stream.getvalue()
    assert CANARY not in stream.getvalue()


def test_a_foreign_event_is_masked_by_the_processor():
    stream = io.StringIO()
    configure_logging(ObservabilityConfig(log_format="json"), stream=stream)
    structlog.get_logger().info(f"token={CANARY}", password=CANARY)
    assert CANARY not in stream.getvalue()
    assert redact_event(None, "info", {"password": CANARY, "event": "x"}) == {"password": "**********", "event": "x"}


@pytest.mark.req("FR-037")
def test_json_lines_are_one_object_each_with_time_and_level():
    text = logged("json", lambda log: (log.info("first", n=1), log.warning("second", table="a.b")))
    first, second = map(json.loads, text.splitlines())
    assert (first["event"], first["n"], first["level"]) == ("first", 1, "info")
    assert (second["level"], second["table"]) == ("warning", "a.b")
    assert first["timestamp"].endswith("Z")


def test_the_console_format_is_for_people():
    text = logged("console", lambda log: log.info("iceberg.append", table="a.b", num_rows=3))
    assert "iceberg.append" in text
    assert "table=a.b" in text
    assert "\x1b[" not in text


def test_events_below_the_level_are_dropped():
    text = logged("json", lambda log: (log.debug("no"), log.info("no"), log.error("yes")), level="ERROR")
    assert [json.loads(line)["event"] for line in text.splitlines()] == ["yes"]


LIBRARY_USE = """
import logging, sys
from floe_core.telemetry import get_logger, traced
{setup}
log = get_logger("floe_core.test")
log.warning("loud", password="cAn4ry")
log.info("quiet")
with traced("iceberg.append", table="a.b"):
    pass
"""


def run(setup: str) -> subprocess.CompletedProcess[str]:
    code = LIBRARY_USE.format(setup=setup)
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)


def test_as_a_library_floe_says_nothing_unless_asked():
    done = run("")
    assert (done.stdout, done.stderr) == ("", "")


def test_an_application_hears_floe_through_the_standard_library():
    done = run("logging.basicConfig(level=logging.INFO, format='%(name)s %(levelname)s %(message)s')")
    assert done.stdout == ""
    assert done.stderr.splitlines()[:2] == [
        "floe.core.test WARNING loud password='**********'",
        "floe.core.test INFO quiet",
    ]
    assert "floe INFO iceberg.append table='a.b' outcome='ok'" in done.stderr


def test_the_standard_librarys_levels_hold():
    done = run("logging.basicConfig(level=logging.DEBUG); logging.getLogger('floe').setLevel(logging.ERROR)")
    assert done.stderr == ""


def test_importing_telemetry_configures_nothing():
    code = (
        "import logging, structlog, floe_core.telemetry as t; t.get_logger('floe_core.x');"
        "assert not structlog.is_configured(); assert not logging.getLogger('floe').handlers"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_silent_operation_renders_nothing():
    class Costly:
        def __str__(self) -> str:
            message = "rendered although nobody listens"
            raise AssertionError(message)

    assert not structlog.is_configured()
    logging.getLogger("floe").setLevel(logging.ERROR)
    try:
        with traced("iceberg.append", table=Costly()):
            pass
    finally:
        logging.getLogger("floe").setLevel(logging.NOTSET)


def test_tracing_without_an_endpoint_does_nothing():
    configure_tracing(ObservabilityConfig())


def test_tracing_goes_to_the_configured_endpoint_only():
    code = """
from floe_core.schemas import ObservabilityConfig
from floe_core.observing.observability import configure_tracing
from floe_core.telemetry import traced
from opentelemetry import trace
from http.server import BaseHTTPRequestHandler, HTTPServer
import threading
seen = []
class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        seen.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200); self.end_headers()
    def log_message(self, *args): pass
server = HTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
config = ObservabilityConfig(otlp_endpoint=f"http://127.0.0.1:{server.server_port}/v1/traces", service_name="lake")
configure_tracing(config)
configure_tracing(config)
with traced("iceberg.append", table="a.b"): pass
trace.get_tracer_provider().force_flush()
(path, body), = seen
assert path == "/v1/traces" and b"iceberg.append" in body and b"lake" in body, seen
"""
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], check=True)


def test_time_is_measured_by_a_clock_that_only_goes_forward(monkeypatch):
    moments = iter([10.0, 10.25])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    with capture_logs() as logs, traced("iceberg.scan"):
        pass
    assert logs[0]["took_ms"] == 250.0
