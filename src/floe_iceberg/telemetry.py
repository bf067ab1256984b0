"""Public import path of logging and tracing; the implementation is in ``floe_core``."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_core.observing.observability import configure_tracing
    from floe_core.telemetry import Operation, configure_logging, get_logger, get_tracer, traced

__all__ = ["Operation", "configure_logging", "configure_tracing", "get_logger", "get_tracer", "traced"]

_HOMES = {
    "Operation": "floe_core.telemetry",
    "configure_logging": "floe_core.telemetry",
    "configure_tracing": "floe_core.observing.observability",
    "get_logger": "floe_core.telemetry",
    "get_tracer": "floe_core.telemetry",
    "traced": "floe_core.telemetry",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
