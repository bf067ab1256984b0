"""Origins of URLs: credentials are only sent to the configured server."""

from __future__ import annotations

from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL; the port is always explicit."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return f"{scheme}://{(parts.hostname or '').lower()}:{parts.port or _DEFAULT_PORTS.get(scheme, 0)}"


def display_url(url: str) -> str:
    """Return a URL without user, password, query and fragment, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
