"""Logs for people and machines, spans for traces; no secret passes either.

As a library floe is quiet: until the application configures structlog (``configure_logging`` does), events go to the
standard library's logger ``floe``, which drops them unless the application asks for it.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from floe_core.errors import FloeStorageError, MissingDependencyError
from floe_core.redaction import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from opentelemetry.trace import Span, Tracer
    from structlog.typing import FilteringBoundLogger

    from floe_core.schemas import ObservabilityConfig

_ATTRIBUTE_PREFIX = "iceberg."
_EXPORT_SECONDS = 5


class Logger:
    """A structured logger that masks secrets itself, whatever the application does with its events."""

    __slots__ = ("_context", "_name")

    def __init__(self, name: str, context: Mapping[str, Any] | None = None) -> None:
        """Bind fields that every event carries."""
        self._name = name
        self._context = dict(context or {})

    def bind(self, **fields: Any) -> Logger:  # noqa: ANN401 - events take any value
        """Return a logger whose events carry these fields as well."""
        return Logger(self._name, {**self._context, **fields})

    def debug(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log what only a developer of floe wants to know."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log what happened."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log what somebody may have to look at."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log a failure."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log a failure with the traceback of the exception being handled."""
        self._log(logging.ERROR, event, {"exc_info": True, **fields})

    def is_enabled_for(self, level: int) -> bool:
        """Whether an event of this level goes anywhere."""
        if not structlog.is_configured():
            return _stdlib_logger(self._name).isEnabledFor(level)
        bound = structlog.get_logger(self._name).bind()
        enabled = getattr(bound, "is_enabled_for", None)
        return bool(enabled(level)) if enabled else True

    def _log(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        if not self.is_enabled_for(level):
            return
        safe = _safe_fields({**self._context, **fields})
        if structlog.is_configured():
            getattr(structlog.get_logger(self._name), logging.getLevelName(level).lower())(event, **safe)
            return
        trace_text = safe.pop("exception", "")
        pairs = " ".join([event, *(f"{key}={value!r}" for key, value in safe.items())])
        _stdlib_logger(self._name).log(level, "%s", f"{pairs}\n{trace_text}" if trace_text else pairs)


def _safe_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    safe = {key: redact(value, key=key) for key, value in fields.items() if key != "exc_info"}
    if given := fields.get("exc_info"):
        # Formatted here rather than by a later processor, which would not know what to mask.
        err = given if isinstance(given, BaseException) else sys.exc_info()[1]
        safe["exception"] = redact_text("".join(traceback.format_exception(err)).rstrip()) if err else ""
    return safe


@functools.cache
def _stdlib_logger(name: str) -> logging.Logger:
    root = logging.getLogger("floe")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return root if name == "floe" else root.getChild(name.removeprefix("floe_"))


def get_logger(name: str) -> Logger:
    """Return a structured logger."""
    return Logger(name)


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
            # Last before rendering, for events that did not come through floe's own logger.
            redact_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[config.log_level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def configure_tracing(config: ObservabilityConfig) -> None:
    """Send spans to the configured OTLP endpoint; without one, or when the application has its own SDK, do nothing.

    Raises:
        MissingDependencyError: An endpoint is configured and the extra ``otel`` is not installed.
    """
    if config.otlp_endpoint is None or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
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
    exporter = OTLPSpanExporter(endpoint=config.otlp_endpoint, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


class Operation:
    """A traced operation under way; what is set on it ends up on the span and in the log."""

    def __init__(self, span: Span) -> None:
        """Wrap the span."""
        self._span = span
        self.fields: dict[str, Any] = {}

    def set(self, **attributes: Any) -> None:  # noqa: ANN401 - spans take several types
        """Record figures that are known only now; None is left out."""
        known = {key: value for key, value in attributes.items() if value is not None}
        self.fields.update(known)
        if self._span.is_recording():
            for key, value in known.items():
                self._span.set_attribute(_ATTRIBUTE_PREFIX + key, _span_value(redact(value, key=key)))


def _span_value(value: Any) -> Any:  # noqa: ANN401 - spans take several types
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list):
        return [str(item) for item in value]
    return str(value)


@contextmanager
def traced(
    name: str,
    *,
    tracer: Tracer | None = None,
    logger: Logger | FilteringBoundLogger | None = None,
    **attributes: Any,  # noqa: ANN401 - spans take several types
) -> Iterator[Operation]:
    """Run a block as one span and one log line.

    An error floe raises on purpose is logged as a warning; any other one is logged with its traceback.

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
            _fail(name, span, logger, operation, err)
            raise
        took = round((time.perf_counter() - started) * 1000, 1)
        logger.info(name, **{**operation.fields, "outcome": "ok", "took_ms": took})


def _fail(
    name: str, span: Span, logger: Logger | FilteringBoundLogger, operation: Operation, err: BaseException
) -> None:
    kind, reason = type(err).__name__, redact_text(str(err))
    span.set_status(Status(StatusCode.ERROR, reason))
    span.set_attribute("error.type", kind)
    fields = {**operation.fields, "outcome": "failed", "error": kind, "reason": reason}
    if isinstance(err, FloeStorageError) or not isinstance(err, Exception):
        logger.warning(name, **fields)
    else:
        logger.error(name, exc_info=err, **fields)
