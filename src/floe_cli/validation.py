"""Checks of ``floe validate`` beyond floe.yaml's syntax: tables can be created, and assets can be loaded."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.util import find_spec
from typing import TYPE_CHECKING

from floe_core.config.checks import unknown_column
from floe_core.errors import ConfigProblem, ConfigurationError, FloeStorageError
from floe_core.plugins import PluginType
from floe_core.plugins.registry import PluginRegistry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from floe_core.config.environments import Layers
    from floe_core.config.nodes import Path as DocumentPath
    from floe_core.schemas import CatalogConfig, CompiledArtifacts, TableConfig
    from floe_dagster.runs.pipeline import Pipeline

_MODULE = ("orchestration", "module")


def table_problems(layers: Layers, artifacts: CompiledArtifacts) -> list[ConfigProblem]:
    """Return the problems that would prevent the creation of a declared table."""
    return [problem for name, config in artifacts.tables.items() for problem in _of_table(layers, name, config)]


def _of_table(layers: Layers, name: str, config: TableConfig) -> Iterator[ConfigProblem]:
    from floe_iceberg.table.schema import declared_schema
    from floe_iceberg.table.specs import check_spec, partition_spec, sort_order

    if not config.columns:
        return
    schema = declared_schema(config.columns)
    valid = True
    for setting, terms in (("partition_by", config.partition_by), ("sort_by", config.sort_by)):
        for index, term in enumerate(terms or ()):
            try:
                if setting == "sort_by":
                    sort_order([term], schema)
                else:
                    check_spec(partition_spec([term], schema), schema)
            except FloeStorageError as err:
                valid = False
                yield _located(layers, ("tables", name, setting, index), err)
    try:
        # Terms that are valid alone can conflict with each other.
        check_spec(partition_spec(config.partition_by if valid else (), schema), schema)
    except FloeStorageError as err:
        yield _located(layers, ("tables", name, "partition_by"), err)


def unused_settings(config: CatalogConfig) -> list[str]:
    """Return a message for each key of the ``catalog`` section that its catalog plugin ignores."""
    try:
        plugin = PluginRegistry().get(PluginType.CATALOG, config.type)
    except FloeStorageError:
        # Connecting to the catalog reports this problem.
        return []
    taken = plugin.capabilities.resilience
    written = [
        f"{section}.{key}"
        for section in ("retry", "circuit_breaker")
        if section in config.model_fields_set and section not in taken
        for key in sorted(getattr(config, section).model_fields_set)
    ]
    return [f"The '{config.type}' catalog ignores catalog.{key}." for key in written if key not in taken]


def asset_problems(layers: Layers, artifacts: CompiledArtifacts) -> list[ConfigProblem]:
    """Return the problems in a project's checks and assets, and in the declarations of the tables they write."""
    if artifacts.orchestration.type != "dagster" or not can_load():
        return []
    if wrong := list(_of_checks(layers, artifacts)):
        return wrong
    if artifacts.orchestration.module is None:
        return list(_of_relationships(layers, artifacts, artifacts.tables))
    from floe_dagster.runs.pipeline import Pipeline

    try:
        return list(_of_assets(layers, artifacts, Pipeline.of(artifacts)))
    except FloeStorageError as err:
        problems = err.problems if isinstance(err, ConfigurationError) else ()
        if without_location := [problem for problem in problems if not problem.line]:
            return [_placed(layers, problem, artifacts) for problem in without_location]
        # Report the place in floe.yaml along with the place in the module.
        return [_located(layers, _path_of(err, artifacts), err), *problems]


def can_load() -> bool:
    """Whether assets can be loaded, that is, whether the dagster extra is installed."""
    return find_spec("dagster") is not None


def _placed(layers: Layers, problem: ConfigProblem, artifacts: CompiledArtifacts) -> ConfigProblem:
    """Locate a problem in the assets: at the table it names, or at the module setting."""
    table = next((name for name in artifacts.tables if f"'{name}'" in problem.message), None)
    path: DocumentPath = ("tables", table) if table else _MODULE
    return layers.problem(problem.message.rstrip("."), path, fix=problem.fix, key=table is not None)


def _path_of(err: FloeStorageError, artifacts: CompiledArtifacts) -> DocumentPath:
    if err.table in artifacts.tables:
        return ("tables", str(err.table))
    schedule = next((name for name in artifacts.orchestration.schedules if f"'{name}'" in err.message), None)
    return ("orchestration", "schedules", schedule, "select") if schedule else _MODULE


