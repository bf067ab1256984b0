"""Send logs, spans and metrics as configured in floe.yaml, in every process that works on a project."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import structlog
from opentelemetry import trace

from floe_core.declaration.expansion import expand_section
from floe_core.errors import MissingDependencyError
from floe_core.resilience.deadline import BackgroundCall
from floe_core.telemetry import (
    configure_logging,
    get_logger,
    join_process,
    process_span,
    request_headers,
    wanted_span_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import requests
    from opentelemetry.context import Context
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter

    from floe_core.schemas import ObservabilityConfig

TRACE_PARENT_VARIABLE = "TRACEPARENT"
"""The parent span of a process, in W3C format."""
LOG_LEVEL_VARIABLE = "FLOE_LOG_LEVEL"
"""Minimum log level of processes that a command starts; takes precedence over floe.yaml."""

Exporter = TypeVar("Exporter", bound="SpanExporter | MetricExporter")
T = TypeVar("T")

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_ENDPOINT = "observability.otlp_endpoint"
_EXPORT_SECONDS = 3
_PAUSE_SECONDS = 30.0
_EXPORTER_VARIABLES = "OTEL_PYTHON_EXPORTER_OTLP_HTTP_"
_SIGNALS = ("v1/traces", "v1/metrics")
_log = get_logger("floe.observability")


def configure_observability(config: ObservabilityConfig) -> None:
    """Send logs, spans and metrics as configured, without overriding the application's own configuration.

    A second call, or a call with nothing configured, has no effect.

    Raises:
        MissingDependencyError: An endpoint is configured and the extra ``otel`` is not installed.
    """
    level = os.environ.get(LOG_LEVEL_VARIABLE, "").upper()
    if level not in _LEVELS:
        level = ""
    if (level or config.log_level or config.log_format) and not structlog.is_configured():
        configure_logging(config.model_copy(update={"log_level": level}) if level else config)
    if config.otlp_endpoint is not None:
        config = expand_section(config, path="observability")
        configure_tracing(config)
        configure_metrics(config)


def configure_tracing(config: ObservabilityConfig) -> None:
    """Send spans to the configured OTLP endpoint; without an endpoint, or if the application has an SDK, do nothing.

    Raises:
        MissingDependencyError: An endpoint is configured and the extra ``otel`` is not installed.
    """
    if config.otlp_endpoint is None or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    with _extra_required():
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class ChosenIds(RandomIdGenerator):
        def generate_span_id(self) -> int:
            return wanted_span_id.get() or super().generate_span_id()

    provider = TracerProvider(resource=_resource(config), id_generator=ChosenIds())
    exporter = OTLPSpanExporter(
        endpoint=_signal_url(config.otlp_endpoint, "v1/traces"), timeout=_EXPORT_SECONDS, session=_session()
    )
    provider.add_span_processor(BatchSpanProcessor(_with_pauses(exporter, SpanExportResult.FAILURE)))
    trace.set_tracer_provider(provider)


def configure_metrics(config: ObservabilityConfig) -> None:
    """Send metrics to the configured OTLP endpoint; without an endpoint, or if the application has an SDK, do nothing.

    Raises:
        MissingDependencyError: An endpoint is configured and the extra ``otel`` is not installed.
    """
    if config.otlp_endpoint is None:
        return
    from opentelemetry import metrics

    # The API has no public name for its placeholder provider.
    if type(metrics.get_meter_provider()).__name__ != "_ProxyMeterProvider":
        return
    with _extra_required():
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
    exporter = OTLPMetricExporter(
        endpoint=_signal_url(config.otlp_endpoint, "v1/metrics"), timeout=_EXPORT_SECONDS, session=_session()
    )
    reader = PeriodicExportingMetricReader(_with_pauses(exporter, MetricExportResult.FAILURE))
    metrics.set_meter_provider(MeterProvider([reader], resource=_resource(config)))


def flush_observability() -> None:
    """Send everything recorded so far; give up on an unresponsive collector after a few seconds."""
    providers: list[Any] = [trace.get_tracer_provider()]
    if not isinstance(providers[0], trace.ProxyTracerProvider):
        from opentelemetry import metrics

        providers.append(metrics.get_meter_provider())
    for provider in providers:
        if (flush := getattr(provider, "force_flush", None)) is not None:
            flush(_EXPORT_SECONDS * 1000)


@dataclass
class Receiver:
    """A receiver of this process's telemetry; after a failure, delivery pauses for a while.

    Attributes:
        setting: The setting that configures it.
        paused_until: Time of the next attempt, as ``time.monotonic``.
        lost: Whether anything could not be delivered.
        answer: Its last response, if known.
    """

    setting: str
    paused_until: float = 0.0
    lost: bool = False
    answer: str | None = None
    _late: BackgroundCall[Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, setting: str) -> Receiver:
        """Return the receiver configured by a setting; all senders share it."""
        return _receivers.setdefault(setting, cls(setting))

    @property
    def paused(self) -> bool:
        """Whether delivery is paused."""
        return time.monotonic() < self.paused_until

    def take(self, deliver: Callable[[], T], *, seconds: float) -> T:
        """Deliver data and wait a limited time for the complete response.

        Raises:
            TimeoutError: The response was not complete in time, or the previous delivery is still in progress.
        """
        if self._late is not None and not self._late.finished:
            raise TimeoutError
        call = BackgroundCall(deliver, name=f"floe-{self.setting}")
        if not call.wait(seconds):
            self._late = call
            raise TimeoutError
        return call.result()

    def failed(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Pause deliveries, so a run does not wait for it repeatedly, and log the failure once."""
        self.paused_until = time.monotonic() + _PAUSE_SECONDS
        if not self.lost:
            self.lost = True
            _log.warning(event, **fields)


