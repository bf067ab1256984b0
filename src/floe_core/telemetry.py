"""Logs for people and machines, spans for traces; no secret passes either."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from floe_core.errors import MissingDependencyError
from floe_core.redaction import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from opentelemetry.trace import Span, Tracer
    from structlog.typing import FilteringBoundLogger

    from floe_core.schemas import ObservabilityConfig

_ATTRIBUTE_PREFIX = "iceberg."


def get_logger(name: str) -> FilteringBoundLogger:
    """Return a structured logger."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def get_tracer(name: str) -> Tracer:
    """Return a tracer; it records nothing until the application installs an OpenTelemetry SDK."""
    return trace.get_tracer(name)


def redact_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Mask secrets in a log event; a structlog processor."""
    return {key: redact(value, key=key) for key, value in event.items()}


def configure_logging(config: ObservabilityConfig, *, stream: TextIO | None = None) -> None:
    """Send floe's logs to ``stream`` (standard error by default), for people or as JSON lines."""
    stream = stream or sys.stderr
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if config.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            # Last before rendering, so that a formatted traceback is masked as well.
            redact_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[config.log_level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def configure_tracing(config: ObservabilityConfig) -> None:
    """Send spans to the configured OTLP endpoint; without one, do nothing.

    Raises:
        MissingDependencyError: An endpoint is configured and the extra ``otel`` is not installed.
    """
    if config.otlp_endpoint is None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as err:
        what = "observability.otlp_endpoint"
        raise MissingDependencyError(what, extra="otel") from err
    provider = TracerProvider(resource=Resource.create({"service.name": config.service_name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=config.otlp_endpoint)))
    trace.set_tracer_provider(provider)


class Operation:
    """A traced operation under way; what is set on it ends up on the span and in the log."""

    def __init__(self, span: Span) -> None:
        """Wrap the span."""
        self._span = span
        self.fields: dict[str, Any] = {}

    def set(self, **attributes: Any) -> None:  # noqa: ANN401 - spans take several types
        """Record figures that are known only now; None is left out."""
        for key, value in attributes.items():
            if value is None:
                continue
            safe = redact(value, key=key)
            self.fields[key] = safe
            self._span.set_attribute(_ATTRIBUTE_PREFIX + key, _span_value(safe))


def _span_value(value: Any) -> str | bool | int | float:  # noqa: ANN401 - spans take several types
    return value if isinstance(value, str | bool | int | float) else redact_text(str(value))


@contextmanager
def traced(
    name: str,
    *,
    tracer: Tracer | None = None,
    logger: FilteringBoundLogger | None = None,
    **attributes: Any,  # noqa: ANN401 - spans take several types
) -> Iterator[Operation]:
    """Run a block as one span and one log line.

    Args:
        name: Span name, such as ``iceberg.append``.
        tracer: Tracer to use; the global one by default.
        logger: Logger to use; floe's own by default.
        attributes: Become ``iceberg.<key>`` on the span and fields of the log line.
    """
    tracer = tracer or get_tracer("floe")
    logger = logger or get_logger("floe")
    started = time.perf_counter()
    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
        operation = Operation(span)
        operation.set(**attributes)
        try:
            yield operation
        except BaseException as err:
            reason = redact_text(str(err))
            span.set_status(Status(StatusCode.ERROR, reason))
            span.set_attribute("error.type", type(err).__name__)
            logger.warning(name, outcome="failed", error=type(err).__name__, reason=reason, **operation.fields)
            raise
        took = round((time.perf_counter() - started) * 1000, 1)
        logger.info(name, outcome="ok", took_ms=took, **operation.fields)
