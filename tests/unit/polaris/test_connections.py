"""Responses are read completely before they are returned, so that connections are reused."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from floe_core.resilience.circuit_breaker import CircuitBreaker
from floe_polaris import PolarisCatalogConfig
from floe_polaris.transport.http import DeadlineSession

ROWS = {"rows": ["x" * 100] * 2_000}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.peers.append(self.client_address)
        body = b"" if self.path == "/empty" else json.dumps(ROWS).encode()
        self.send_response(204 if self.path == "/empty" else 200)
        if self.path == "/compressed":
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        if self.path != "/empty":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_): ...


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.peers = True, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def get(server):
    url = f"http://127.0.0.1:{server.server_port}"
    config = PolarisCatalogConfig(uri=url)
    with DeadlineSession(config, url=url, breaker=CircuitBreaker(config.circuit_breaker)) as session:
        yield lambda path: session.get(f"{url}{path}")


@pytest.mark.parametrize("path", ["/plain", "/compressed"])
def test_an_answer_has_its_whole_content(get, path):
    response = get(path)
    assert response.json() == ROWS
    assert json.loads(response.text) == json.loads(response.content) == ROWS


def test_an_answer_without_content_is_empty(get):
    assert get("/empty").content == b""


def test_calls_one_after_the_other_share_a_connection(get, server):
    responses = [get(path) for path in ("/plain", "/empty", "/compressed", "/plain")]
    assert len(set(server.peers)) == 1
    assert responses[0].json() == ROWS