_receivers: dict[str, Receiver] = {}


def lost_receivers() -> list[str]:
    """Return the settings of receivers to which data could not be delivered."""
    return [receiver.setting for receiver in _receivers.values() if receiver.lost]


def trace_parent() -> str | None:
    """Return the current span in W3C format, for another process; None if there is no current span."""
    return request_headers().get("traceparent")


@contextmanager
def continued(parent: str | None) -> Iterator[None]:
    """Use a span of another process as parent in the block, unless there is already a current span."""
    if parent is None or trace.get_current_span().get_span_context().is_valid:
        yield
        return
    with process_span(trace.get_current_span(_context_of(parent))):
        yield


def join(parent: str | None) -> None:
    """Use a span of another process as parent until this process ends, unless there is already a current span."""
    if parent is not None:
        join_process(_context_of(parent))


def _context_of(parent: str) -> Context:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


@contextmanager
def propagated() -> Iterator[None]:
    """Pass the current span to processes started in the block."""
    parent, before = trace_parent(), os.environ.get(TRACE_PARENT_VARIABLE)
    if parent is None:
        yield
        return
    os.environ[TRACE_PARENT_VARIABLE] = parent
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(TRACE_PARENT_VARIABLE, None)
        else:
            os.environ[TRACE_PARENT_VARIABLE] = before


def inherited_parent() -> str | None:
    """Return the parent span of this process in W3C format; None if it has none."""
    return os.environ.get(TRACE_PARENT_VARIABLE) or None


def _signal_url(endpoint: str, signal: str) -> str:
    """Return the address for a signal: collectors have one path per signal below a common base."""
    scheme, place, path, query, _ = urlsplit(endpoint)
    base = path.strip("/")
    for known in _SIGNALS:
        base = base.removesuffix(known).strip("/")
    return urlunsplit((scheme, place, f"/{base}/{signal}" if base else f"/{signal}", query, ""))


@contextmanager
def _extra_required() -> Iterator[None]:
    try:
        yield
    except ImportError as err:
        raise MissingDependencyError(_ENDPOINT, extra="otel") from err


def _resource(config: ObservabilityConfig) -> Resource:
    from opentelemetry.sdk.resources import Resource

    return Resource.create(
        {
            "service.name": config.service_name,
            # A run has several processes, each with its own counters.
            "service.instance.id": str(uuid.uuid4()),
            "process.pid": os.getpid(),
            "host.name": socket.gethostname(),
        }
    )


def _session() -> requests.Session | None:
    """Return the session for an exporter; None if OpenTelemetry's own variables configure one.

    An exporter treats a redirect as success although it does not follow it, and does not expose other responses.
    """
    import requests

    if any(name.startswith(_EXPORTER_VARIABLES) and name.endswith("_CREDENTIAL_PROVIDER") for name in os.environ):
        return None

    def check_response(response: requests.Response, *_: object, **__: object) -> None:
        Receiver.of(_ENDPOINT).answer = f"HTTP {response.status_code}"
        if 300 <= response.status_code < 400:  # noqa: PLR2004 - redirections
            raise requests.TooManyRedirects(response=response)

    session = requests.Session()
    session.hooks["response"].append(check_response)
    return session


def _quiet(_record: logging.LogRecord) -> bool:
    """Drop an exporter's own log records: they repeat what the event ``telemetry_not_sent`` contains."""
    return False


def _with_pauses(exporter: Exporter, failure: object) -> Exporter:
    """Make an exporter pause after a failed delivery."""
    logger = logging.getLogger(type(exporter).__module__)
    if _quiet not in logger.filters:
        # First, so no other filter sees the record.
        logger.filters.insert(0, _quiet)
    export: Callable[..., object] = exporter.export
    receiver = Receiver.of(_ENDPOINT)

    def export_unless_paused(*batch: Any, **options: Any) -> object:  # noqa: ANN401 - the arguments differ per signal
        if receiver.paused:
            return failure
        receiver.answer = None
        try:
            result = receiver.take(lambda: export(*batch, **options), seconds=_EXPORT_SECONDS)
        except TimeoutError:
            result = failure
        if result is failure:
            receiver.failed("telemetry_not_sent", answer=receiver.answer or "none")
        return result

    vars(exporter)["export"] = export_unless_paused
    return exporter
