"""Changes to table metadata in Spark SQL: refs, properties and columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from floe_core.declaration.column_types import DecimalOf, ListOf, MapOf, SimpleType, StructOf, parse_column_type
from floe_core.errors import CapabilityError
from floe_spark.plane.sql import quoted, table_name, text_literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from floe_core.dataplane import ColumnRequest, RefRequest
    from floe_core.declaration.column_types import ColumnType

_MINUTE_MS = 60_000
_SPARK_NAMES = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "string": "STRING",
    "binary": "BINARY",
}


class Definition:
    """Changes the metadata of tables in one catalog."""

    def __init__(self, session: SparkSession, catalog: str) -> None:
        """Use a session and a catalog."""
        self._session = session
        self._catalog = catalog

    def set_ref(self, table: str, ref: RefRequest) -> None:
        """Create or replace a branch or tag."""
        verb = "CREATE OR REPLACE" if ref.replace else "CREATE"
        position = f" AS OF VERSION {ref.snapshot_id}" if ref.snapshot_id is not None else ""
        self._alter(table, f"{verb} {_kind(ref.kind)} {quoted(ref.name)}{position}{_retention(ref)}")

    def remove_ref(self, table: str, name: str, *, kind: str) -> None:
        """Remove a branch or tag."""
        self._alter(table, f"DROP {_kind(kind)} {quoted(name)}")

    def fast_forward(self, table: str, branch: str, *, to: str) -> None:
        """Move a branch forward to the head of a descendant branch."""
        self._call("fast_forward", table, branch=text_literal(branch), to=text_literal(to))

    def roll_back(self, table: str, snapshot_id: int) -> None:
        """Roll main back to an earlier snapshot."""
        self._call("rollback_to_snapshot", table, snapshot_id=f"{snapshot_id}L")

    def set_properties(self, table: str, *, updates: Mapping[str, str], removals: Sequence[str]) -> None:
        """Set and remove properties."""
        if updates:
            pairs = ", ".join(f"{text_literal(key)} = {text_literal(value)}" for key, value in updates.items())
            self._alter(table, f"SET TBLPROPERTIES ({pairs})")
        if removals:
            self._alter(table, f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(text_literal(key) for key in removals)})")

    def change_columns(self, table: str, changes: Sequence[ColumnRequest]) -> None:
        """Change columns, after checking that Spark supports every change."""
        for statement in [_column_statement(table, change) for change in changes]:
            self._alter(table, statement)

    def _alter(self, table: str, change: str) -> None:
        self._session.sql(f"ALTER TABLE {table_name(self._catalog, table)} {change}").collect()

    def _call(self, procedure: str, table: str, **arguments: str) -> None:
        name = text_literal(".".join(quoted(part) for part in table.split(".")))
        listed = ", ".join(f"{key} => {value}" for key, value in {"table": name, **arguments}.items())
        self._session.sql(f"CALL {quoted(self._catalog)}.system.{procedure}({listed})").collect()


def _kind(kind: str) -> str:
    return "BRANCH" if kind == "branch" else "TAG"


def _retention(ref: RefRequest) -> str:
    kept = f" RETAIN {_minutes(ref.max_ref_age_ms)} MINUTES" if ref.max_ref_age_ms is not None else ""
    least = f" {ref.min_snapshots_to_keep} SNAPSHOTS" if ref.min_snapshots_to_keep is not None else ""
    age = f" {_minutes(ref.max_snapshot_age_ms)} MINUTES" if ref.max_snapshot_age_ms is not None else ""
    return f"{kept} WITH SNAPSHOT RETENTION{least}{age}" if least or age else kept


def _minutes(millis: int) -> int:
    # Minutes are the smallest unit that the statement supports; rounding up keeps refs slightly longer.
    return max(1, math.ceil(millis / _MINUTE_MS))


def _column_statement(table: str, change: ColumnRequest) -> str:  # noqa: PLR0911 - one statement per kind
    column = ".".join(quoted(part) for part in change.path)
    comment = f" COMMENT {text_literal(change.doc)}" if change.doc is not None else ""
    match change.kind:
        case "add":
            position = f" AFTER {quoted(change.after)}" if change.after else ""
            return f"ADD COLUMN {column} {spark_type(table, change.type)}{comment}{position}"
        case "widen":
            return f"ALTER COLUMN {column} TYPE {spark_type(table, change.type)}"
        case "make_optional":
            return f"ALTER COLUMN {column} DROP NOT NULL"
        case "rename":
            return f"RENAME COLUMN {column} TO {quoted(str(change.new_name))}"
        case "reorder":
            return f"ALTER COLUMN {column} {f'AFTER {quoted(change.after)}' if change.after else 'FIRST'}"
        case "doc":
            return f"ALTER COLUMN {column}{comment or ' COMMENT ' + text_literal('')}"
        case "drop":
            return f"DROP COLUMN {column}"
        case _:
            msg = f"Spark cannot {change.kind.replace('_', ' ')} column '{'.'.join(change.path)}' of '{table}'."
            raise CapabilityError(msg, table=table)


def spark_type(table: str, text: str | None) -> str:
    """Return a column type in Spark SQL syntax.

    Raises:
        CapabilityError: Spark does not support the type.
    """
    return _sql_type(table, parse_column_type(text or ""))


def _sql_type(table: str, kind: ColumnType) -> str:
    match kind:
        case SimpleType(name) if name in _SPARK_NAMES:
            return _SPARK_NAMES[name]
        case DecimalOf(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case ListOf():
            return f"ARRAY<{_sql_type(table, kind.element)}>"
        case MapOf():
            return f"MAP<{_sql_type(table, kind.key)}, {_sql_type(table, kind.value)}>"
        case StructOf(fields):
            inside = (
                f"{quoted(field.name)}: {_sql_type(table, field.type)}{' NOT NULL' if field.required else ''}"
                for field in fields
            )
            return f"STRUCT<{', '.join(inside)}>"
        case _:
            msg = f"Spark cannot add a column of type {getattr(kind, 'name', 'fixed')} to '{table}'."
            raise CapabilityError(msg, table=table)
