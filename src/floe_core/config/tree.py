"""Build the tree from ruamel.yaml's events, in bounded memory.

This module uses events instead of ruamel.yaml's composed nodes for three reasons. The composer replaces an alias with
its target and loses the alias's position. It is recursive, so deep nesting ends in a ``RecursionError`` without a
position. And it reads the whole file before any limit applies, with three times the memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Never

from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from floe_core.config.nodes import Entry, ListNode, MapNode, Node, Place, ScalarNode, resolve_plain
from floe_core.errors import ConfigProblem

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_VALUES = 500_000
MAX_DEPTH = 40

_YAML_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset({_YAML_TAG + kind for kind in ("null", "bool", "int", "float")})
_KNOWN_TAGS = frozenset({*_PLAIN_TAGS, "!", *(_YAML_TAG + kind for kind in ("str", "map", "seq"))})
_MERGE_KEY = "<<"
_SURROGATE = re.compile("[\ud800-\udfff]")


class UnreadableError(Exception):
    """A problem that prevents further parsing."""

    def __init__(self, problem: ConfigProblem) -> None:
        """Wrap the problem."""
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class _Open:
    node: ListNode | MapNode
    anchor: str | None
    key: tuple[str, Place] | None = None
    sources: list[tuple[Node, Place]] = field(default_factory=list)


class TreeBuilder:
    """Turns events into a tree; ``problems`` collects mistakes that do not prevent parsing."""

    def __init__(self, file: str) -> None:
        """Start empty; ``file`` is the file name shown in problems."""
        self.problems: list[ConfigProblem] = []
        self._file = file
        self._root: Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, Node | None] = {}
        self._size = 0
        self._documents = 0

    def build(self, events: Iterable[Any]) -> Node | None:
        """Return the root; None for an empty document.

        Raises:
            UnreadableError: An alias is undefined, contains itself or expands too far, the nesting is too deep, the
                file is too large, or it has several documents.
        """
        for event in events:
            self._take(event)
        return self._root

    def _take(self, event: Any) -> None:  # noqa: ANN401 - one of ruamel's events
        place = Place(event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop(place, "a second document starts here", "Keep one document: remove this '---'")
        elif isinstance(event, ScalarEvent):
            self._scalar(event, place)
        elif isinstance(event, AliasEvent):
            self._alias(event.anchor, place)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._start(event, place)
        elif isinstance(event, CollectionEndEvent):
            self._end()

    def _scalar(self, event: ScalarEvent, place: Place) -> None:
        tag = self._tag(event, place)
        text = self._whole_characters(event.value, place)
        plain = tag in _PLAIN_TAGS or (tag is None and event.implicit[0])
        value = resolve_plain(text) if plain else text
        if self._open and isinstance(self._open[-1].node, MapNode) and self._open[-1].key is None:
            self._grow(1, place)
            self._open[-1].key = (text, place)
            if event.anchor is not None:
                self._anchors[event.anchor] = ScalarNode(place, value, text)
            return
        node = ScalarNode(place, value, text)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._grow(node.size, place)
        self._attach(node, place)

    def _alias(self, anchor: str, place: Place) -> None:
        if anchor not in self._anchors:
            self._stop(place, f"the alias '*{anchor}' has no anchor", f"Define it first with: &{anchor}")
        node = self._anchors[anchor]
        if node is None:
            self._stop(place, f"the alias '*{anchor}' refers to itself", "Write the values out")
        self._grow(node.size, place, alias=anchor)
        if len(self._open) + node.depth > MAX_DEPTH:
            self._stop(
                place, f"values are nested more than {MAX_DEPTH} levels deep", "Write the values out with less nesting"
            )
        self._attach(node, place)

    def _start(self, event: MappingStartEvent | SequenceStartEvent, place: Place) -> None:
        self._tag(event, place)
        self._grow(1, place)
        if len(self._open) >= MAX_DEPTH:
            self._stop(place, f"values are nested more than {MAX_DEPTH} levels deep", "Check brackets and indentation")
        node = MapNode(place) if isinstance(event, MappingStartEvent) else ListNode(place)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(_Open(node, event.anchor))

    def _end(self) -> None:
        closed = self._open.pop()
        if isinstance(closed.node, MapNode):
            for source, place in closed.sources:
                self._merge(closed.node, source, place)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = closed.node
        self._attach(closed.node, closed.node.place)

    def _attach(self, node: Node, place: Place) -> None:
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        parent.node.size += node.size
        parent.node.depth = max(parent.node.depth, node.depth + 1)
        if isinstance(parent.node, ListNode):
            parent.node.items.append(node)
        elif parent.key is None:
            self._add(place, "a key must be a scalar", "Write the key as plain text")
            parent.key = ("", place)
        else:
            self._enter(parent, parent.node, node, place)

    def _enter(self, parent: _Open, mapping: MapNode, node: Node, place: Place) -> None:
        key, key_place = parent.key or ("", place)
        parent.key = None
        if key == _MERGE_KEY:
            parent.sources.append((node, place))
        elif key in mapping.entries:
            first = mapping.entries[key].key_place.line
            self._add(key_place, f"duplicate key '{key}', first used on line {first}", "Keep one of the two", path=key)
        else:
            mapping.entries[key] = Entry(key_place, node)

    def _merge(self, target: MapNode, source: Node, place: Place) -> None:
        for node in source.items if isinstance(source, ListNode) else [source]:
            if not isinstance(node, MapNode):
                self._add(place, "'<<' needs a mapping to merge", "Write an alias such as: <<: *defaults")
                continue
            for key, entry in node.entries.items():
                target.entries.setdefault(key, entry)

    def _whole_characters(self, text: str, place: Place) -> str:
        """Join the surrogate pairs that JSON uses for characters outside the basic multilingual plane."""
        if not _SURROGATE.search(text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._add(place, "an escape is half of a surrogate pair", "Write the character itself, or both escapes")
            return ""

    def _tag(self, event: Any, place: Place) -> str | None:  # noqa: ANN401 - one of ruamel's events
        tag = None if event.ctag is None else str(event.ctag)
        if tag is not None and tag not in _KNOWN_TAGS:
            self._add(place, f"the tag '{tag}' is not supported", "Remove the tag and write a plain value")
        return tag

    def _grow(self, size: int, place: Place, *, alias: str | None = None) -> None:
        self._size += size
        if self._size <= MAX_VALUES:
            return
        if alias:
            message = f"the alias '*{alias}' makes the document expand to more than {MAX_VALUES:,} values"
            self._stop(place, message, "Write the values out, or use fewer aliases")
        self._stop(place, f"the file contains more than {MAX_VALUES:,} values", "Split the project into smaller ones")

    def _add(self, place: Place, message: str, fix: str, *, path: str = "") -> None:
        self.problems.append(ConfigProblem(message, self._file, place.line, place.column, path, fix))

    def _stop(self, place: Place, message: str, fix: str) -> Never:
        raise UnreadableError(ConfigProblem(message, self._file, place.line, place.column, "", fix))
