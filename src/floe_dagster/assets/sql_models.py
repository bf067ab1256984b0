"""SQL models as assets: the inputs are the tables that the query reads, the output is its result.

The query runs unchanged, except for the names of tables. The IO manager reads the tables as for a Python asset, so
partitions, tenants and retries work the same way.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import sqlglot
from dagster import AssetIn, AssetKey, AssetsDefinition, asset
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from floe_core.config.sql_models import SqlModel, read_sql_models
from floe_core.errors import ConfigProblem, ConfigurationError
from floe_dagster.assets.keys import keys_by_table
from floe_dagster.io.frames import ENGINE_FRAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from dagster import PartitionsDefinition
    from sqlglot.optimizer.scope import Scope

    from floe_dagster.engine import ProjectEngine


@dataclass(frozen=True)
class _Replacement:
    """A part of the text to remove, or to replace with a table name between ``before`` and ``after``."""

    start: int
    end: int
    table: str | None
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Query:
    """A model's query, with the tables that it reads.

    Attributes:
        tables: The tables, each once, in order of appearance.
        text: The source text.
    """

    tables: tuple[str, ...]
    text: str
    replacements: tuple[_Replacement, ...] = ()

    def over(self, names: Mapping[str, str]) -> str:
        """Return the query with other names for its tables."""
        parts, place = [], 0
        for one in sorted(self.replacements, key=lambda found: found.start):
            name = names[one.table] if one.table is not None else ""
            parts += [self.text[place : one.start], one.before, name, one.after]
            place = one.end
        return "".join([*parts, self.text[place:]])


def parse_query(model: SqlModel, *, dialect: str, default_namespace: str = "public") -> Query:
    """Find the tables that a model reads.

    Args:
        model: The model.
        dialect: The dialect of the engine that runs the query.
        default_namespace: Namespace of unqualified table names.

    Raises:
        ConfigurationError: The file does not contain exactly one valid query.
    """
    try:
        statements = [one for one in sqlglot.parse(model.text, dialect=dialect) if one is not None]
    except SqlglotError as err:
        raise _failed(model, _syntax_problem(model, err)) from err
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        what = f"{len(statements)} statements" if len(statements) != 1 else "a statement that is not a query"
        raise _failed(
            model,
            model.problem(f"a model must contain exactly one query, but this file has {what}", fix="Keep one SELECT"),
        )
    tables: dict[str, None] = {}
    found: list[_Replacement] = []
    scopes = traverse_scope(statements[0])
    for node in (source for scope in scopes for source in scope.sources.values() if isinstance(source, exp.Table)):
        if not isinstance(node.this, exp.Identifier):
            continue
        table = _table(model, node, default_namespace, dialect)
        tables[table] = None
        found.append(_renamed(node, table, dialect))
    # A column of a subquery belongs to the inner scope, which comes first; the outer one lists it again.
    columns = {
        id(column): (column, scope)
        for scope in reversed(scopes)
        for column in (*scope.columns, *scope.stars)
        if isinstance(column, exp.Column)
    }
    found += [
        _unqualified(column) for column, scope in columns.values() if _names_table(column, scope, default_namespace)
    ]
    return Query(tuple(tables), model.text, tuple(dict.fromkeys(found)))


def _syntax_problem(model: SqlModel, err: SqlglotError) -> ConfigProblem:
    details = getattr(err, "errors", None) or [{}]
    first = details[0]
    message = str(first.get("description") or "this is not valid SQL").rstrip(".")
    return ConfigProblem(f"{message}", model.file, first.get("line") or 1, first.get("col") or 1, model.table)


def _failed(model: SqlModel, problem: ConfigProblem) -> ConfigurationError:
    return ConfigurationError(f"{model.file} has 1 mistake.", problems=[problem])


def _table(model: SqlModel, node: exp.Table, default_namespace: str, dialect: str) -> str:
    place = _first(node).meta["start"]
    if node.catalog:
        fix = "Use namespace.table"
        raise _failed(model, model.problem(f"'{node.sql(dialect)}' has more than two parts", place=place, fix=fix))
    if node.args.get("version") or node.args.get("when"):
        fix = "Use a Python asset, and set the version in the metadata of its AssetIn"
        raise _failed(model, model.problem("time travel is not supported in models", place=place, fix=fix))
    return f"{node.db or default_namespace}.{node.name}"


def _first(node: exp.Table) -> exp.Identifier:
    found: exp.Identifier = node.args.get("catalog") or node.args.get("db") or node.this
    return found


def _renamed(node: exp.Table, table: str, dialect: str) -> _Replacement:
    def quoted(name: str) -> str:
        return exp.to_identifier(name, quoted=True).sql(dialect)

    # A table without an alias keeps its name in the query.
    alias = "" if node.alias else f" AS {quoted(node.name)}"
    before, after = quoted("_").split("_")
    return _Replacement(_first(node).meta["start"], node.this.meta["end"] + 1, table, before, f"{after}{alias}")


def _names_table(column: exp.Column, scope: Scope, default_namespace: str) -> bool:
    """Whether a column begins with ``namespace.table``, and not with an alias as in ``alias.struct.field``."""
    if not column.args.get("db"):
        return False
    namespace, table = (part.name.casefold() for part in column.parts[:2])
    around: Scope | None = scope
    while around is not None:
        if namespace in map(str.casefold, around.sources):
            return False
        for source in around.sources.values():
            if isinstance(source, exp.Table) and not source.alias and source.name.casefold() == table:
                return (source.db or default_namespace).casefold() == namespace
        around = around.parent
    return False


def _unqualified(column: exp.Column) -> _Replacement:
    """Remove the namespace from ``namespace.table.column``: in the query, the table has an unqualified name."""
    namespace, table = column.parts[:2]
    return _Replacement(namespace.meta["start"], table.meta["start"], None)


def load_sql_models(
    folder: Path, root: Path, assets: Iterable[Any], *, engine: ProjectEngine, default_namespace: str = "public"
) -> list[AssetsDefinition]:
    """Create assets from a project's SQL models.

    Args:
        folder: The folder of the models; it need not exist.
        root: The project's folder.
        assets: The project's other assets, which models may read.
        engine: The engine that runs the queries.
        default_namespace: Namespace of unqualified table names.

    Raises:
        ConfigurationError: A model is not valid; every mistake in its header is listed.
    """
    models = {model.table: model for model in read_sql_models(folder, root)}
    if not models:
        return []
    known: dict[str, AssetKey] = {}
    partitions: dict[str, PartitionsDefinition | None] = {}
    for definition in assets:
        for spec in definition.specs if isinstance(definition, AssetsDefinition) else ():
            for table, key in keys_by_table([spec.key], default_namespace=default_namespace).items():
                known[table], partitions[table] = key, spec.partitions_def
    dialect = engine.sql_dialect
    queries = {
        table: parse_query(model, dialect=dialect, default_namespace=default_namespace)
        for table, model in models.items()
    }
    made: list[AssetsDefinition] = []
    for table in _ordered(models, queries):
        model = models[table]
        if table in known:
            raise _failed(model, model.problem(f"another asset also writes '{table}'", fix="Rename one of them"))
        partitions[table] = _partitions(model, partitions)
        made.append(_asset(model, queries[table], partitions[table], known, engine))
    return made


def _ordered(models: Mapping[str, SqlModel], queries: Mapping[str, Query]) -> Sequence[str]:
    graph = {
        table: models.keys() & {*query.tables, models[table].config.partitions} for table, query in queries.items()
    }
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as err:
        cycle = " → ".join(reversed(err.args[1]))
        model = models[err.args[1][0]]
        raise _failed(model, model.problem(f"models form a cycle: {cycle}")) from err


def _partitions(model: SqlModel, known: Mapping[str, PartitionsDefinition | None]) -> PartitionsDefinition | None:
    wanted = model.config.partitions
    if wanted is None:
        return None
    if known.get(wanted) is None:
        partitioned = [table for table, definition in known.items() if definition is not None]
        close = get_close_matches(wanted, partitioned, n=1)
        fix = f"Did you mean '{close[0]}'?" if close else f"Tables with partitions: {', '.join(partitioned) or 'none'}."
        raise _failed(model, model.problem(f"'{wanted}' is not a partitioned asset", fix=fix))
    return known[wanted]


def _asset(
    model: SqlModel,
    query: Query,
    partitions_def: PartitionsDefinition | None,
    known: Mapping[str, AssetKey],
    engine: ProjectEngine,
) -> AssetsDefinition:
    inputs = {f"table_{number}": table for number, table in enumerate(query.tables)}
    incremental = set(model.config.incremental)
    if unread := sorted(incremental - set(query.tables)):
        fix = f"It reads: {', '.join(query.tables) or 'nothing'}."
        raise _failed(
            model, model.problem(f"incremental contains '{unread[0]}', which the query does not read", fix=fix)
        )

    def read(table: str) -> AssetIn:
        key = known.get(table, AssetKey(table.split(".")))
        return AssetIn(key, dagster_type=ENGINE_FRAME, metadata={"incremental": table in incremental})

    @asset(
        key=list(model.path),
        ins={name: read(table) for name, table in inputs.items()},
        description=model.config.description or f"The query of {model.file}.",
        metadata=model.config.metadata(),
        partitions_def=partitions_def,
        kinds={"sql", engine.name},
        code_version=hashlib.sha256(model.text.encode()).hexdigest()[:12],
        required_resource_keys={"tables"},
    )
    def run_model(context, **frames):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN003, ANN202 - Dagster refuses annotations that are text
        tables = {inputs[name]: frame for name, frame in frames.items()}
        return context.resources.tables.context.plane().query(tables, query.over)

    return run_model
