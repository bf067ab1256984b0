"""Authorizes a tenant like a catalog would: for its own namespace and everything below it."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from floe_testing.faults.gateway import TOKEN_PATH, Exchange, FaultGateway, Reply, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPEN = re.compile(rf"/v1/config$|{TOKEN_PATH}")
_NAMESPACES = re.compile(r"/v1/(?:[^/]+/)?namespaces(?:/(?P<namespace>[^/]+)(?:/.*)?)?$")


class TenantGuard:
    """Refuses requests outside one namespace in a gateway, like Polaris.

    Attributes:
        namespace: The tenant's namespace.
        refused: The refused requests.
    """

    def __init__(self, gateway: FaultGateway, namespace: Sequence[str], *, separator: str = ".") -> None:
        """Guard a gateway from now on.

        Args:
            gateway: Gateway in front of the catalog.
            namespace: The tenant's namespace.
            separator: Separator between the parts of a namespace in URLs, from the catalog's configuration; defaults to
                the reference server's.
        """
        self.namespace = tuple(namespace)
        self._separator = separator
        self.refused: list[Exchange] = []
        self._lock = threading.Lock()
        gateway.chaos = self

    def __call__(self, exchange: Exchange) -> Rule | None:
        """Return a rule that refuses the request, or None to allow it."""
        if self._allows(exchange):
            return None
        with self._lock:
            self.refused.append(exchange)
        message = f"Principal 'tenant' is not authorized for {exchange.method} {exchange.path}"
        content = {"error": {"message": message, "type": "ForbiddenException", "code": 403}}
        return Rule(".*", "", None, forward=False, reply=Reply.of(403, content))

    @property
    def refused_calls(self) -> list[str]:
        """The refused requests as ``METHOD path``."""
        with self._lock:
            return [f"{exchange.method} {unquote(exchange.path)}" for exchange in self.refused]

    def _allows(self, exchange: Exchange) -> bool:
        if _OPEN.search(exchange.path):
            return True
        found = _NAMESPACES.search(exchange.path)
        if found is None:
            # Renames and transactions name their tables in the body.
            named = list(_namespaces_in(json.loads(exchange.body or b"null")))
            return bool(named) and all(map(self._owns, named))
        if found["namespace"] is not None:
            return self._owns(unquote(found["namespace"]).split(self._separator))
        if exchange.method == "POST":
            return self._owns(json.loads(exchange.body)["namespace"][:-1])
        return self._owns(parse_qs(exchange.query).get("parent", [""])[0].split(self._separator))

    def _owns(self, parts: Sequence[str]) -> bool:
        return tuple(parts[: len(self.namespace)]) == self.namespace


def _namespaces_in(content: Any) -> list[list[str]]:
    """Return all namespaces in a request body, at any depth."""
    if isinstance(content, dict):
        own = content.get("namespace")
        return ([own] if isinstance(own, list) else []) + [
            one for value in content.values() for one in _namespaces_in(value)
        ]
    if isinstance(content, list):
        return [one for value in content for one in _namespaces_in(value)]
    return []
