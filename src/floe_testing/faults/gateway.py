"""A proxy in front of a REST catalog or an object store that injects faults.

It can require OAuth2 tokens, delay requests, replace responses before or after the server has processed a request,
close connections and hang. Rules match requests by method and path, for a limited number of requests.
All requests are recorded.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import secrets
import socket
import ssl
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

COMMIT_PATH = r"/namespaces/[^/]+/tables/[^/]+$"
TOKEN_PATH = r"/oauth/tokens$"  # noqa: S105 - a path

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "proxy-connection"})
_UPSTREAM_SECONDS = 120
_NO_CONTENT = frozenset({204, 304})


@dataclass(frozen=True)
class Reply:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def of(cls, status: int, content: object, headers: Mapping[str, str] | None = None) -> Reply:
        """Create a JSON response."""
        return cls(status, {"Content-Type": "application/json", **(headers or {})}, json.dumps(content).encode())


@dataclass(frozen=True)
class Exchange:
    """A request, and the status of its response; None if there was no response."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    status: int | None = None

    @property
    def authorization(self) -> str:
        """The Authorization header."""
        return next((value for key, value in self.headers.items() if key.lower() == "authorization"), "")

    @property
    def form(self) -> dict[str, str]:
        """The body as form fields."""
        return dict(urllib.parse.parse_qsl(self.body.decode(errors="replace")))


@dataclass
class Rule:
    """A fault for matching requests.

    Attributes:
        method: Regular expression that must match the whole method.
        path: Regular expression to search for in the path.
        times: Number of requests to apply to; None for all.
        delay_seconds: Delay before anything else happens.
        forward: Whether the request is forwarded to the server.
        reply: Response that replaces the server's.
        rewrite: Changes the server's response.
        cut: Close the connection without a response.
        hang: Never respond.
        hang_seconds: Time after which a hanging connection is closed; None for never.
    """

    method: str
    path: str
    times: int | None = 1
    delay_seconds: float = 0.0
    forward: bool = True
    reply: Reply | None = None
    rewrite: Callable[[Exchange, Reply], Reply] | None = None
    cut: bool = False
    hang: bool = False
    hang_seconds: float | None = None
    hits: int = 0

    def takes(self, method: str, path: str) -> bool:
        """Whether the rule applies to this request."""
        if self.times is not None and self.hits >= self.times:
            return False
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


class TokenIssuer:
    """Issues and checks bearer tokens for client credentials, like Polaris."""

    def __init__(self, *, client_id: str, client_secret: str, lifetime_seconds: float) -> None:
        """Accept one client."""
        self.lifetime_seconds = lifetime_seconds
        self._client = (client_id, client_secret)
        self._expiries: dict[str, float] = {}
        self._lock = threading.Lock()

    def issue(self, form: Mapping[str, str]) -> Reply:
        """Handle a token request."""
        if not form.get("scope"):
            return Reply.of(400, {"error": "invalid_scope", "error_description": "The scope is invalid"})
        if (form.get("client_id"), form.get("client_secret")) != self._client:
            return Reply.of(401, {"error": "unauthorized_client", "error_description": "The client is not authorized"})
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._expiries[token] = time.monotonic() + self.lifetime_seconds
        content = {"access_token": token, "token_type": "bearer", "expires_in": max(1, round(self.lifetime_seconds))}
        return Reply.of(200, content)

    def accepts(self, authorization: str) -> bool:
        """Whether an Authorization header contains a valid token."""
        with self._lock:
            return time.monotonic() < self._expiries.get(authorization.removeprefix("Bearer "), 0.0)

    def revoke(self) -> None:
        """Revoke all tokens."""
        with self._lock:
            self._expiries.clear()


