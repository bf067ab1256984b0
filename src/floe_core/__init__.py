"""Configuration, plugin contracts, errors, resilience and telemetry: the foundation of every part of floe.

Names are imported on first use, so importing this package is cheap.
"""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_core.errors import FloeStorageError, TransientError
    from floe_core.governance import PolicyEnforcer, RetentionDays
    from floe_core.observing.observability import configure_observability, configure_tracing
    from floe_core.plugins import PluginRegistry, PluginType, default_registry
    from floe_core.retry import CircuitBreaker, Deadline, RetryPolicy, create_retry_decorator
    from floe_core.schemas import CompiledArtifacts
    from floe_core.telemetry import configure_logging, get_logger, traced

__all__ = [
    "CircuitBreaker",
    "CompiledArtifacts",
    "Deadline",
    "FloeStorageError",
    "PluginRegistry",
    "PluginType",
    "PolicyEnforcer",
    "RetentionDays",
    "RetryPolicy",
    "TransientError",
    "configure_logging",
    "configure_observability",
    "configure_tracing",
    "create_retry_decorator",
    "default_registry",
    "get_logger",
    "traced",
]

_HOMES = {
    "CircuitBreaker": "floe_core.retry",
    "CompiledArtifacts": "floe_core.schemas",
    "Deadline": "floe_core.retry",
    "FloeStorageError": "floe_core.errors",
    "PluginRegistry": "floe_core.plugins",
    "PluginType": "floe_core.plugins",
    "PolicyEnforcer": "floe_core.governance",
    "RetentionDays": "floe_core.governance",
    "RetryPolicy": "floe_core.retry",
    "TransientError": "floe_core.errors",
    "configure_logging": "floe_core.telemetry",
    "configure_observability": "floe_core.observing.observability",
    "configure_tracing": "floe_core.observing.observability",
    "create_retry_decorator": "floe_core.retry",
    "default_registry": "floe_core.plugins",
    "get_logger": "floe_core.telemetry",
    "traced": "floe_core.telemetry",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
