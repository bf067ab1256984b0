"""Retries reads of a catalog in a database or metastore after transient errors.

Changes are not retried: if the reply is lost, a change may have taken effect, so the caller must check.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from pyiceberg.catalog import Catalog

from floe_core.resilience.circuit_breaker import CircuitBreaker
from floe_core.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier, Properties

    from floe_core.schemas import CatalogConfig

T = TypeVar("T")

# Set during a retried call, whose nested calls are not retried separately.
_in_retried_call: ContextVar[bool] = ContextVar("floe_repeated_call", default=False)


def policy_for(config: CatalogConfig, *, address: str) -> RetryPolicy:
    """Return the retry policy configured in the ``catalog`` section.

    Args:
        config: The section.
        address: The catalog's address, shown in the circuit breaker's messages.
    """
    breaker = CircuitBreaker(config.circuit_breaker, name=f"catalog at {address}")
    return RetryPolicy(config.retry, timeouts=config.timeouts, breaker=breaker)


class RetriedReads(Catalog):
    """Retries the reads of a catalog."""

    retry_policy: RetryPolicy | None = None

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table."""
        return self._retried(super().load_table, identifier)  # type: ignore[safe-super]  # implemented by the next class in the MRO

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Return whether a table exists."""
        return self._retried(super().table_exists, identifier)  # type: ignore[safe-super]  # implemented by the next class in the MRO

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List the tables of a namespace."""
        return self._retried(super().list_tables, namespace)  # type: ignore[safe-super]  # implemented by the next class in the MRO

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """List the views of a namespace."""
        return self._retried(super().list_views, namespace)  # type: ignore[safe-super]  # implemented by the next class in the MRO

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """List the direct children of a namespace."""
        return self._retried(super().list_namespaces, namespace)  # type: ignore[safe-super]  # implemented by the next class in the MRO

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Return whether a namespace exists."""
        return self._retried(super().namespace_exists, namespace)  # type: ignore[safe-super]  # implemented by the next class in the MRO

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Return the properties of a namespace."""
        return self._retried(super().load_namespace_properties, namespace)  # type: ignore[safe-super]  # implemented by the next class in the MRO

    def _retried(self, call: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 - the arguments of the call
        if self.retry_policy is None or _in_retried_call.get():
            return call(*arguments)
        token = _in_retried_call.set(True)
        try:
            return self.retry_policy.call(call, *arguments)
        finally:
            _in_retried_call.reset(token)