class FaultGateway:
    """A proxy in front of one server, as a context manager."""

    def __init__(self, upstream: str, *, certificate: tuple[Path, Path] | None = None) -> None:
        """Create a proxy for a server.

        Args:
            upstream: The server's address, with scheme http.
            certificate: Certificate and key files, to serve TLS.
        """
        self.upstream = urllib.parse.urlsplit(upstream)
        self.tokens: TokenIssuer | None = None
        # Called before the rules, for faults that are chosen per request.
        self.chaos: Callable[[Exchange], Rule | None] | None = None
        self.keeps_exchanges = True
        self._rules: list[Rule] = []
        self._exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self))
        self._scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*map(str, certificate))
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        """Start serving."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving; hanging requests end."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The address that clients use instead of the server's."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}{self.upstream.path}".rstrip("/")

    def require_tokens(
        self,
        *,
        client_id: str = "floe",
        client_secret: str = "gateway-secret",  # noqa: S107 - for a proxy on the loopback interface
        lifetime_seconds: float = 3600.0,
    ) -> TokenIssuer:
        """Require OAuth2 tokens from now on, and issue them at ``/v1/oauth/tokens``."""
        self.tokens = TokenIssuer(client_id=client_id, client_secret=client_secret, lifetime_seconds=lifetime_seconds)
        return self.tokens

    def add(self, rule: Rule) -> Rule:
        """Add a rule; if several match, the oldest applies."""
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            self._rules.clear()

    def answer(  # noqa: PLR0913 - independent options of a fault
        self,
        status: int,
        *,
        method: str = ".*",
        path: str = "",
        times: int | None = 1,
        after_forwarding: bool = False,
        headers: Mapping[str, str] | None = None,
        message: str = "by the gateway",
    ) -> Rule:
        """Respond with a status; with ``after_forwarding``, the server has processed the request before."""
        kind = {409: "CommitFailedException", 503: "ServiceUnavailableException"}.get(status, "FaultException")
        content = {"error": {"message": message, "type": kind, "code": status}}
        reply = Reply.of(status, content, headers)
        return self.add(Rule(method, path, times, forward=after_forwarding, reply=reply))

    def cut(self, *, method: str = ".*", path: str = "", times: int | None = 1, after_forwarding: bool = False) -> Rule:
        """Close the connection instead of responding."""
        return self.add(Rule(method, path, times, forward=after_forwarding, cut=True))

    def hang(self, *, method: str = ".*", path: str = "", times: int | None = 1) -> Rule:
        """Accept requests and never respond."""
        return self.add(Rule(method, path, times, forward=False, hang=True))

    def delay(self, seconds: float, *, method: str = ".*", path: str = "", times: int | None = 1) -> Rule:
        """Delay requests before forwarding them."""
        return self.add(Rule(method, path, times, delay_seconds=seconds))

    def rewrite(
        self,
        change: Callable[[dict[str, Any]], None],
        *,
        method: str = ".*",
        path: str = "",
        times: int | None = None,
    ) -> Rule:
        """Modify the JSON content of the server's successful responses in place."""

        def changed(_: Exchange, reply: Reply) -> Reply:
            if reply.status >= 300 or not reply.body:
                return reply
            content = json.loads(reply.body)
            change(content)
            return Reply(reply.status, reply.headers, json.dumps(content).encode())

        return self.add(Rule(method, path, times, rewrite=changed))

    def seen(self, *, method: str = ".*", path: str = "") -> list[Exchange]:
        """Return the recorded requests that match."""
        with self._lock:
            recorded = list(self._exchanges)
        return [item for item in recorded if re.fullmatch(method, item.method) and re.search(path, item.path)]

    @property
    def token_requests(self) -> list[Exchange]:
        """The recorded token requests."""
        return self.seen(method="POST", path=TOKEN_PATH)

    def handle(self, exchange: Exchange) -> Reply | None:
        """Return the response to a request; None closes the connection."""
        rule = self._rule_for(exchange)
        if rule is not None and rule.delay_seconds:
            self._closing.wait(rule.delay_seconds)
        if rule is not None and rule.hang:
            self._closing.wait(rule.hang_seconds)
            return self._record(exchange, None)
        if rule is None or rule.forward:
            reply = self._guarded(exchange)
            if rule is not None and rule.rewrite is not None:
                reply = rule.rewrite(exchange, reply)
        else:
            reply = Reply(500)
        if rule is not None and rule.cut:
            return self._record(exchange, None)
        if rule is not None and rule.reply is not None:
            reply = rule.reply
        return self._record(exchange, reply)

    def _rule_for(self, exchange: Exchange) -> Rule | None:
        if self.chaos is not None and (drawn := self.chaos(exchange)) is not None:
            return drawn
        with self._lock:
            for rule in self._rules:
                if rule.takes(exchange.method, exchange.path):
                    rule.hits += 1
                    return rule
        return None

    def _record(self, exchange: Exchange, reply: Reply | None) -> Reply | None:
        seen = Exchange(
            exchange.method,
            exchange.path,
            exchange.query,
            exchange.headers,
            exchange.body,
            reply.status if reply else None,
        )
        if self.keeps_exchanges:
            with self._lock:
                self._exchanges.append(seen)
        return reply

    def _guarded(self, exchange: Exchange) -> Reply:
        if self.tokens is not None:
            if re.search(TOKEN_PATH, exchange.path):
                return self.tokens.issue(exchange.form)
            if not self.tokens.accepts(exchange.authorization):
                # Polaris sends no body either.
                return Reply(401)
        return self._forward(exchange)

    def _forward(self, exchange: Exchange) -> Reply:
        connection = http.client.HTTPConnection(
            self.upstream.hostname or "", self.upstream.port or 80, timeout=_UPSTREAM_SECONDS
        )
        target = exchange.path + (f"?{exchange.query}" if exchange.query else "")
        # The client's Host header is kept: S3 signatures include it, and servers build URLs from it.
        headers = {key: value for key, value in exchange.headers.items() if key.lower() not in _HOP_BY_HOP}
        headers["Content-Length"] = str(len(exchange.body))
        try:
            connection.request(exchange.method, target, body=exchange.body or None, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            kept = {key: value for key, value in answer.getheaders() if key.lower() not in _HOP_BY_HOP}
            return Reply(answer.status, kept, body)
        except OSError:
            return Reply.of(502, {"error": {"message": "upstream is down", "type": "BadGateway", "code": 502}})
        finally:
            connection.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of clients that gave up, which tests cause on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, gateway: FaultGateway, *args: Any) -> None:
        self.gateway = gateway
        super().__init__(*args)

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        reply = self.gateway.handle(Exchange(self.command, path, query, dict(self.headers.items()), self._body()))
        if reply is None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(reply.status)
        length = str(len(reply.body))
        for key, value in reply.headers.items():
            if key.lower() == "content-length":
                # The response to HEAD has the length of a body that is not sent.
                length = value if self.command == "HEAD" else length
            else:
                self.send_header(key, value)
        if reply.status not in _NO_CONTENT:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD" and reply.status not in _NO_CONTENT:
            self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - names required by the base class

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Do nothing: requests are recorded instead."""
