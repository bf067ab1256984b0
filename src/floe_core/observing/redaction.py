"""Mask secrets in everything that leaves memory.

Three methods complement each other: the name of a value, the pattern of a text (passwords in URLs, bearer tokens,
``secret=value`` pairs), and the secret values themselves once floe has resolved them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

from pydantic import BaseModel

MASK = "**********"

_WORDS = (
    # The plugin group "floe.secrets:" before a plugin name is not a secret.
    r"(?!(?<=floe\.)secrets:[a-z])secret(?![-_.]?(?:ref|name|id|file|path)(?![a-z]))"
    r"|passw(?:or)?d(?![-_.]?(?:file|path))|passphrase|(?<![a-z])pwd(?![a-z])"
    r"|token(?!iz|[-_.]?(?:endpoint|refresh|exchange|uri|url|type|expir|count|limit|lifetime|file|path))"
    r"|credential(?!s?[-_.]?(?:id|type|provider|vending|file|refresh|mode))"
    r"|(?:private|account|encryption|signing|shared)[-_.]?(?:access[-_.]?)?key(?![-_.]?(?:id|name|file|path))"
    r"|access[-_.]?key(?![-_.]?id)|api[-_.]?key(?![-_.]?id)|connection[-_.]?string|authorization|signature"
    r"|(?<![a-z])(?:sas|sig|jwt|cookie|bearer)(?![a-z])"
)
_SECRET_KEY = re.compile(_WORDS, re.IGNORECASE)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REFERENCE = re.compile(r"^(?:\$\{[A-Za-z_][A-Za-z0-9_]*\}|secret_ref:\S+)$")
_CREDENTIALS_SECTION = re.compile(r"credentials?$", re.IGNORECASE)

# Repetitions are bounded because a long text could otherwise make the search quadratic.
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.{0,16384}?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
# Digits up to a slash are a port, followed by a path; everything else up to the last @ is a password.
_URL_PASSWORD = re.compile(
    r"(?P<head>[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s:/@\"']{0,256}:)(?!\d+(?:[/?#\s]|$))[^\s\"'<>]{1,512}(?=@)"
)
_URL_TOKEN = re.compile(r"(?P<head>https?://)[^\s:/@\"']{1,512}(?=@)")
_BEARER = re.compile(
    r"(?P<head>\b(?i:bearer|basic)\s+)(?![Aa]uth|[Tt]oken)(?=\S{0,64}[0-9A-Z=._])[A-Za-z0-9._~+/=-]{8,}"
)
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*")
# The name of an error (SecretReferenceError: …) is not an assignment.
_ASSIGNMENT = re.compile(
    rf"(?P<head>(?:{_WORDS})[\w.-]{{0,64}}(?<!Error)(?<!Exception)(?<!Warning)"
    r"\\?[\"'`]?\s{0,8}(?:={1,3}>?|:(?!/))\s{0,8})"
    r"(?P<value>\$\{[^}]{0,256}\}|\\\"(?:(?!\\\").){0,4096}\\\"|\"(?:[^\"\\]|\\.){0,4096}\"|'(?:[^'\\]|\\.){0,4096}'"
    r"|\[[^\]]{0,4096}\]|(?![{\[(])[^\s\"',;&}{)\]]+)",
    re.IGNORECASE,
)
# Comparisons with a secret column in filters: password != 'x', token IN ('x', 'y'), t.pwd BETWEEN 'x' AND 'y'.
_LITERAL = r"(?:'(?:[^'\\]|\\.|''){0,4096}'|\"(?:[^\"\\]|\\.|\"\"){0,4096}\")"
_COMPARISON = re.compile(
    rf"(?P<head>(?:{_WORDS})[\w.-]{{0,64}}[\"'`]?\)?\s{{0,8}}"
    r"(?:!=|<>|[<>]=?|\b(?:not\s{1,8})?(?:i?like\b|between\b|in\s{0,8}\())\s{0,8})"
    rf"(?P<values>{_LITERAL}(?:\s{{0,8}}(?:,|\band\b)\s{{0,8}}{_LITERAL}){{0,1024}})",
    re.IGNORECASE,
)

# "Failed to get credentials: Unable to connect" is not an assignment: the colon is part of a sentence. This exception
# does not apply to words that always precede a value (secret, password, key).
_MAY_BE_PROSE = re.compile(r"^(?:credentials?|tokens?|authorization|signature)\W", re.IGNORECASE)
_SENTENCE = re.compile(
    r"(?:[A-Z][a-z]{1,15}|access|could|expired|failed|invalid|missing|no|not|the|unable)(?= [a-z]{2,})"
)

_MIN_SECRET_LENGTH = 8
# A value with letters and digits may be shorter, because it is not an ordinary word.
_MIN_MIXED_SECRET_LENGTH = 5
_MAX_DEPTH = 12
_PLAIN = (int, float, datetime, date, time, timedelta)


class _KnownSecrets:
    """The secret values of this process, for masking them wherever they occur."""

    def __init__(self) -> None:
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._lock = threading.Lock()

    def add(self, value: str) -> None:
        if value in self._values or not _is_distinctive(value):
            return
        with self._lock:
            self._values |= {value}
            longest_first = sorted(self._values, key=len, reverse=True)
            self._pattern = re.compile(
                r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, longest_first)) + r")(?![A-Za-z0-9])"
            )

    def mask(self, text: str) -> str:
        return self._pattern.sub(MASK, text) if self._pattern else text


def _is_distinctive(value: str) -> bool:
    """Whether a secret is distinctive enough to be masked everywhere without masking ordinary words."""
    mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= (_MIN_MIXED_SECRET_LENGTH if mixed else _MIN_SECRET_LENGTH)


_known = _KnownSecrets()


def remember_secret(value: str) -> None:
    """Mask this value wherever it occurs from now on; short values are covered only by the other methods."""
    _known.add(value)


def is_secret_key(key: str) -> bool:
    """Whether a setting with this name contains a secret."""
    return bool(_SECRET_KEY.search(_CAMEL_CASE.sub("_", key)))


def redact_text(text: str) -> str:
    """Mask secrets in a text.

    Masks known secret values, passwords in URLs, bearer tokens, private keys, and values that follow the name of a
    secret: ``secret=value`` pairs and comparisons in filters.
    """
    text = _known.mask(text)
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _URL_PASSWORD.sub(rf"\g<head>{MASK}", text)
    text = _URL_TOKEN.sub(rf"\g<head>{MASK}", text)
    text = _BEARER.sub(rf"\g<head>{MASK}", text)
    text = _JWT.sub(MASK, text)
    if _SECRET_KEY.search(text) is None:
        # The remaining patterns start with a secret's name. Most texts have none, and every span passes through here.
        return text
    text = _COMPARISON.sub(_mask_comparison, text)
    return _ASSIGNMENT.sub(_mask_assignment, text)


def _mask_comparison(match: re.Match[str]) -> str:
    values = re.sub(_LITERAL, lambda literal: f"{literal[0][0]}{MASK}{literal[0][0]}", match["values"])
    return f"{match['head']}{values}"


def _mask_assignment(match: re.Match[str]) -> str:
    value = match["value"]
    if (
        _MAY_BE_PROSE.match(match["head"])
        and ": " in match["head"]
        and _SENTENCE.match(match.string, match.start("value"))
    ):
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return match[0] if _is_harmless(value.strip("\"'")) else f"{match['head']}{quote}{MASK}{quote}"


def _is_harmless(value: str) -> bool:
    return value.lower() in {"", "none", "null", "true", "false", MASK} or value.startswith("${")


def redact(value: Any, *, key: str = "") -> Any:  # noqa: ANN401 - accepts and returns any log value
    """Return the value with all secrets masked, in types that can be logged.

    Args:
        value: Any value; models become mappings, unknown objects become text.
        key: The name of the value.
    """
    return _redact(value, secret=bool(key) and is_secret_key(key), depth=0)


def _redact(value: Any, *, secret: bool, depth: int) -> Any:  # noqa: ANN401 - accepts and returns any log value
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        return {
            name: _redact(item, secret=_is_secret_entry(str(name), item, parent_secret=secret), depth=depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_redact(item, secret=secret, depth=depth + 1) for item in value]
    return _redact_leaf(value, secret=secret)


def _redact_leaf(value: Any, *, secret: bool) -> Any:  # noqa: ANN401 - accepts and returns any log value
    if isinstance(value, bool | None):
        return value
    if isinstance(value, _PLAIN):
        return MASK if secret else value
    text = str(value.value if isinstance(value, Enum) else value)
    if not secret:
        return redact_text(text)
    return text if _is_harmless(text) or _REFERENCE.match(text) else MASK


def _is_secret_entry(name: str, item: object, *, parent_secret: bool) -> bool:
    """Whether an entry is secret, by its own name or because its whole section is secret."""
    if isinstance(item, Mapping | BaseModel) and _CREDENTIALS_SECTION.search(name):
        return parent_secret
    return parent_secret or is_secret_key(name)
