"""Formats names and values as Spark SQL."""

from __future__ import annotations

import hashlib
from datetime import UTC
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from floe_core.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


def quoted(name: str) -> str:
    """Quote one part of a name.

    Raises:
        CapabilityError: Spark would substitute a variable in the name.
    """
    if "${" in name:
        msg = f"The name '{name}' contains '${{', which Spark would replace as a variable."
        raise CapabilityError(msg, hint="Pass engine='arrow', or rename it.")
    return "`" + name.replace("`", "``") + "`"


def quoted_path(path: Sequence[str]) -> str:
    """Quote the path of a column or nested field."""
    return ".".join(quoted(part) for part in path)


def column_path(schema: StructType, name: str) -> list[str] | None:
    """Split a column name into path parts; a dot that is part of a name does not separate."""
    fields = {field.name: field.dataType for field in schema.fields}
    parts = name.split(".")
    for taken in range(len(parts), 0, -1):
        head = ".".join(parts[:taken])
        if head not in fields:
            continue
        if taken == len(parts):
            return [head]
        kind = fields[head]
        rest = column_path(kind, ".".join(parts[taken:])) if isinstance(kind, StructType) else None
        if rest is not None:
            return [head, *rest]
    return None


def table_name(catalog: str, table: str, *, branch: str | None = None) -> str:
    """Return the full name of ``namespace.table``, or of a branch of it."""
    parts = [catalog, *table.split(".")]
    if branch is not None:
        # Only this suffix selects a branch: Spark ignores the write option ``branch`` and would write to main.
        parts.append(f"branch_{branch}")
    return ".".join(quoted(part) for part in parts)


def text_literal(text: str) -> str:
    """Return a string literal; dollar signs are escaped because Spark would substitute ${…}."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def timestamp_text(moment: datetime) -> str:
    """Format a timestamp independently of the session time zone; a naive one is local time."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def timestamp_literal(moment: datetime) -> str:
    """Return a timestamp literal."""
    return f"TIMESTAMP '{timestamp_text(moment)}'"


def map_literal(options: Mapping[str, str]) -> str:
    """Return a map literal of strings."""
    return "map(" + ", ".join(text_literal(part) for pair in options.items() for part in pair) + ")"


def tag_of(operation_id: str) -> str:
    """Return the tag of an operation's jobs; also used as a view name."""
    return f"floe_operation_{hashlib.sha256(operation_id.encode()).hexdigest()[:32]}"
