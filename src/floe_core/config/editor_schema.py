"""The JSON Schema of floe.yaml, for editors."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from floe_core.config.environments import ENVIRONMENTS_KEY, WHOLE_FILE_KEYS
from floe_core.schemas import SCHEMA_VERSION, ProjectFile

_DEFS = "#/$defs/"
_PARTIAL = "Override"


def json_schema() -> dict[str, Any]:
    """Return the schema of floe.yaml; an environment is a project without required keys."""
    schema = ProjectFile.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    overrides = {name + _PARTIAL: _partial(deepcopy(body)) for name, body in definitions.items()}
    project = _partial({"type": "object", "additionalProperties": False, "properties": deepcopy(schema["properties"])})
    for key in WHOLE_FILE_KEYS:
        project["properties"].pop(key)
    project["description"] = "Settings that this environment overrides; all others keep their values from the base."
    definitions |= overrides | {f"Project{_PARTIAL}": project}
    environments = schema["properties"][ENVIRONMENTS_KEY]
    environments["additionalProperties"] = {"$ref": f"{_DEFS}Project{_PARTIAL}"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:floe:project:{SCHEMA_VERSION}",
        **schema,
        "title": "floe.yaml",
        "$defs": _used(definitions, schema["properties"]),
    }


def _partial(node: Any) -> Any:  # noqa: ANN401 - a JSON Schema can contain any value
    """Remove requirements and defaults, except inside lists, which an environment replaces as a whole."""
    if isinstance(node, list):
        return [_partial(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "array":
        return {key: value for key, value in node.items() if key != "default"}
    if "secret_ref" in node.get("properties", {}):
        return node
    result = {key: _partial(value) for key, value in node.items() if key not in ("required", "default", "properties")}
    if "properties" in node:
        # The keys are names of settings, and a setting may be named "required".
        result["properties"] = {name: _partial(value) for name, value in node["properties"].items()}
    if str(result.get("$ref", "")).startswith(_DEFS):
        result["$ref"] += _PARTIAL
    return result


def _used(definitions: dict[str, Any], root: Any) -> dict[str, Any]:  # noqa: ANN401 - a JSON Schema can contain any value
    used: set[str] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).removeprefix(_DEFS)
            if name in definitions and name not in used:
                used.add(name)
                waiting.append(definitions[name])
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return {name: body for name, body in definitions.items() if name in used}
