"""Table declarations from floe.yaml or from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from floe_core.errors import ConfigurationError
from floe_core.schemas import ColumnConfig, TableConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floe_core.schemas import CompiledArtifacts

_BRACKETS = {"<": 1, "(": 1, ">": -1, ")": -1}
_REQUIRED = (" not null", " required")


def declared_table(artifacts: CompiledArtifacts, name: str) -> TableConfig:
    """Return a table's declaration in floe.yaml.

    Raises:
        ConfigurationError: floe.yaml does not declare the table.
    """
    if name in artifacts.tables:
        return artifacts.tables[name]
    known = ", ".join(artifacts.tables) or "none"
    msg = f"Table '{name}' is not declared in floe.yaml. Declared tables: {known}."
    raise ConfigurationError(msg, hint='Declare it under tables, or pass --schema "id long not null, name string".')


def typed_table(schema: str, partition_by: Sequence[str], sort_by: Sequence[str]) -> TableConfig:
    """Parse a table definition such as ``id long not null, total decimal(10, 2)``.

    Raises:
        ConfigurationError: The column list or a partition or sort term is invalid.
    """
    try:
        return TableConfig(
            columns=tuple(_column(text) for text in _split(schema)),
            partition_by=tuple(partition_by),
            sort_by=tuple(sort_by),
        )
    except ValidationError as err:
        reasons = "; ".join(problem["msg"].removeprefix("Value error, ") for problem in err.errors(include_url=False))
        msg = f"Invalid table definition: {reasons}{'' if reasons.endswith('?') else '.'}"
        raise ConfigurationError(msg) from err


def _column(text: str) -> ColumnConfig:
    ending = next((ending for ending in _REQUIRED if text.lower().endswith(ending)), "")
    name, _, kind = text.removesuffix(text[len(text) - len(ending) :] if ending else "").strip().partition(" ")
    if not name or not kind.strip():
        msg = f"'{text}' is not a valid column definition."
        raise ConfigurationError(msg, hint='Write a name and a type, such as "id long not null, total decimal(10, 2)".')
    return ColumnConfig(name=name, type=kind.strip(), required=bool(ending))


def _split(schema: str) -> list[str]:
    """Split at the commas outside brackets."""
    parts, depth = [""], 0
    for character in schema:
        depth += _BRACKETS.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
