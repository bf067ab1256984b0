"""Register existing tables in the catalog, and rename tables."""

from typing import TYPE_CHECKING, Annotated

import typer

from floe_cli.commands.tables.options import DryRunOption, TableArgument, YesOption
from floe_cli.output import Report, working
from floe_cli.workspace import Workspace
from floe_core.errors import CorruptFileError, TableExistsError

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager


def register(
    workspace: Workspace,
    table: TableArgument,
    location: Annotated[
        str | None,
        typer.Argument(
            metavar="METADATA",
            help="Location of a …metadata.json file; for a broken table, default: the newest readable one.",
            show_default=False,
        ),
    ] = None,
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a table whose metadata file is missing or damaged.")
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Register a table from a metadata file.

    The table has the rows of that version.

    Examples:
        floe tables register bronze.orders s3://lake/bronze/orders/metadata/00041.metadata.json
        floe tables register bronze.orders --replace --dry-run  # recover a broken table
    """
    from floe_iceberg.table.recovery import newest_metadata, reregister_table

    with workspace.tables() as manager:
        broken = _broken(manager, table)
        if broken is not None and not replace:
            hint = f"Pass --replace to register {table} again, if necessary from an earlier metadata file."
            raise CorruptFileError(broken.message, path=broken.path, hint=hint, table=table) from broken
        chosen = location or newest_metadata(manager.context, table, broken)
        data = {"table": table, "metadata_location": chosen, "replaced": broken is not None}
        if dry_run:
            return Report(data=data | {"registered": False}, text=[f"Would register {table} from {chosen}."])
        if broken is not None:
            workspace.confirm(f"Register {table} again from {chosen}? Commits after that file are lost.", yes=yes)
        with working("Registering"):
            made = reregister_table(manager, table, chosen) if broken else manager.register_table(table, chosen)
        snapshot = made.metadata.current_snapshot_id
    return Report(
        data=data | {"registered": True, "snapshot_id": snapshot and str(snapshot)},
        text=[f"Registered {table} from {chosen}; current snapshot: {snapshot or 'none'}."],
    )


def rename(
    workspace: Workspace,
    table: TableArgument,
    new_name: Annotated[
        str, typer.Argument(metavar="NEW_NAME", help="New name; without a namespace, the table stays in its namespace.")
    ],
) -> Report:
    """Rename a table or move it to another namespace.

    Its files are not moved.

    Examples:
        floe tables rename bronze.orders orders_2025
        floe tables rename bronze.orders archive.orders
    """
    with workspace.tables() as manager, working("Renaming"):
        renamed = ".".join(manager.rename_table(table, new_name).name())
    return Report(data={"table": table, "renamed": renamed}, text=[f"Renamed {table} to {renamed}."])


def _broken(manager: "IcebergTableManager", table: str) -> CorruptFileError | None:
    """Return why a table cannot be read; None if it does not exist."""
    if not manager.table_exists(table):
        return None
    try:
        manager.load_table(table)
    except CorruptFileError as err:
        return err
    msg = f"Table '{table}' already exists and can be read."
    raise TableExistsError(msg, hint="Drop it first, or roll it back with: floe tables rollback", table=table)
