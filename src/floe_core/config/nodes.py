"""A YAML document as a tree that keeps the location of every value."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

FREE_TEXT_MAPS = frozenset({"options", "conf", "properties"})

Path: TypeAlias = tuple[str | int, ...]

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_BASED_INTEGER = re.compile(r"0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TEXT_PER_UNIT_OF_SIZE = 100


class Place(NamedTuple):
    """A position in the file; line and column are counted from 1."""

    line: int
    column: int


@dataclass(slots=True)
class ScalarNode:
    """A single value; ``text`` is its source text."""

    place: Place
    value: str | float | bool | None
    text: str
    depth: int = 0

    @property
    def size(self) -> int:
        """The size of the value once aliases are expanded; long texts count more."""
        return 1 + len(self.text) // _TEXT_PER_UNIT_OF_SIZE


@dataclass(slots=True)
class ListNode:
    """A sequence."""

    place: Place
    items: list[Node] = field(default_factory=list)
    size: int = 1
    depth: int = 1


@dataclass(slots=True)
class MapNode:
    """A mapping, in file order."""

    place: Place
    entries: dict[str, Entry] = field(default_factory=dict)
    size: int = 1
    depth: int = 1


Node: TypeAlias = ScalarNode | ListNode | MapNode


class Entry(NamedTuple):
    """One key of a mapping with its value."""

    key_place: Place
    node: Node


def resolve_plain(text: str) -> str | float | bool | None:
    """Return the value of an unquoted scalar in the YAML 1.2 core schema; dates remain text."""
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    return _number(text)


def _number(text: str) -> str | float:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED_INTEGER.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _SPECIAL_FLOAT.fullmatch(text) else text


def plain_data(node: Node) -> Any:  # noqa: ANN401 - a document can contain any value
    """Return the tree as dictionaries, lists and values.

    In the maps that are passed on as text (``options``, ``conf``, ``properties``), numbers and booleans keep their
    source text, so ``1.10`` does not become ``1.1``.
    """
    if isinstance(node, MapNode):
        return {
            key: _texts(entry.node) if key in FREE_TEXT_MAPS else plain_data(entry.node)
            for key, entry in node.entries.items()
        }
    if isinstance(node, ListNode):
        return [plain_data(item) for item in node.items]
    return node.value


def _texts(node: Node) -> Any:  # noqa: ANN401 - a document can contain any value
    if not isinstance(node, MapNode):
        return plain_data(node)
    return {
        key: _written(entry.node) if isinstance(entry.node, ScalarNode) else plain_data(entry.node)
        for key, entry in node.entries.items()
    }


def _written(node: ScalarNode) -> str | None:
    if node.value is None:
        return None
    return str(node.value).lower() if isinstance(node.value, bool) else node.text


def depth_of_match(root: Node, path: Path) -> int:
    """Return how many parts of the path exist in the tree."""
    node: Node | None = root
    for index, part in enumerate(path):
        node = child(node, part)
        if node is None:
            return index
    return len(path)


def child(node: Node | None, part: str | int) -> Node | None:
    """Return the value at a key or index; None if it does not exist."""
    if isinstance(node, MapNode) and isinstance(part, str):
        entry = node.entries.get(part)
        return entry.node if entry else None
    if isinstance(node, ListNode) and isinstance(part, int) and 0 <= part < len(node.items):
        return node.items[part]
    return None


def locate(root: Node, path: Path, *, key: bool = False) -> Place:
    """Return the location of a value or its key; if it does not exist, that of its closest parent."""
    node: Node = root
    place = root.place
    for index, part in enumerate(path):
        found = child(node, part)
        if found is None:
            return place
        if (key or index + 1 < len(path)) and isinstance(node, MapNode) and isinstance(part, str):
            place = node.entries[part].key_place
        else:
            place = found.place
        node = found
    return place


def path_text(path: Path) -> str:
    """Render a path as ``catalog.retry.max_attempts`` or ``tables.bronze.orders.columns[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
