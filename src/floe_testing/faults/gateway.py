"""A proxy in front of a REST catalog or an object store that fails on demand.

It can ask for OAuth2 tokens, delay, answer something else before or after the server did its work, cut the connection
and hang. Rules match by method and path and end after a number of requests; every request is recorded.
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
    """An HTTP answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def of(cls, status: int, content: object, headers: Mapping[str, str] | None = None) -> Reply:
        """Make a JSON answer."""
        return cls(status, {"Content-Type": "application/json", **(headers or {})}, json.dumps(content).encode())


@dataclass(frozen=True)
class Exchange:
    """One request as it arrived, and the status it was answered with; None when it was not answered."""

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
    """What happens to some requests.

    Attributes:
        method: Regular expression that the whole method matches.
        path: Regular expression to be found in the path.
        times: How many requests it applies to; None for all.
        delay_seconds: Wait before anything else.
        forward: Whether the server gets the request.
        reply: Answer given in place of the server's.
        rewrite: Makes an answer out of the server's.
        cut: Close the connection without an answer.
        hang: Never answer.
        hang_seconds: When a hanging connection is cut; None for never.
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
        """Whether the rule applies to one more request like this."""
        if self.times is not None and self.hits >= self.times:
            return False
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


class TokenDesk:
    """Issues bearer tokens for client credentials, as Polaris does, and checks them."""

    def __init__(self, *, client_id: str, client_secret: str, lifetime_seconds: float) -> None:
        """Know one client."""
        self.lifetime_seconds = lifetime_seconds
        self._client = (client_id, client_secret)
        self._expiries: dict[str, float] = {}
        self._lock = threading.Lock()

    def issue(self, form: Mapping[str, str]) -> Reply:
        """Answer a token request."""
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
        """Whether a header carries a token that holds."""
        with self._lock:
            return time.monotonic() < self._expiries.get(authorization.removeprefix("Bearer "), 0.0)

    def revoke(self) -> None:
        """End every token."""
        with self._lock:
            self._expiries.clear()


class FaultGateway:
    """A proxy before one server; use it as a context manager."""

    def __init__(self, upstream: str, *, certificate: tuple[Path, Path] | None = None) -> None:
        """Stand before a server.

        Args:
            upstream: The server's address, scheme http.
            certificate: Certificate and key files, to speak TLS.
        """
        self.upstream = urllib.parse.urlsplit(upstream)
        self.tokens: TokenDesk | None = None
        # Asked before the rules, for faults that are drawn request by request.
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
        """Stop serving; hanging requests are let go."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The address that clients use in place of the server's."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}{self.upstream.path}".rstrip("/")

    def require_tokens(
        self,
        *,
        client_id: str = "floe",
        client_secret: str = "gateway-secret",  # noqa: S107 - of a proxy on the loopback interface
        lifetime_seconds: float = 3600.0,
    ) -> TokenDesk:
        """Ask for OAuth2 tokens from now on, and issue them at ``/v1/oauth/tokens``."""
        self.tokens = TokenDesk(client_id=client_id, client_secret=client_secret, lifetime_seconds=lifetime_seconds)
        return self.tokens

    def add(self, rule: Rule) -> Rule:
        """Apply a rule; of several that match, the oldest wins."""
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        with self._lock:
            self._rules.clear()

    def answer(  # noqa: PLR0913 - a fault has this many sides
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
        """Answer with a status; with ``after_forwarding`` the server has done its work by then."""
        kind = {409: "CommitFailedException", 503: "ServiceUnavailableException"}.get(status, "FaultException")
        content = {"error": {"message": message, "type": kind, "code": status}}
        reply = Reply.of(status, content, headers)
        return self.add(Rule(method, path, times, forward=after_forwarding, reply=reply))

    def cut(self, *, method: str = ".*", path: str = "", times: int | None = 1, after_forwarding: bool = False) -> Rule:
        """Close the connection instead of answering."""
        return self.add(Rule(method, path, times, forward=after_forwarding, cut=True))

    def hang(self, *, method: str = ".*", path: str = "", times: int | None = 1) -> Rule:
        """Take the request and never answer."""
        return self.add(Rule(method, path, times, forward=False, hang=True))

    def delay(self, seconds: float, *, method: str = ".*", path: str = "", times: int | None = 1) -> Rule:
        """Wait, then forward."""
        return self.add(Rule(method, path, times, delay_seconds=seconds))

    def rewrite(
        self,
        change: Callable[[dict[str, Any]], None],
        *,
        method: str = ".*",
        path: str = "",
        times: int | None = None,
    ) -> Rule:
        """Change the JSON content of the server's good answers in place."""

        def changed(_: Exchange, reply: Reply) -> Reply:
            if reply.status >= 300 or not reply.body:
                return reply
            content = json.loads(reply.body)
            change(content)
            return Reply(reply.status, reply.headers, json.dumps(content).encode())

        return self.add(Rule(method, path, times, rewrite=changed))

    def seen(self, *, method: str = ".*", path: str = "") -> list[Exchange]:
        """Return the requests recorded so far that match."""
        with self._lock:
            recorded = list(self._exchanges)
        return [item for item in recorded if re.fullmatch(method, item.method) and re.search(path, item.path)]

    @property
    def token_requests(self) -> list[Exchange]:
        """The requests for tokens."""
        return self.seen(method="POST", path=TOKEN_PATH)

    def handle(self, exchange: Exchange) -> Reply | None:
        """Decide what a request gets; None closes the connection."""
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
                # Polaris gives no body either.
                return Reply(401)
        return self._forward(exchange)

    def _forward(self, exchange: Exchange) -> Reply:
        connection = http.client.HTTPConnection(
            self.upstream.hostname or "", self.upstream.port or 80, timeout=_UPSTREAM_SECONDS
        )
        target = exchange.path + (f"?{exchange.query}" if exchange.query else "")
        # The Host header stays the client's: S3 signatures cover it, and servers build addresses from it.
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
        """A client that gave up is part of the test."""


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
                # The answer to HEAD has the length of a body that is not sent.
                length = value if self.command == "HEAD" else length
            else:
                self.send_header(key, value)
        if reply.status not in _NO_CONTENT:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD" and reply.status not in _NO_CONTENT:
            self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the base class's names

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
        """Requests are recorded, not logged."""
