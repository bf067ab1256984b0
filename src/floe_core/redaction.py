"""Keeps secrets out of everything that leaves memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "**********"

_SECRET_KEY = re.compile(
    r"(secret|passw(or)?d|token(?!izer|[-_.]?(endpoint|refresh|uri|url|type|expires))|credential(?!s?[-_.]?(id|type|provider))"
    r"|private[-_.]?key|account[-_.]?key|access[-_.]?key(?![-_.]?id)|sas[-_.]?token|connection[-_.]?string"
    r"|authorization|signature|api[-_.]?key)",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(?P<head>[a-zA-Z][a-zA-Z0-9+.-]*://[^\s:/@]*:)(?P<password>[^\s/@]+)(?=@)")
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    r"(?P<head>[\"']?[\w.-]*(?:secret|passw(?:or)?d|token|credential|account[-_.]?key|secret[-_.]?access[-_.]?key)"
    r"[\w.-]*[\"']?\s*[=:]\s*[\"']?)(?P<value>(?!\$\{)[^\s\"',;&}{)]+)",
    re.IGNORECASE,
)


def is_secret_key(key: str) -> bool:
    """Whether a setting of this name holds a secret."""
    return bool(_SECRET_KEY.search(key))


def redact_text(text: str) -> str:
    """Mask passwords in URLs, bearer tokens and ``secret=value`` pairs within a text."""
    text = _URL_PASSWORD.sub(rf"\g<head>{MASK}", text)
    text = _BEARER.sub(rf"\g<head>{MASK}", text)
    return _ASSIGNMENT.sub(rf"\g<head>{MASK}", text)


def redact(value: Any, *, key: str = "") -> Any:  # noqa: ANN401 - any log value goes in and comes out
    """Return the value with every secret in it masked; ``key`` is the name it is known by."""
    if isinstance(value, Mapping):
        return {name: redact(item, key=str(name)) for name, item in value.items()}
    if key and is_secret_key(key) and value not in (None, "", True, False):
        return MASK
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(item) for item in value]
    if isinstance(value, str):
        return redact_text(value)
    return value
