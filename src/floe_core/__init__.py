"""Configuration, plugin contracts, errors, resilience and telemetry: what every part of floe stands on.

Names are imported when they are first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from floe_core.errors import FloeStorageError, TransientError
    from floe_core.governance import PolicyEnforcer, RetentionDays
    from floe_core.plugins import PluginRegistry, PluginType, default_registry
    from floe_core.retry import CircuitBreaker, Deadline, RetryPolicy, create_retry_decorator
    from floe_core.schemas import CompiledArtifacts
    from floe_core.telemetry import configure_logging, configure_tracing, get_logger, traced

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
    "configure_tracing",
    "create_retry_decorator",
    "default_registry",
    "get_logger",
    "traced",
]

_HOMES = {
    "CircuitBreaker": "retry",
    "CompiledArtifacts": "schemas",
    "Deadline": "retry",
    "FloeStorageError": "errors",
    "PluginRegistry": "plugins",
    "PluginType": "plugins",
    "PolicyEnforcer": "governance",
    "RetentionDays": "governance",
    "RetryPolicy": "retry",
    "TransientError": "errors",
    "configure_logging": "telemetry",
    "configure_tracing": "telemetry",
    "create_retry_decorator": "retry",
    "default_registry": "plugins",
    "get_logger": "telemetry",
    "traced": "telemetry",
}


def __getattr__(name: str) -> object:
    """Import a public name from its module."""
    if home := _HOMES.get(name):
        return getattr(import_module(f"floe_core.{home}"), name)
    msg = f"module 'floe_core' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the public names."""
    return __all__
