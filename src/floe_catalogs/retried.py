"""Calls to a database or metastore that are repeated when it fails for a passing reason.

Only calls that look are repeated, and the opening of a connection. A call that changes something may have done so
before its answer was lost: whoever makes it finds out by looking.
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

# A call that is repeated as a whole does not repeat its parts as well.
_repeated: ContextVar[bool] = ContextVar("floe_repeated_call", default=False)


def policy_for(config: CatalogConfig, *, place: str) -> RetryPolicy:
    """Return the policy that the ``catalog`` section asks for.

    Args:
        config: The section.
        place: Where the catalog is, for messages of the breaker.
    """
    breaker = CircuitBreaker(config.circuit_breaker, name=f"catalog at {place}")
    return RetryPolicy(config.retry, timeouts=config.timeouts, breaker=breaker)


class RetriedReads(Catalog):
    """Repeats the calls of a catalog that only look."""

    retry_policy: RetryPolicy | None = None

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table."""
        return self._looked(super().load_table, identifier)  # type: ignore[safe-super]  # the class beside it has one

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Tell whether a table is there."""
        return self._looked(super().table_exists, identifier)  # type: ignore[safe-super]  # the class beside it has one

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List the tables of a namespace."""
        return self._looked(super().list_tables, namespace)  # type: ignore[safe-super]  # the class beside it has one

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """List the views of a namespace."""
        return self._looked(super().list_views, namespace)  # type: ignore[safe-super]  # the class beside it has one

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """List the namespaces below one."""
        return self._looked(super().list_namespaces, namespace)  # type: ignore[safe-super]  # the class beside it has one

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Tell whether a namespace is there."""
        return self._looked(super().namespace_exists, namespace)  # type: ignore[safe-super]  # the class beside it has one

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Return the properties of a namespace."""
        return self._looked(super().load_namespace_properties, namespace)  # type: ignore[safe-super]  # the class beside it has one

    def _looked(self, call: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 - those of the call
        if self.retry_policy is None or _repeated.get():
            return call(*arguments)
        token = _repeated.set(True)
        try:
            return self.retry_policy.call(call, *arguments)
        finally:
            _repeated.reset(token)
