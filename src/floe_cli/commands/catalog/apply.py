"""``floe apply``: change tables to match floe.yaml."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.command import command, single_command
from floe_cli.commands.pipeline.run import TenantOption, require_tenant
from floe_cli.commands.tables.options import DryRunOption, YesOption
from floe_cli.output import Report, count, working
from floe_cli.reports.differences import difference_grid, effect_of, fix_lines, item_data
from floe_cli.workspace import Workspace
from floe_core.errors import USER_ERROR, ConfigurationError, FloeStorageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from floe_core.schemas import TableConfig
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.catalog.connection import ProjectConnection
    from floe_iceberg.table.declared.applying import DeclaredPlan

app = single_command()


@dataclass(frozen=True)
class _Table:
    """A table and the plan to apply its declaration."""

    name: str
    declared: "TableConfig"
    plan: "DeclaredPlan | None" = None
    failure: FloeStorageError | None = None

    @property
    def exit_code(self) -> int:
        if self.failure is not None:
            return self.failure.exit_code
        return USER_ERROR if self.plan is not None and self.plan.impossible else 0

    @property
    def data(self) -> dict[str, Any]:
        plan = self.plan
        problem = {"problem": str(self.failure)} if self.failure is not None else {}
        if plan is None:
            return {"table": self.name, "exists": None, "changed": False, "changes": [], "left": [], **problem}
        return {
            "table": self.name,
            "exists": plan.exists,
            "changed": plan.changed,
            "changes": [item_data(item) for item in plan.made],
            "left": [item_data(item) for item in plan.left],
            "impossible": [item_data(item) for item in plan.impossible],
            **problem,
        }


@command(app)
def apply(
    workspace: Workspace,
    select: Annotated[
        str | None,
        typer.Option(
            "--select",
            "-s",
            metavar="TABLES",
            help="Tables, such as bronze.orders,gold.*; default: all declared tables.",
        ),
    ] = None,
    tenant: TenantOption = None,
    *,
    drop_columns: Annotated[
        bool, typer.Option("--drop-columns", help="Drop columns that are no longer declared, after confirmation.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Change tables to match floe.yaml, and create missing ones.

    Each table is changed in one commit. Columns are added, widened, renamed (renamed_from), reordered and made optional
    or required. Comments, properties, keys, sort order and partitioning are updated too. If a change is not possible,
    its table is left unchanged and the exit code is 1. Undeclared columns are kept unless you pass --drop-columns.

    Examples:
        floe apply --dry-run
        floe apply --select silver.orders,gold.*
        floe apply --drop-columns --yes
    """
    from floe_iceberg import IcebergTableManager

    require_tenant(workspace, tenant)
    with workspace.connection() as connection, IcebergTableManager.from_project(connection) as manager:
        declared = _declared(workspace, connection, select, tenant)
        with working("Comparing"):
            tables = _planned(manager, declared, drop_columns=drop_columns)
        if not dry_run:
            _confirm_destructive(workspace, tables, yes=yes)
            tables = _partitioned(workspace, tables, tenant)
            with working("Applying"):
                tables = [_applied(manager, table) for table in tables]
    return Report(
        data={"dry_run": dry_run, "tenant": tenant, "tables": [table.data for table in tables]},
        text=_text(tables, dry_run=dry_run),
        exit_code=max((table.exit_code for table in tables), default=0),
    )


