"""Structured logs and trace spans, with secrets masked in both.

As a library, floe is silent by default: until the application configures structlog (for example with
``configure_logging``), events go to the standard library's logger ``floe``, which drops them unless the application
adds a handler. ``observability`` sends logs and spans to the targets configured in floe.yaml.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
import traceback
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation import tracecontext as trace_context

from floe_core.errors import FloeStorageError
from floe_core.observing.redaction import redact, redact_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer
    from structlog.typing import FilteringBoundLogger

    from floe_core.schemas import ObservabilityConfig

# Prefixes of span attributes by the first part of an operation's name; the default is "iceberg.".
_PREFIXES = {"dagster": "dagster.", "floe": "floe."}

# Spans inside an operation use the operation's tracer.
_tracer_in_use: ContextVar[Tracer | None] = ContextVar("floe_tracer", default=None)
wanted_span_id: ContextVar[int | None] = ContextVar("floe_span_id", default=None)
"""The id for the next span of this context."""
# The parent spans of this process, for threads that do not inherit a context.
_process_parents: list[Context] = []


class Logger:
    """A structured logger that masks secrets itself, independently of the application's log configuration."""

    __slots__ = ("_context", "_name")

    def __init__(self, name: str, context: Mapping[str, Any] | None = None) -> None:
        """Bind fields to every event."""
        self._name = name
        self._context = dict(context or {})

    def bind(self, **fields: Any) -> Logger:  # noqa: ANN401 - events take any value
        """Return a logger that adds these fields to its events."""
        return Logger(self._name, {**self._context, **fields})

    def debug(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log details for developers of floe."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log a normal event."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log an event that may need attention."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log a failure."""
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - events take any value
        """Log a failure with the traceback of the exception being handled."""
        self._log(logging.ERROR, event, {"exc_info": True, **fields})

    def is_enabled_for(self, level: int) -> bool:
        """Whether events of this level are emitted."""
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
        # Formatted here because a later processor would not mask secrets.
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
    """Return a tracer; it records no spans until the application installs an OpenTelemetry SDK."""
    return trace.get_tracer(name)


@functools.cache
def _floe_tracer() -> Tracer:
    return get_tracer("floe")


_FLOE = get_logger("floe")


def redact_event(_logger: object, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Mask secrets in a log event; a structlog processor."""
    return {key: redact(value, key=key) for key, value in event.items()}


def name_trace(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the ids of the current trace and span to an event; a structlog processor."""
    span = trace.get_current_span(_parent()).get_span_context()
    if span.is_valid:
        event["trace_id"] = trace.format_trace_id(span.trace_id)
        event["span_id"] = trace.format_span_id(span.span_id)
    return event


def configure_logging(config: ObservabilityConfig, *, stream: TextIO | None = None) -> None:
    """Send floe's logs to ``stream`` (standard error by default), as readable text or JSON lines."""
    stream = stream or sys.stderr
    level = config.log_level or "INFO"
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
            name_trace,
            structlog.processors.format_exc_info,
            # Last before rendering, for events that do not come from floe's own logger.
            redact_event,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def is_tracing() -> bool:
    """Whether spans are recorded: an OpenTelemetry SDK is installed, or a caller uses its own tracer."""
    return _has_sdk() or trace.get_current_span().get_span_context().is_valid


def _has_sdk() -> bool:
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


@contextmanager
def process_span(span: Span) -> Iterator[None]:
    """Make a span the parent of all operations of this process during the block, in all threads."""
    parent = trace.set_span_in_context(span)
    token = otel_context.attach(parent)
    _process_parents.append(parent)
    try:
        yield
    finally:
        _process_parents.remove(parent)
        otel_context.detach(token)


def join_process(parent: Context) -> None:
    """Make a span of another process the parent of this process's root spans until it ends."""
    if _parent() is None and not trace.get_current_span().get_span_context().is_valid:
        _process_parents.append(parent)


def request_headers() -> dict[str, str]:
    """Return the headers that pass the current span to a server, in W3C format; empty without a current span."""
    headers: dict[str, str] = {}
    trace_context.TraceContextTextMapPropagator().inject(headers, _parent())
    return headers


def _parent() -> Context | None:
    """Return the parent context from ``process_span`` or ``join_process``; None if there is a current span."""
    if not _process_parents or trace.get_current_span().get_span_context().is_valid:
        return None
    return _process_parents[-1]


class Operation:
    """A traced operation in progress; its attributes are added to the span and the log event.

    Attributes:
        span: The span.
        failure: Why the operation failed without an exception; None if it did not.
        fields: The attributes set so far.
    """

    def __init__(self, span: Span, prefix: str = "iceberg.") -> None:
        """Wrap the span; its attributes start with the prefix."""
        self.span = span
        self.failure: str | None = None
        self.fields: dict[str, Any] = {}
        self._prefix = prefix

    def set(self, **attributes: Any) -> None:  # noqa: ANN401 - spans take several types
        """Set attributes; None values are ignored."""
        known = {key: value for key, value in attributes.items() if value is not None}
        self.fields.update(known)
        if self.span.is_recording():
            for key, value in known.items():
                self.span.set_attribute(self._prefix + key, _span_value(redact(value, key=key)))

    def fail(self, reason: str) -> None:
        """Mark the operation as failed without an exception."""
        self.failure = redact_text(reason)
        self.span.set_status(Status(StatusCode.ERROR, self.failure))


def _span_value(value: Any) -> Any:  # noqa: ANN401 - spans take several types
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list):
        return [str(item) for item in value]
    return str(value)


@contextmanager
def traced(  # noqa: PLR0913 - options by keyword
    name: str,
    *,
    tracer: Tracer | None = None,
    logger: Logger | FilteringBoundLogger | None = None,
    within: bool = False,
    started: int | None = None,
    span_id: int | None = None,
    **attributes: Any,  # noqa: ANN401 - spans take several types
) -> Iterator[Operation]:
    """Run a block as one span and one log event.

    floe's own errors are logged as warnings; all other errors are logged with their traceback.

    Args:
        name: Span name, such as ``iceberg.append``.
        tracer: Tracer to use; by default that of the enclosing operation, or the global tracer.
        logger: Logger to use; floe's own by default.
        within: Whether this is part of another operation, which is logged instead.
        started: Start time of the span, in nanoseconds since 1970; now by default.
        span_id: Id of the span, if floe configured the tracing; random by default.
        attributes: Become ``iceberg.<key>`` on the span, or ``dagster.<key>`` on spans of Dagster, and fields of the
            log event.
    """
    tracer = tracer or _tracer_in_use.get() or _floe_tracer()
    logger = logger or _FLOE
    clock = time.perf_counter()
    unseen = isinstance(tracer, trace.ProxyTracer) and not _has_sdk()
    with _NO_SPAN if unseen else _current_span(tracer, name, started, span_id) as span:
        operation = Operation(span, _PREFIXES.get(name.partition(".")[0], "iceberg."))
        operation.set(**attributes)
        try:
            yield operation
        except BaseException as err:
            reason = _mark_failed(span, err)
            if not within:
                _log_failure(name, logger, operation, err, reason)
            raise
        if not within:
            took = round((time.perf_counter() - clock) * 1000, 1)
            outcome = "ok" if operation.failure is None else "failed"
            logger.info(name, **{**operation.fields, "outcome": outcome, "took_ms": took})


# Without an SDK, spans cost nothing.
_NO_SPAN = nullcontext(trace.INVALID_SPAN)


@contextmanager
def _current_span(tracer: Tracer, name: str, started: int | None, span_id: int | None) -> Iterator[Span]:
    token = _tracer_in_use.set(tracer)
    try:
        wanted = wanted_span_id.set(span_id)
        try:
            span = tracer.start_span(
                name, _parent(), start_time=started, record_exception=False, set_status_on_exception=False
            )
        finally:
            wanted_span_id.reset(wanted)
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield span
    finally:
        # Another thread, with its own context, may close a generator that has an open operation.
        with suppress(ValueError):
            _tracer_in_use.reset(token)


def _mark_failed(span: Span, err: BaseException) -> str:
    reason = redact_text(str(err)) or type(err).__name__
    span.set_status(Status(StatusCode.ERROR, reason))
    span.set_attribute("error.type", type(err).__name__)
    return reason


def _log_failure(
    name: str, logger: Logger | FilteringBoundLogger, operation: Operation, err: BaseException, reason: str
) -> None:
    fields = {**operation.fields, "outcome": "failed", "error": type(err).__name__, "reason": reason}
    if isinstance(err, FloeStorageError) or not isinstance(err, Exception):
        logger.warning(name, **fields)
    else:
        logger.error(name, exc_info=err, **fields)
