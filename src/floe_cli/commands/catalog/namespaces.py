"""``floe namespaces``."""

from typing import Annotated

import typer

from floe_cli.command import command, command_group
from floe_cli.output import Report, fields, working
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError

app = command_group("List, create and delete namespaces.")

NameArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Namespace, such as bronze or bronze.raw.")]
PropertyOption = Annotated[
    list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Property; repeatable.", show_default=False)
]


@command(app, "list")
def list_namespaces(
    workspace: Workspace,
    parent: Annotated[
        str | None, typer.Argument(metavar="PARENT", help="Only namespaces below this one.", show_default=False)
    ] = None,
) -> Report:
    """List namespaces at every level.

    Examples:
        floe namespaces list
        floe namespaces list bronze  # only those below bronze
    """
    with working("Reading the catalog"), workspace.connection() as connection:
        found = connection.namespaces.tree(parent)
    return Report(data=found, text=found or ["No namespaces yet. Create one with: floe namespaces create NAME"])


@command(app)
def create(workspace: Workspace, name: NameArgument, properties: PropertyOption = None) -> Report:
    """Create a namespace and its missing parents.

    Examples:
        floe namespaces create bronze.raw --property owner=sales
    """
    given = pairs(properties)
    with working("Creating the namespace"), workspace.connection() as connection:
        created = connection.namespaces.create(name, given)
    return Report(
        data={"namespace": name, "created": created},
        text=[f"Created namespace {name}." if created else f"Namespace {name} already exists."],
    )


@command(app)
def show(workspace: Workspace, name: NameArgument) -> Report:
    """Show a namespace's properties, child namespaces and tables.

    Examples:
        floe namespaces show bronze
    """
    with working("Reading the catalog"), workspace.connection() as connection:
        properties = connection.namespaces.properties(name)
        below = connection.namespaces.list_below(name)
        tables = sorted(connection.catalog_plugin.list_tables(name))
    return Report(
        data={"namespace": name, "properties": properties, "namespaces": below, "tables": tables},
        text=[
            fields(
                [
                    ("Namespace", name),
                    ("Namespaces", ", ".join(below) or "none"),
                    ("Tables", ", ".join(tables) or "none"),
                    *sorted(properties.items()),
                ]
            )
        ],
    )


@command(app, "set")
def set_properties(
    workspace: Workspace,
    name: NameArgument,
    properties: PropertyOption = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", metavar="KEY", help="Property to remove; repeatable.", show_default=False),
    ] = None,
) -> Report:
    """Set and remove properties of a namespace.

    Examples:
        floe namespaces set bronze --property owner=sales --remove team
        floe namespaces set bronze --property floe.legal-hold=true
    """
    if not properties and not remove:
        msg = "Nothing to set or remove."
        raise ConfigurationError(msg, hint="Pass --property KEY=VALUE or --remove KEY.")
    with working("Updating the namespace"), workspace.connection() as connection:
        now = connection.namespaces.update_properties(name, updates=pairs(properties), removals=remove or ())
    return Report(data={"namespace": name, "properties": now}, text=[fields(sorted(now.items()))])


@command(app)
def delete(
    workspace: Workspace,
    name: NameArgument,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, without deleting it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> Report:
    """Delete an empty namespace.

    Examples:
        floe namespaces delete bronze.raw --dry-run
        floe namespaces delete bronze.raw --yes
    """
    with workspace.connection() as connection:
        inside = connection.namespaces.list_below(name) + connection.catalog_plugin.list_tables(name)
        if dry_run:
            verdict = f"contains {', '.join(inside)}" if inside else "is empty and would be deleted"
            return Report(
                data={"namespace": name, "deleted": False, "empty": not inside},
                text=[f"Namespace {name} {verdict}."],
            )
        if not inside:
            workspace.confirm(f"Delete namespace {name}?", yes=yes)
        connection.namespaces.delete(name)
    return Report(data={"namespace": name, "deleted": True, "empty": True}, text=[f"Deleted namespace {name}."])


def pairs(texts: list[str] | None) -> dict[str, str]:
    """Parse KEY=VALUE arguments.

    Raises:
        ConfigurationError: An argument does not have the form KEY=VALUE.
    """
    found = [text.partition("=") for text in texts or ()]
    if wrong := [key for key, equals, _ in found if not equals or not key]:
        msg = f"'{wrong[0]}' is not a valid property."
        raise ConfigurationError(msg, hint="Use KEY=VALUE, such as --property owner=sales.")
    return {key: value for key, _, value in found}