def _declared(
    workspace: Workspace, connection: "ProjectConnection", select: str | None, tenant: str | None
) -> "dict[str, TableConfig]":
    """Return the selected declarations by full table name."""
    known = workspace.artifacts.tables
    patterns = [part.strip() for part in (select or "*").split(",") if part.strip()]
    for pattern in patterns:
        if known and not any(fnmatchcase(name, pattern) for name in known):
            msg = f"No table declared in floe.yaml matches '{pattern}'."
            raise ConfigurationError(msg, hint=f"Declared tables: {', '.join(known)}.")
    chosen = [name for name in known if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if tenant is None:
        return {name: known[name] for name in chosen}
    from floe_tenancy import TenantTables

    tenants = TenantTables(connection)
    return {tenants.name(tenant, name): tenants.declaration(tenant, name) for name in chosen}


def _planned(
    manager: "IcebergTableManager", declared: "Mapping[str, TableConfig]", *, drop_columns: bool
) -> list[_Table]:
    tables = []
    for name, config in declared.items():
        try:
            plan = manager.plan_declaration(name, config, drop_columns=drop_columns)
        except FloeStorageError as err:
            # A table that cannot be read does not stop the others.
            tables.append(_Table(name, config, failure=err))
        else:
            tables.append(_Table(name, config, plan))
    return tables


def _partitioned(workspace: Workspace, tables: "Sequence[_Table]", tenant: str | None) -> list[_Table]:
    """Partition new tables without partition_by as the assets that write them are partitioned."""
    from floe_cli.validation import can_load

    new = {
        table.name: table.declared
        for table in tables
        if table.plan is not None and table.plan.creates and table.declared.partition_by is None
    }
    orchestration = workspace.artifacts.orchestration
    if not new or orchestration.type != "dagster" or orchestration.module is None or not can_load():
        return list(tables)
    from floe_dagster.runs.pipeline import Pipeline
    from floe_dagster.runs.plans import partition_terms

    terms = partition_terms(Pipeline.of(workspace.artifacts, tenant=tenant), new)
    return [
        replace(table, declared=table.declared.model_copy(update={"partition_by": terms[table.name]}))
        if table.name in terms
        else table
        for table in tables
    ]


def _confirm_destructive(workspace: Workspace, tables: "Sequence[_Table]", *, yes: bool) -> None:
    """Ask for confirmation of destructive changes."""
    lost = [(table.name, item) for table in tables if _possible(table) for item in table.plan.destructive]  # type: ignore[union-attr]  # possible
    if not lost:
        return
    shown = "; ".join(
        f"drop column {item.path} of {table}"
        if item.declared is None
        else f"set {item.path}={item.declared} of {table}"
        for table, item in lost
    )
    workspace.confirm(f"{shown[0].upper()}{shown[1:]}?", yes=yes)


def _possible(table: _Table) -> bool:
    return table.plan is not None and not table.plan.impossible


def _applied(manager: "IcebergTableManager", table: _Table) -> _Table:
    plan = table.plan
    if plan is None or plan.impossible or not plan.made:
        return table
    try:
        done = manager.apply_declaration(
            table.name, table.declared, drop_columns=plan.drop_columns, agreed=plan.destructive
        )
    except FloeStorageError as err:
        return replace(table, failure=err)
    return replace(table, plan=done)


def _text(tables: "Sequence[_Table]", *, dry_run: bool) -> "list[RenderableType]":
    if not tables:
        return ["No tables are declared."]
    planned = [(table, table.plan) for table in tables if table.plan is not None]
    rows = [
        (table.name, item, _effect(table, item, dry_run=dry_run) or effect_of(item, drop_columns=plan.drop_columns))
        for table, plan in planned
        for item in plan.items
    ]
    refused = [(table.name, item) for table, plan in planned for item in plan.impossible]
    text: list[RenderableType] = [difference_grid(rows), ""] if rows else []
    if refused:
        text += ["These changes are not possible, so their tables are left unchanged:", *fix_lines(refused), ""]
    text += [f"{table.name}: {table.failure}" for table in tables if table.failure is not None]
    changed = sum(bool(plan.made if dry_run else plan.changed) for table, plan in planned if table.exit_code == 0)
    failed = sum(table.exit_code != 0 for table in tables)
    rest = len(tables) - changed - failed
    verb = "would change" if dry_run else "changed"
    parts = [
        f"{count(changed, 'table')} {verb}",
        f"{rest:,} up to date" if rest else "",
        f"{failed:,} failed" if failed else "",
    ]
    return [*text, ", ".join(part for part in parts if part) + "."]


def _effect(table: _Table, item: Any, *, dry_run: bool) -> str:  # noqa: ANN401 - a difference
    if dry_run or table.plan is None or item not in table.plan.made:
        return ""
    if table.exit_code:
        return "not changed"
    return "done"
