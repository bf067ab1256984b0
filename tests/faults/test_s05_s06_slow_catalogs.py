"""S05 and S06: a catalog that limits the request rate, and a catalog that never replies."""

from __future__ import annotations

import time

import pytest

from floe_core.errors import CatalogUnavailableError, DeadlineExceededError, RateLimitedError
from floe_core.schemas import TimeoutConfig

LIST = "/v1/namespaces$"


@pytest.mark.req("RD-02", "FR-006a")
def test_s05_a_catalog_that_asks_to_wait_is_waited_for(gateway, connect):
    catalog = connect()
    gateway.answer(429, path=LIST, headers={"Retry-After": "2"})
    started = time.monotonic()
    catalog.list_namespaces()
    assert time.monotonic() - started >= 2.0
    assert [item.status for item in gateway.seen(path=LIST)] == [429, 200]


@pytest.mark.req("RD-02")
def test_s05_a_wait_beyond_the_deadline_is_refused_at_once(gateway, connect):
    catalog = connect()
    gateway.answer(429, path=LIST, headers={"Retry-After": "3600"}, times=None)
    with pytest.raises(RateLimitedError) as caught:
        catalog.list_namespaces()
    assert caught.value.retry_after == 3600
    assert len(gateway.seen(path=LIST)) == 1


@pytest.mark.req("RD-02", "FR-006a")
@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_catalog_that_is_unavailable_for_a_moment_is_asked_again(gateway, connect, status):
    catalog = connect()
    gateway.answer(status, path=LIST, times=2)
    catalog.list_namespaces()
    assert [item.status for item in gateway.seen(path=LIST)] == [status, status, 200]


@pytest.mark.req("FR-006a")
def test_retries_end_with_the_configured_attempts(gateway, connect):
    catalog = connect()
    gateway.answer(503, path=LIST, times=None)
    with pytest.raises(CatalogUnavailableError, match="not available"):
        catalog.list_namespaces()
    assert len(gateway.seen(path=LIST)) == 3


def test_s06_a_catalog_that_never_answers_ends_at_the_deadline(gateway, connect):
    limits = TimeoutConfig(connect_seconds=1.0, read_seconds=0.5, total_seconds=2.0)
    catalog = connect(timeouts=limits)
    gateway.hang(path=LIST, times=None)
    started = time.monotonic()
    with pytest.raises(DeadlineExceededError, match=r"catalog\.timeouts"):
        catalog.list_namespaces()
    assert time.monotonic() - started < 20.0


def test_s06_an_answer_that_trickles_in_ends_at_the_deadline(connect, iceberg_rest, trickling_server):
    limits = TimeoutConfig(connect_seconds=1.0, read_seconds=1.0, total_seconds=1.5)
    started = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        connect(uri=trickling_server, timeouts=limits)
    assert time.monotonic() - started < 20.0


@pytest.fixture
def trickling_server():
    """Give a server that sends one byte of its answer every tenth of a second."""
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.2)
    done = threading.Event()

    def trickle(connection):
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not done.wait(0.1):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

    def serve():
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=trickle, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    done.set()
    thread.join()
    listener.close()
