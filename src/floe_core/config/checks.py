"""Checks of floe.yaml beyond its schema: variables are set, secrets absent, plugins and columns known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from floe_core.config.environments import ENVIRONMENTS_KEY, Layers, environment_names
from floe_core.config.nodes import FREE_TEXT_MAPS, path_text
from floe_core.config.problems import nearest, shown
from floe_core.observing.redaction import is_secret_key, redact_text
from floe_core.plugins.metadata import PluginType
from floe_core.secrets import ENV_REFERENCE, expand, missing_variables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from floe_core.config.document import Document
    from floe_core.config.nodes import Path
    from floe_core.errors import ConfigProblem

PLUGIN_SECTIONS = {
    "catalog": PluginType.CATALOG,
    "storage": PluginType.STORAGE,
    "compute": PluginType.COMPUTE,
    "orchestration": PluginType.ORCHESTRATOR,
    "vault": PluginType.SECRETS,
}

_PROSE = frozenset({"description", "doc", "reason"})
_SIGNED_URL = re.compile(r"[?&;](sig|signature|x-amz-signature|x-goog-signature|x-amz-security-token)=.", re.IGNORECASE)
# Settings about a secret that do not contain it: its location, its lifetime, the class that fetches it.
_ABOUT_A_SECRET = re.compile(
    r"(file|path|dir|name|ref|id|class|provider|enabled|required|ms|seconds|minutes|size|length|uri|url|endpoint|type)$",
    re.IGNORECASE,
)
_HARMLESS = frozenset({"", "true", "false", "none"})
_SECRET_FIX = "Use a reference instead, such as ${MY_SECRET}, and set the variable where floe runs"  # noqa: S105 - advice
_TERM_COLUMN = re.compile(r"(?:\w+\(\s*(?:\d+\s*,\s*)?)?(?P<column>[\w.]+)")


def missing_variable_problems(
    layers: Layers, data: Mapping[str, Any], environ: Mapping[str, str] | None
) -> list[ConfigProblem]:
    """Return the ``${VAR}`` references without a default whose variable is not set."""
    return [
        layers.problem(
            f"{path_text(path)} needs the environment variable {name}, which is not set",
            path,
            fix=f"Set it with: export {name}=…{_default_hint(name, path)}",
        )
        for path, text in _texts(data)
        if path[-1] not in _PROSE
        for name in missing_variables(text, environ)
    ]


def literal_secret_problems(document: Document) -> list[ConfigProblem]:
    """Return the secrets that the file contains as plain text; their values are not repeated."""
    layers = Layers(document)
    return [
        layers.problem(f"{path_text(path)} contains a secret in plain text", path, fix=_SECRET_FIX)
        for path, text in _texts(document.data)
        if _is_literal_secret(path, text)
    ]


def unknown_plugin_problems(
    document: Document, known: Mapping[PluginType, Collection[str]], environ: Mapping[str, str] | None
) -> list[ConfigProblem]:
    """Return the plugins that the file names but that are not installed; defaults are looked up when they are used."""
    layers = Layers(document)
    problems = []
    for prefix, data in _levels(document):
        for section, plugin_type in PLUGIN_SECTIONS.items():
            name = data[section].get("type") if isinstance(data.get(section), dict) else None
            if not isinstance(name, str) or plugin_type not in known or missing_variables(name, environ):
                continue
            if (resolved := expand(name, environ).strip()) and resolved not in known[plugin_type]:
                path = (*prefix, section, "type")
                problems.append(_unknown_plugin(layers, path, section, resolved, sorted(known[plugin_type])))
    return problems


def unknown_column_problems(layers: Layers, data: Mapping[str, Any]) -> list[ConfigProblem]:
    """Return the keys, partition and sort terms and checks that use a column their table does not declare."""
    declared = data.get("tables")
    tables: dict[str, Any] = declared if isinstance(declared, dict) else {}
    problems = []
    for name, table in tables.items():
        columns = _column_names(table)
        for setting in ("keys", "partition_by", "sort_by") if columns else ():
            for index, term in enumerate(table.get(setting) or () if isinstance(table.get(setting), list) else ()):
                found = _TERM_COLUMN.match(term.strip()) if isinstance(term, str) else None
                column = found["column"] if found else None
                if column is None or column in columns or column.partition(".")[0] in columns:
                    continue
                path: Path = ("tables", name, setting, index)
                problems.append(unknown_column(layers, path, f"{setting} of {name}", column, columns))
        for path, column in _checked_columns(name, table) if columns else ():
            if column not in columns and column.partition(".")[0] not in columns:
                problems.append(unknown_column(layers, path, f"a check of {name}", column, columns))
        problems += _unknown_in_other_tables(layers, name, table, tables)
    return problems


def _unknown_in_other_tables(
    layers: Layers, name: str, table: object, tables: Mapping[str, Any]
) -> Iterator[ConfigProblem]:
    """Yield the columns that a relationship looks up in another table but that table does not declare."""
    if not isinstance(table, dict) or not isinstance(table.get("checks"), list):
        return
    for index, check in enumerate(table["checks"]):
        other = check.get("to") if isinstance(check, dict) else None
        columns = _column_names(tables.get(other)) if isinstance(other, str) else {}
        if not columns:
            continue
        path: Path = ("tables", name, "checks", index)
        own = [(where[len(path) :], column) for where, column in _checked_columns(name, table) if where[:4] == path]
        given = check.get("to_columns")
        looked_up = [(("to_columns", place), column) for place, column in enumerate(given or ())] if given else own
        for where, column in looked_up:
            if isinstance(column, str) and column not in columns and column.partition(".")[0] not in columns:
                yield unknown_column(layers, (*path, *where), f"a check of {name} against {other}", column, columns)


def unknown_column(layers: Layers, path: Path, what: str, column: str, columns: Mapping[str, None]) -> ConfigProblem:
    """Describe a column that is used but not declared."""
    close = nearest(column, columns)
    message = f"column '{column}' in {what} is not declared"
    message += f", did you mean '{close}'?" if close else ""
    fix = f"Write '{close}'" if close else f"Declare it under columns; declared: {_some(columns)}"
    return layers.problem(message, path, fix=fix)


def _checked_columns(name: str, table: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the columns used by the checks of a table, with their paths."""
    checks = table.get("checks")
    for index, check in enumerate(checks) if isinstance(checks, list) else ():
        if not isinstance(check, dict):
            continue
        path: Path = ("tables", name, "checks", index)
        if isinstance(check.get("column"), str):
            yield (*path, "column"), check["column"]
        listed = check.get("columns")
        for place, column in enumerate(listed) if isinstance(listed, list) else ():
            if isinstance(column, str):
                yield (*path, "columns", place), column


