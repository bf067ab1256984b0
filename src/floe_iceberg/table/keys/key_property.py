"""Table properties that record the key columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS_PROPERTY = "floe.keys"
NULL_KEYS_PROPERTY = "floe.null-keys"


def keys_text(keys: Sequence[str]) -> str:
    """Format keys as a property value: comma-separated, or JSON if a name would be ambiguous."""
    plain = all("," not in key and key == key.strip() and not key.startswith("[") for key in keys)
    return ",".join(keys) if plain else json.dumps(list(keys))


def parse_keys(text: str) -> tuple[str, ...]:
    """Parse keys from a property value."""
    if text.lstrip().startswith("["):
        try:
            return tuple(str(key) for key in json.loads(text))
        except ValueError:
            pass
    return tuple(key.strip() for key in text.split(",") if key.strip())