def _of_checks(layers: Layers, artifacts: CompiledArtifacts) -> Iterator[ConfigProblem]:
    from floe_dagster.engine import ProjectEngine
    from floe_dagster.gate.checks import expand_checks

    dialect = ProjectEngine.of(artifacts.compute).sql_dialect
    for name, config in artifacts.tables.items():
        if wrong := list(_of_conditions(layers, name, config, dialect)):
            yield from wrong
            continue
        try:
            expand_checks(config.checks, table=name, sql_dialect=dialect)
        except FloeStorageError as err:
            yield _located(layers, ("tables", name, "checks"), err)


def _of_conditions(layers: Layers, name: str, config: TableConfig, dialect: str) -> Iterator[ConfigProblem]:
    """Check that the SQL of checks parses and refers to declared columns."""
    declared = {column.name: None for column in config.columns}
    folded = {column.casefold() for column in declared}
    for index, check in enumerate(config.checks):
        for setting, text in (("expression", check.expression), ("where", check.where)):
            if text is None:
                continue
            # Imported here: only projects with SQL in their checks need the parser.
            from floe_dagster.gate.conditions import parse_condition

            path: DocumentPath = ("tables", name, "checks", index, setting)
            try:
                columns = parse_condition(text, dialect).columns
            except FloeStorageError as err:
                yield layers.problem(err.message.rstrip("."), path, fix=err.hint or "")
                continue
            for column in columns if declared else ():
                if column.casefold() not in folded and not column.startswith("_"):
                    yield unknown_column(layers, path, f"a check of {name}", column, declared)


def _of_relationships(layers: Layers, artifacts: CompiledArtifacts, known: Iterable[str]) -> Iterator[ConfigProblem]:
    """Check that the tables named by relationship checks exist."""
    names = set(known)
    for name, config in artifacts.tables.items():
        for index, check in enumerate(config.checks):
            if check.to is None or check.to in names:
                continue
            close = get_close_matches(check.to, sorted(names), n=1)
            message = f"a check of {name} refers to '{check.to}', which is neither a declared table nor an asset"
            message += f", did you mean '{close[0]}'?" if close else ""
            fix = f"Write '{close[0]}'" if close else "Declare it under tables"
            yield layers.problem(message, ("tables", name, "checks", index, "to"), fix=fix)


def _of_assets(layers: Layers, artifacts: CompiledArtifacts, pipeline: Pipeline) -> Iterator[ConfigProblem]:
    from floe_dagster.assets.keys import keys_by_table
    from floe_dagster.assets.partitions import bind_partitions
    from floe_iceberg.table.schema import declared_schema

    written = {pipeline.table(key): key for key in pipeline.keys}
    assets = keys_by_table(pipeline.definitions.resolve_asset_graph().get_all_asset_keys())
    yield from _of_relationships(layers, artifacts, {*artifacts.tables, *assets})
    for name, config in artifacts.tables.items():
        key = written.get(name)
        if key is None:
            yield from _without_asset(layers, name, config, list(written))
            continue
        partitions_def = pipeline.spec(key).partitions_def
        if partitions_def is None or not config.columns or artifacts.orchestration.per_tenant:
            continue
        try:
            bind_partitions(partitions_def, declared_schema(config.columns), pipeline.column_choice(key))
        except FloeStorageError as err:
            yield _located(layers, ("tables", name, "columns"), err)


def _without_asset(layers: Layers, name: str, config: TableConfig, written: list[str]) -> Iterator[ConfigProblem]:
    """Report a table without an asset if it has checks, or if its name resembles an asset's table."""
    close = get_close_matches(name, written, n=1, cutoff=0.85)
    if not close and not config.checks:
        return
    message = f"no asset writes the table '{name}'" + (f", did you mean '{close[0]}'?" if close else "")
    message += "; its checks would never run" if config.checks and not close else ""
    fix = f"Write '{close[0]}'" if close else f"Tables of assets: {', '.join(sorted(written)) or 'none'}"
    yield layers.problem(message, ("tables", name), fix=fix, key=True)


def _located(layers: Layers, path: DocumentPath, err: FloeStorageError) -> ConfigProblem:
    return layers.problem(
        err.message.rstrip("."), path, fix=err.hint or "", key=path[0] == "tables" and isinstance(path[-1], str)
    )
