"""``floe views``: views that other engines define in the catalog."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.command import command, command_group
from floe_cli.commands.tables.options import DryRunOption, YesOption
from floe_cli.output import Report, fields, working
from floe_cli.workspace import Workspace
from floe_core.errors import TableNotFoundError

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager

app = command_group("List, show and drop views that Spark and other engines create in the catalog.")

ViewArgument = Annotated[str, typer.Argument(metavar="VIEW", help="View, such as gold.recent.")]


@command(app, "list")
def list_views(
    workspace: Workspace,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Only this namespace and those below it.", show_default=False),
    ] = None,
) -> Report:
    """List views.

    Examples:
        floe views list
        floe views list --namespace gold
    """
    with working("Reading the catalog"), workspace.tables() as manager:
        places = [*([namespace] if namespace else []), *manager.namespaces.tree(namespace)]
        found = sorted(".".join(view) for place in places for view in _views(manager, place))
    return Report(data=found, text=found or ["No views."])


@command(app)
def show(workspace: Workspace, view: ViewArgument) -> Report:
    """Show a view's query, columns and properties.

    Examples:
        floe views show gold.recent
    """
    with working("Reading the catalog"), workspace.tables() as manager:
        loaded = _loaded(manager, view)
        version = loaded.current_version()
        queries = {item.root.dialect: item.root.sql for item in version.representations}
        columns = {column.name: str(column.field_type) for column in loaded.schema().fields}
        properties = dict(loaded.metadata.properties)
    rows = [("View", view), *((f"Query ({dialect})", sql) for dialect, sql in queries.items())]
    return Report(
        data={"view": view, "queries": queries, "columns": columns, "properties": properties},
        text=[fields([*rows, *columns.items(), *sorted(properties.items())])],
    )


@command(app)
def drop(workspace: Workspace, view: ViewArgument, *, dry_run: DryRunOption = False, yes: YesOption = False) -> Report:
    """Drop a view; the tables it reads are not changed.

    Examples:
        floe views drop gold.recent --dry-run
        floe views drop gold.recent --yes
    """
    with workspace.tables() as manager:
        _loaded(manager, view)
        if dry_run:
            return Report(data={"view": view, "dropped": False}, text=[f"Would drop view {view}."])
        workspace.confirm(f"Drop view {view}?", yes=yes)
        with working("Dropping"), manager.namespaces.operation("drop_view", _parts(view)[:-1], view=view):
            manager.catalog.drop_view(_parts(view))
    return Report(data={"view": view, "dropped": True}, text=[f"Dropped view {view}."])


def _views(manager: "IcebergTableManager", namespace: str) -> list[tuple[str, ...]]:
    parts = _parts(namespace)
    with manager.namespaces.operation("list_views", parts):
        return [tuple(view) for view in manager.catalog.list_views(parts)]


def _loaded(manager: "IcebergTableManager", view: str) -> Any:  # noqa: ANN401 - PyIceberg's view
    from pyiceberg.exceptions import NoSuchViewError

    parts = _parts(view)
    try:
        with manager.namespaces.operation("load_view", parts[:-1], view=view):
            return manager.catalog.load_view(parts)
    except NoSuchViewError as err:
        msg = f"View '{view}' not found in catalog '{manager.catalog.name}'."
        raise TableNotFoundError(msg, hint="List the views with: floe views list", table=view) from err


def _parts(name: str) -> tuple[str, ...]:
    from floe_iceberg.catalog.namespaces import parse_namespace

    return parse_namespace(name)
