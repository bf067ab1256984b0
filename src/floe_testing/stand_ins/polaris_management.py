"""A server that emulates Polaris's management API, for machines without Polaris.

It stores principals, roles and grants, returns each secret once, and refuses what Polaris refuses. It enforces no
privileges; only tests against Polaris show that a tenant's token is limited to its namespace.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

_MANAGEMENT = "/api/management/v1/"
_TOKENS = "/api/catalog/v1/oauth/tokens"


@dataclass
class ManagementState:
    """The state of the server.

    Attributes:
        catalogs: Properties of catalogs that tests have created or set.
        storage: Storage configuration by catalog.
        principals: Client secret by principal.
        principal_roles: Catalog roles by principal role.
        catalog_roles: Grants by catalog and catalog role.
        assigned: Principal roles by principal.
        calls: All calls as ``METHOD path``, in order.
        dies_at: The call from which on the server no longer responds; None to always respond.
    """

    catalogs: dict[str, dict[str, str]] = field(default_factory=dict)
    storage: dict[str, dict[str, Any]] = field(default_factory=dict)
    principals: dict[str, str] = field(default_factory=dict)
    principal_roles: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    catalog_roles: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    assigned: dict[str, set[str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    dies_at: str | None = None


class PolarisManagementServer:
    """Runs on a free loopback port during a ``with`` block."""

    def __init__(self) -> None:
        """Create a server without any entities."""
        self.state = ManagementState()
        self._lock = Lock()
        self._died = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def uri(self) -> str:
        """Address of the catalog."""
        return f"http://127.0.0.1:{self._server.server_port}/api/catalog"

    def __enter__(self) -> Self:
        """Start the server."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def is_dead(self, call: str) -> bool:
        """Whether the server stopped responding at this call or before."""
        with self._lock:
            self._died = self._died or call == self.state.dies_at
            return self._died and self.state.dies_at is not None

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: PLR0911 - one return per call
        """Handle a call of the management API."""
        parts = [unquote(part) for part in path.split("/")]
        with self._lock:
            self.state.calls.append(f"{method} {path}")
            match method, parts:
                case "GET", ["catalogs"]:
                    names = sorted({*self.state.catalogs, *(catalog for catalog, _ in self.state.catalog_roles)})
                    return 200, {"catalogs": [{"name": name} for name in names]}
                case "POST", ["catalogs"]:
                    return self._create_catalog(body["catalog"])
                case "GET", ["catalogs", name] if name in self.state.catalogs:
                    storage = {"storageConfigInfo": self.state.storage.get(name, {})}
                    return 200, {"name": name, "type": "INTERNAL", "properties": self.state.catalogs[name], **storage}
                case _, ["principals", *rest]:
                    return self._principals(method, rest, body)
                case _, ["principal-roles", *rest]:
                    return self._principal_roles(method, rest, body)
                case _, ["catalogs", catalog, "catalog-roles", *rest]:
                    return self._catalog_roles(method, catalog, rest, body)
        return _error(404, "no such path")

    def _create_catalog(self, catalog: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        name = catalog["name"]
        if name in self.state.catalogs:
            return _error(409, f"Catalog {name} already exists")
        self.state.catalogs[name] = catalog["properties"]
        self.state.storage[name] = catalog["storageConfigInfo"]
        self.state.catalog_roles[name, "catalog_admin"] = [{"type": "catalog", "privilege": "CATALOG_MANAGE_ACCESS"}]
        return 201, catalog

    def _principals(self, method: str, rest: list[str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: PLR0911 - one return per call
        state = self.state
        match method, rest:
            case "GET", []:
                return 200, {"principals": [{"name": name} for name in state.principals]}
            case "POST", []:
                name = body["principal"]["name"]
                return (
                    _error(409, f"Principal {name} already exists") if name in state.principals else self._secret(name)
                )
            case _, [name, *_] if name not in state.principals:
                return _error(404, f"Principal {name} does not exist")
            case "POST", [name, "reset"]:
                return self._secret(name)
            case "GET", [name, "principal-roles"]:
                return 200, {"roles": [{"name": role} for role in sorted(state.assigned.get(name, ()))]}
            case "PUT", [name, "principal-roles"]:
                role = body["principalRole"]["name"]
                if role not in state.principal_roles:
                    return _error(404, f"Principal role {role} does not exist")
                state.assigned.setdefault(name, set()).add(role)
                return 201, {}
            case "DELETE", [name]:
                del state.principals[name]
                state.assigned.pop(name, None)
                return 204, {}
        return _error(405, "no such method")

    def _secret(self, name: str) -> tuple[int, dict[str, Any]]:
        self.state.principals[name] = secrets.token_hex(16)
        credentials = {"clientId": f"id-of-{name}", "clientSecret": self.state.principals[name]}
        return 201, {"principal": {"name": name}, "credentials": credentials}

    def _principal_roles(self, method: str, rest: list[str], body: dict[str, Any]) -> tuple[int, dict[str, Any]]:  # noqa: PLR0911 - one return per call
        roles = self.state.principal_roles
        match method, rest:
            case "GET", []:
                return 200, {"roles": [{"name": name} for name in roles]}
            case "POST", []:
                return _created(roles, body["principalRole"]["name"], set())
            case _, [name, *_] if name not in roles:
                return _error(404, f"Principal role {name} does not exist")
            case "GET", [name, "catalog-roles", catalog]:
                return 200, {"roles": [{"name": role} for owner, role in sorted(roles[name]) if owner == catalog]}
            case "PUT", [name, "catalog-roles", catalog]:
                role = (catalog, body["catalogRole"]["name"])
                if role not in self.state.catalog_roles:
                    return _error(404, f"Catalog role {role[1]} does not exist")
                roles[name].add(role)
                return 201, {}
            case "DELETE", [name]:
                del roles[name]
                return 204, {}
        return _error(405, "no such method")

    def _catalog_roles(  # noqa: PLR0911 - one return per call
        self, method: str, catalog: str, rest: list[str], body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        roles = self.state.catalog_roles
        match method, rest:
            case "GET", []:
                return 200, {"roles": [{"name": name} for owner, name in roles if owner == catalog]}
            case "POST", []:
                return _created(roles, (catalog, body["catalogRole"]["name"]), [])
            case _, [name, *_] if (catalog, name) not in roles:
                return _error(404, f"Catalog role {name} does not exist")
            case "GET", [name, "grants"]:
                return 200, {"grants": roles[catalog, name]}
            case "PUT", [name, "grants"]:
                if body["grant"] not in roles[catalog, name]:
                    roles[catalog, name].append(body["grant"])
                return 201, {}
            case "POST", [name, "grants"]:
                if body["grant"] not in roles[catalog, name]:
                    return _error(404, "No such grant")
                roles[catalog, name].remove(body["grant"])
                return 201, {}
            case "DELETE", [name]:
                del roles[catalog, name]
                return 204, {}
        return _error(405, "no such method")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = urlsplit(self.path).path
                if path == _TOKENS:
                    status, answer = 200, {"access_token": "token", "token_type": "bearer", "expires_in": 3600}
                elif self.headers.get("Authorization") != "Bearer token":
                    status, answer = 401, {}
                else:
                    body = json.loads(content or b"{}")
                    if server.is_dead(f"{self.command} {path.removeprefix(_MANAGEMENT)}"):
                        self.close_connection = True
                        return
                    status, answer = server.answer(self.command, path.removeprefix(_MANAGEMENT), body)
                text = json.dumps(answer).encode() if answer else b""
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - names required by the base class

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
                """Suppress access logs."""

        return Handler


def _created(known: dict[Any, Any], key: Any, value: object) -> tuple[int, dict[str, Any]]:
    if key in known:
        return _error(409, "already exists")
    known[key] = value
    return 201, {}


def _error(status: int, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"error": {"message": message, "type": "Exception", "code": status}}
