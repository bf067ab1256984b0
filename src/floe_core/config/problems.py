"""Explain validation errors: which value is wrong, where it is, and what to write instead."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from floe_core.config.fields import field_at, keys_at, sections_with
from floe_core.config.nodes import path_text
from floe_core.observing.redaction import is_secret_key, redact_text
from floe_core.secrets import REFERENCE_HINT, SecretReference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

    from floe_core.config.environments import Layers
    from floe_core.config.nodes import Path
    from floe_core.errors import ConfigProblem

_MAX_SHOWN = 60
# Messages of validators that already say what to write.
_CONTAINS_FIX = re.compile(r"; use |\?$")
_KEY_MARK = "[key]"
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "not_a_number": "a number",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "tuple_type": "a list",
    "list_type": "a list",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def problems_of(err: ValidationError, layers: Layers, model: type[BaseModel], *, at: Path = ()) -> list[ConfigProblem]:
    """Return one located problem for each error.

    Args:
        err: The validation error.
        layers: The validated document.
        model: The model it was validated against.
        at: The path of the validated value in the project.
    """
    return [_problem(item, layers, model, at) for item in err.errors(include_url=False)]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a misspelled one; None if there is none."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), list(by_lower), n=1)
    return by_lower[close[0]] if close else None


def shown(value: object, path: Path) -> str:
    """Render an invalid value; a value that may be a secret is not shown."""
    if any(isinstance(part, str) and is_secret_key(part) for part in path):
        return "not shown"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "empty"}[value]
    text = redact_text(str(value))
    text = text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
    return f"'{text}'" if isinstance(value, str) else text


def _problem(item: ErrorDetails, layers: Layers, model: type[BaseModel], at: Path) -> ConfigProblem:
    loc: Path = item["loc"]
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(loc, layers, model, at)
    if kind == "missing":
        return _missing_key(loc, layers, model, at)
    if loc and loc[-1] == _KEY_MARK:
        return _bad_key(loc[:-1], layers, at)
    path = (*at, *loc)
    field = field_at(model, loc)
    if field is not None and field.model is SecretReference and not isinstance(value, dict):
        message = f"{path_text(path)} contains a secret in plain text, or a value that is not a reference"
        return layers.problem(message, path, fix=REFERENCE_HINT)
    wrong, fix = _explain(kind, value, context, item["msg"], field.description if field else "")
    text = shown(value, path)
    # A message about a whole mapping, or one that quotes the value, does not need the value again.
    explains_itself = kind == "value_error" and (isinstance(value, dict) or (isinstance(value, str) and text in wrong))
    subject = path_text(path) if explains_itself else f"{path_text(path)} is {text}"
    return layers.problem(f"{subject}: {wrong}", path, fix=fix)


def _unknown_key(loc: Path, layers: Layers, model: type[BaseModel], at: Path) -> ConfigProblem:
    key, path = str(loc[-1]), (*at, *loc)
    known = keys_at(model, loc[:-1])
    sections = sections_with(model, key) if len(loc) == 1 else []
    if close := nearest(key, known):
        message, fix = f"unknown key {shown(key, ())}, did you mean '{close}'?", f"Write '{close}'"
    elif sections:
        message, fix = f"unknown key {shown(key, ())} here", f"Move it under '{sections[0]}'"
    else:
        message, fix = f"unknown key {shown(key, ())}", f"Remove it; keys here: {', '.join(known)}"
    return layers.problem(message, path, fix=fix, key=True)


def _missing_key(loc: Path, layers: Layers, model: type[BaseModel], at: Path) -> ConfigProblem:
    path = (*at, *loc)
    field = field_at(model, loc)
    about = f" ({field.description.rstrip('.')})" if field and field.description else ""
    where = f" in {path_text(path[:-1])}" if len(path) > 1 else ""
    return layers.problem(f"the key '{loc[-1]}' is missing{where}", path, fix=f"Add: {loc[-1]}: …{about}", key=True)


def _bad_key(path: Path, layers: Layers, at: Path) -> ConfigProblem:
    name = shown(str(path[-1]), ())
    if path[:-1] == ("tables",):
        message, fix = f"{name} is not a valid table name", "Write namespace.table, such as bronze.orders"
    else:
        message, fix = f"{name} is not a valid key", "Use a text that is not empty"
    return layers.problem(message, (*at, *path), fix=fix, key=True)


def _explain(kind: str, value: object, context: Mapping[str, Any], msg: str, description: str) -> tuple[str, str]:
    """Return what is wrong with a value and how to fix it, given the description of its field."""
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}", _type_fix(kind, value) or description or f"Write {_EXPECTED[kind]}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"it must be {words} {context[bound]}", description
    if kind in ("enum", "literal_error"):
        return _choice(str(value), str(context["expected"]), description)
    if kind == "string_too_short":
        return "it is too short", f"Write at least {context['min_length']} characters, or remove the key"
    if kind == "string_pattern_mismatch":
        return "it has the wrong format" + ("; ${…} is not supported here" if "${" in str(value) else ""), description
    reason = redact_text(str(context["error"]) if kind == "value_error" else msg)
    return reason, "" if _CONTAINS_FIX.search(reason) else description


def _choice(value: str, choices: str, description: str) -> tuple[str, str]:
    close = nearest(value, [word.strip("' ") for word in choices.replace(" or ", ",").split(",")])
    return f"it must be {choices}", f"Write '{close}'" if close else description


def _type_fix(kind: str, value: object) -> str:
    if isinstance(value, str) and "${" in value:
        return "${…} is supported only in text: write the value itself, or set it per environment under 'environments'"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f'Put it in quotes: "{str(value).lower() if isinstance(value, bool) else value}"'
    if _EXPECTED[kind] == "a list":
        return "Write [a, b], or one '- item' per line"
    if _EXPECTED[kind] == "a mapping of keys":
        return "Write 'key: value' lines under it"
    return ""
