"""Authorizes a tenant like Polaris: by its privileges, and by the location of its namespace."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

from floe_testing.stand_ins.tenant_guard import TenantGuard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from floe_testing.faults.gateway import Exchange, FaultGateway

# The privileges that Polaris requires for requests that tenants may or may not be granted.
_REQUIRED = (
    ("POST", re.compile(r"/namespaces/[^/]+/properties$"), "NAMESPACE_WRITE_PROPERTIES"),
    ("POST", re.compile(r"/namespaces/[^/]+/views$"), "VIEW_CREATE"),
    ("POST", re.compile(r"/namespaces$"), "NAMESPACE_CREATE"),
    ("DELETE", re.compile(r"/namespaces/[^/]+$"), "NAMESPACE_DROP"),
    ("POST", re.compile(r"/namespaces/[^/]+/(?:tables|register)$"), "TABLE_CREATE"),
    ("POST", re.compile(r"/namespaces/[^/]+/tables/[^/]+$"), "TABLE_WRITE_DATA"),
    ("DELETE", re.compile(r"/namespaces/[^/]+/tables/[^/]+$"), "TABLE_DROP"),
)
_INCLUDED = {"NAMESPACE_FULL_METADATA": re.compile("NAMESPACE_.*"), "TABLE_FULL_METADATA": re.compile("TABLE_.*")}
_PATH_KEYS = frozenset({"write.data.path", "write.metadata.path"})
_TABLES = re.compile(r"/namespaces/[^/]+/(?:tables|register)")


class PrivilegeGuard(TenantGuard):
    """A guard that checks privileges, and that table locations are within the tenant's namespace."""

    def __init__(
        self, gateway: FaultGateway, namespace: Sequence[str], privileges: Iterable[str], *, separator: str = "."
    ) -> None:
        """Guard a gateway from now on.

        Args:
            gateway: Gateway in front of the catalog.
            namespace: The tenant's namespace.
            privileges: Privileges granted to the tenant's role in the namespace.
            separator: Separator between the parts of a namespace in URLs.
        """
        super().__init__(gateway, namespace, separator=separator)
        self._upstream = urllib.parse.urlunsplit(gateway.upstream).rstrip("/")
        self._privileges = frozenset(privileges)

    def _allows(self, exchange: Exchange) -> bool:
        return super()._allows(exchange) and self._is_granted(exchange) and self._is_placed(exchange)

    def _is_granted(self, exchange: Exchange) -> bool:
        return all(
            any(
                required == one or (one in _INCLUDED and _INCLUDED[one].fullmatch(required)) for one in self._privileges
            )
            for method, path, required in _REQUIRED
            if method == exchange.method and path.search(exchange.path)
        )

    def _is_placed(self, exchange: Exchange) -> bool:
        if exchange.method != "POST" or not exchange.body.startswith(b"{"):
            return True
        body = json.loads(exchange.body)
        if re.search(r"/namespaces$", exchange.path):
            # A child namespace must be at its parent's location.
            location = (body.get("properties") or {}).get("location")
            below = "/".join(body["namespace"][len(self.namespace) :])
            return location is None or location.rstrip("/") == f"{self._root()}/{below}"
        if _TABLES.search(exchange.path) is None:
            return True
        places = list(_places(body))
        return not places or all(_is_below(place, self._root()) for place in places)

    def _root(self) -> str:
        """Return the location of the tenant's namespace, which the reference server knows."""
        name = urllib.parse.quote(self._separator.join(self.namespace), safe="")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self._upstream}/v1/namespaces/{name}", timeout=30) as reply:
            return str(json.loads(reply.read())["properties"]["location"]).rstrip("/")


def _is_below(place: str, root: str) -> bool:
    dots = any(urllib.parse.unquote(part) in {".", ".."} for part in place.split("/"))
    return not dots and (place.rstrip("/") == root or place.startswith(f"{root}/"))


def _places(body: dict[str, Any]) -> Iterator[str]:
    """Yield all locations that a request would make a table use."""
    for update in (body, *body.get("updates", [])):
        yield from (update[key] for key in ("location", "metadata-location") if isinstance(update.get(key), str))
        changed = update.get("properties") or update.get("updates")
        if isinstance(changed, dict):
            yield from (place for key, place in changed.items() if key in _PATH_KEYS)