def _unknown_plugin(layers: Layers, path: Path, section: str, name: str, names: list[str]) -> ConfigProblem:
    close = nearest(name, names)
    message = f"no {section} plugin {shown(name, ())} is installed" + (f", did you mean '{close}'?" if close else "")
    installed = f"Installed: {', '.join(names) or 'none'}"
    fix = f"Write '{close}'" if close else f"{installed}. Use one of them, or install the package that provides it"
    return layers.problem(message, path, fix=fix)


def _levels(document: Document) -> Iterator[tuple[Path, dict[str, Any]]]:
    yield (), document.data
    for name in environment_names(document):
        override = document.data[ENVIRONMENTS_KEY][name]
        if isinstance(override, dict):
            yield (ENVIRONMENTS_KEY, name), override


def _is_literal_secret(path: Path, text: str) -> bool:
    references = list(ENV_REFERENCE.finditer(text))
    # A default value is plain text as well.
    rest = ENV_REFERENCE.sub(lambda match: match["default"] or "", text)
    free = len(path) > 1 and path[-2] in FREE_TEXT_MAPS
    if free and is_secret_key(str(path[-1])) and not _ABOUT_A_SECRET.search(str(path[-1])):
        only_references = bool(references) and all(not match["default"] for match in references)
        return not only_references and text.strip().lower() not in _HARMLESS
    if "-----BEGIN" in rest and "PRIVATE KEY" in rest:
        return True
    looks_like_address = "://" in rest and path[-1] not in _PROSE
    if looks_like_address and _SIGNED_URL.search(rest):
        return True
    return (free or looks_like_address) and redact_text(rest) != rest


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:  # noqa: ANN401 - a document can contain any value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
    elif isinstance(value, str) and path:
        yield path, value


def _default_hint(name: str, path: Path) -> str:
    secret = any(isinstance(part, str) and is_secret_key(part) for part in path)
    return "" if secret else f", or set a default: ${{{name}:-value}}"


def _column_names(table: object) -> dict[str, None]:
    columns = table.get("columns") if isinstance(table, dict) else None
    if not isinstance(columns, list):
        return {}
    return {
        column["name"]: None for column in columns if isinstance(column, dict) and isinstance(column.get("name"), str)
    }


def _some(names: Collection[str], limit: int = 10) -> str:
    listed = list(names)
    return ", ".join(listed[:limit]) + (", …" if len(listed) > limit else "")
