"""Environments: overrides merged into the base, with the location of each value kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floe_core.config.nodes import MapNode, Path, ScalarNode, child, depth_of_match, locate, path_text
from floe_core.errors import ConfigProblem

if TYPE_CHECKING:
    from floe_core.config.document import Document
    from floe_core.config.nodes import Node

ENVIRONMENTS_KEY = "environments"
WHOLE_FILE_KEYS = (ENVIRONMENTS_KEY, "schema_version")
_MAPS_OF_SECTIONS = frozenset({"tables", "schedules"})


@dataclass(frozen=True)
class Layers:
    """The base of a document with at most one environment merged into it."""

    document: Document
    environment: str | None = None

    def data(self) -> dict[str, Any]:
        """Return the effective project as plain data; an empty value means the default."""
        data: dict[str, Any] = {key: value for key, value in self.document.data.items() if key != ENVIRONMENTS_KEY}
        if isinstance(self._override, MapNode):
            override = self.document.data[ENVIRONMENTS_KEY][self.environment]
            data = _merged(data, {key: value for key, value in override.items() if key not in WHOLE_FILE_KEYS})
        completed: dict[str, Any] = _completed(data)
        return completed

    def problem(self, message: str, path: Path, *, fix: str = "", key: bool = False) -> ConfigProblem:
        """Describe a problem at a path of the effective project, located where the file sets the value.

        Args:
            message: What is wrong.
            path: The path in the effective project.
            fix: What to write instead.
            key: Point to the key instead of its value.
        """
        root, prefix = self._decider(path)
        place = locate(root, path, key=key)
        return ConfigProblem(message, self.document.file, place.line, place.column, path_text((*prefix, *path)), fix)

    @property
    def _override(self) -> Node | None:
        if self.environment is None:
            return None
        return child(child(self.document.root, ENVIRONMENTS_KEY), self.environment)

    def _decider(self, path: Path) -> tuple[Node, Path]:
        override = self._override
        if override is None or self.environment is None:
            return self.document.root, ()
        matched = depth_of_match(override, path)
        if matched and matched >= depth_of_match(self.document.root, path):
            return override, (ENVIRONMENTS_KEY, self.environment)
        return self.document.root, ()


def environment_names(document: Document) -> list[str]:
    """Return the environments defined in the document, in file order."""
    environments = child(document.root, ENVIRONMENTS_KEY)
    return list(environments.entries) if isinstance(environments, MapNode) else []


def environment_problems(document: Document) -> list[ConfigProblem]:
    """Return the structural problems of the ``environments`` section itself."""
    environments = child(document.root, ENVIRONMENTS_KEY)
    layers = Layers(document)
    if environments is None or _is_null(environments):
        return []
    if not isinstance(environments, MapNode):
        message = "environments must be a mapping of names to overrides"
        return [layers.problem(message, (ENVIRONMENTS_KEY,), fix="Write, for example: environments: {prod: {…}}")]
    found = []
    for name, entry in environments.entries.items():
        path: Path = (ENVIRONMENTS_KEY, name)
        if isinstance(entry.node, MapNode):
            found += [
                layers.problem(
                    f"'{key}' applies to the whole file", (*path, key), fix="Move it to the top level", key=True
                )
                for key in WHOLE_FILE_KEYS
                if key in entry.node.entries
            ]
        elif not _is_null(entry.node):
            message = f"the environment '{name}' must be a mapping of overrides"
            found.append(layers.problem(message, path, fix="Write sections such as catalog: under it"))
    return found


def _merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in override.items():
        below = base.get(key)
        both = isinstance(below, dict) and isinstance(value, dict)
        result[key] = _merged(base[key], value) if both else value
    return result


def _completed(value: Any, key: str | int = "") -> Any:  # noqa: ANN401 - a document can contain any value
    """Drop empty values so that defaults apply; a table without settings is still a table."""
    if isinstance(value, dict):
        if key in _MAPS_OF_SECTIONS:
            value = {name: {} if item is None else item for name, item in value.items()}
        return {name: _completed(item, name) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_completed(item) for item in value]
    return value


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
