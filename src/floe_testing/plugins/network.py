"""A context manager that fails on network access."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_network() -> Iterator[None]:
    """Fail on every name lookup and connection within the block."""

    def refuse(*arguments: Any, **_options: Any) -> NoReturn:
        target = next((part for part in arguments if isinstance(part, tuple | str)), "somewhere")
        msg = f"unexpected network access: {target}"
        raise AssertionError(msg)

    with (
        patch.object(socket.socket, "connect", refuse),
        patch.object(socket.socket, "connect_ex", refuse),
        patch.object(socket, "getaddrinfo", refuse),
        patch.object(socket, "create_connection", refuse),
    ):
        yield
