"""Table names: their text form, and validation for catalogs, folder names and SQL."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Separators of names and paths, and characters that end the path of a location, after which PyIceberg truncates it.
_SEPARATORS = frozenset("./\\#?")
# Control, format and surrogate characters, and line and paragraph separators.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def is_usable(part: str) -> bool:
    """Whether text is a valid part of a name: not empty or padded, printable, and without separators."""
    return bool(part) and part == part.strip() and not any(_is_forbidden(character) for character in part)


def _is_forbidden(character: str) -> bool:
    return character in _SEPARATORS or unicodedata.category(character) in _UNPRINTABLE


def name_of(table: Table) -> str:
    """Return ``namespace.table``."""
    return ".".join(table.name())
