"""Which text can name a namespace or a table, in every catalog, in a folder's name and in SQL."""

from __future__ import annotations

import unicodedata

# What separates the parts of a name or of a path, and what ends the path of a location: PyIceberg cuts off the rest.
_SEPARATORS = frozenset("./\\#?")
# Control, format and surrogate characters, and the separators of lines and paragraphs.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def is_usable(part: str) -> bool:
    """Whether text can be one part of a name: not empty or padded, printable, and without separators of parts."""
    return bool(part) and part == part.strip() and not any(_is_forbidden(character) for character in part)


def _is_forbidden(character: str) -> bool:
    return character in _SEPARATORS or unicodedata.category(character) in _UNPRINTABLE
