"""List, show, create and drop tables."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.commands.tables.options import DryRunOption, TableArgument, YesOption, foreign_lines
from floe_cli.declaration import declared_table, typed_table
from floe_cli.output import Report, ago, count, fields, grid, size, working
from floe_cli.workspace import Workspace
from floe_core.declaration.declared import name_in_project
from floe_core.errors import CapabilityError, ConfigurationError, FloeStorageError, LegalHoldError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg import IcebergTableManager

_DAY_SECONDS = 86_400


def list_tables(
    workspace: Workspace,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Only this namespace and those below it.", show_default=False),
    ] = None,
    *,
    long: Annotated[bool, typer.Option("--long", "-l", help="Open each table to show rows, size and age.")] = False,
) -> Report:
    """List tables, including declared ones that do not exist yet.

    --long opens each table: the exit code is 1 if a table can only be read with Spark, and 2 if one is broken.

    Examples:
        floe tables list
        floe tables list --namespace bronze --long
    """
    with working("Reading the catalog"), workspace.tables() as manager:
        names = _table_names(manager, namespace)
        declared = [name for name in workspace.artifacts.tables if namespace is None or _below(name, namespace)]
        known = {name for name in names if name_in_project(workspace.artifacts, name) in workspace.artifacts.tables}
        found = [_listed(manager, name, name in known, long=long) for name in names]
    unknown = dict.fromkeys(("rows", "files", "bytes", "changed")) if long else {}
    missing = [{"table": name, "exists": False, "declared": True, **unknown} for name in declared if name not in names]
    if not found and not missing:
        return Report(data=[], text=["No tables yet. Declare some in floe.yaml, then: floe tables create --all"])
    closed = [entry["problem"] for entry in found if "problem" in entry]
    listing = _listing(found, missing, long=long)
    return Report(
        data=[{key: value for key, value in entry.items() if key != "exit_code"} for entry in (*found, *missing)],
        text=[listing, *(["", *closed] if closed else [])],
        exit_code=max((entry["exit_code"] for entry in found if "problem" in entry), default=0),
    )


def _below(name: str, namespace: str) -> bool:
    return name.startswith(f"{namespace}.")


def _table_names(manager: "IcebergTableManager", namespace: str | None) -> list[str]:
    top = [namespace] if namespace else []
    return [
        f"{place}.{name}"
        for place in [*top, *manager.namespaces.tree(namespace)]
        for name in sorted(manager.list_tables(place))
    ]


def _listed(manager: "IcebergTableManager", name: str, declared: bool, *, long: bool) -> dict[str, Any]:  # noqa: FBT001
    from floe_iceberg.read.row_counts import RowCount
    from floe_iceberg.table.recovery import affects_only_table

    entry: dict[str, Any] = {"table": name, "exists": True, "declared": declared}
    if long:
        try:
            snapshot = manager.get_current_snapshot(name)
        except FloeStorageError as err:
            broken = affects_only_table(manager.context, name, err)
            if not broken and not isinstance(err, CapabilityError):
                raise
            # A table that cannot be opened does not stop the others from being listed.
            unknown = dict.fromkeys(("rows", "rows_exact", "files", "bytes", "changed"))
            return entry | unknown | {"broken": broken, "problem": str(err), "exit_code": err.exit_code}
        summary = snapshot.summary if snapshot else {}
        rows = RowCount.of(summary)
        entry |= {
            "broken": False,
            "rows": rows.rows,
            "rows_exact": rows.exact,
            "files": int(summary.get("total-data-files", 0)),
            "bytes": int(summary.get("total-files-size", 0)),
            "changed": snapshot and snapshot.timestamp.astimezone(),
        }
    return entry


def _listing(found: list[dict[str, Any]], missing: list[dict[str, Any]], *, long: bool) -> Any:  # noqa: ANN401 - a rich table
    from floe_iceberg.read.row_counts import RowCount

    if not long:
        notes = [(entry["table"], "" if entry["declared"] else "not in floe.yaml") for entry in found]
        return grid(["TABLE", ""], [*notes, *((entry["table"], "declared, not created yet") for entry in missing)])
    rows = [
        (entry["table"], "", "", "", "broken" if entry["broken"] else "needs Spark")
        if "problem" in entry
        else (
            entry["table"],
            str(RowCount(entry["rows"], exact=entry["rows_exact"])),
            entry["files"],
            size(entry["bytes"]),
            ago(entry["changed"]) if entry["changed"] else "never",
        )
        for entry in found
    ]
    rows += [(entry["table"], "", "", "", "declared, not created yet") for entry in missing]
    return grid(["TABLE", "ROWS", "FILES", "SIZE", "CHANGED"], rows, right=["ROWS", "FILES", "SIZE"])


def show(workspace: Workspace, table: TableArgument) -> Report:
    """Show a table's schema, layout, statistics and health.

    Examples:
        floe tables show bronze.orders
    """
    from floe_iceberg.read.row_counts import RowCount
    from floe_iceberg.table.inspection import health as health_of

    with working("Reading the table"), workspace.tables() as manager:
        loaded = manager.load_table(table)
        current = manager.get_current_snapshot(table)
        health = health_of(manager.context, table)
        retention = workspace.artifacts.retention.get(name_in_project(workspace.artifacts, table))
    layout = _layout(loaded)
    snapshot = f"{current.snapshot_id}, {current.operation}, {ago(current.timestamp)}" if current else "none yet"
    return Report(
        data={
            "table": table,
            **layout,
            "columns": _columns(loaded),
            "snapshot_id": current and current.snapshot_id,
            "health": health,
            "retention_days": retention and retention.snapshot_days,
        },
        text=[
            fields(
                [
                    ("Table", table),
                    ("Location", layout["location"]),
                    ("Snapshot", snapshot),
                    ("Rows", RowCount(health.rows, exact=health.delete_files == 0)),
                    ("Data", f"{count(health.data_files, 'file')}, {size(health.data_bytes)}"),
                    ("Metadata", f"{count(health.manifests, 'manifest')}, {size(health.metadata_bytes)}"),
                    ("History", f"{count(health.snapshots, 'snapshot')}, {count(health.tags, 'tag')}"),
                    ("Partitioned by", ", ".join(layout["partition_by"])),
                    ("Sorted by", ", ".join(layout["sort_by"])),
                    ("Retention", retention and count(retention.snapshot_days, "day")),
                    ("Format", f"version {layout['format_version']}"),
                ]
            ),
            "",
            _column_grid(loaded),
            *(["", *(f"Advice: {line}" for line in health.advice)] if health.advice else []),
        ],
    )


def schema(workspace: Workspace, table: TableArgument) -> Report:
    """Show the columns, partitioning and sort order of a table.

    Examples:
        floe tables schema bronze.orders
    """
    with working("Reading the table"), workspace.tables() as manager:
        loaded = manager.load_table(table)
    layout = _layout(loaded)
    return Report(
        data={
            "table": table,
            "schema_id": loaded.schema().schema_id,
            "columns": _columns(loaded),
            "partition_by": layout["partition_by"],
            "sort_by": layout["sort_by"],
        },
        text=[
            _column_grid(loaded),
            *(f"{title}: {', '.join(layout[key])}" for title, key in _LAYOUT_LINES if layout[key]),
        ],
    )


def create(
    workspace: Workspace,
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="A table declared in floe.yaml, or a new one.", show_default=False),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help='Columns, such as "id long not null, name string".', show_default=False),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM", help="Partition term, such as day(ts); repeatable.", show_default=False),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM", help="Sort term, such as ts desc; repeatable.", show_default=False),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Create all declared tables that do not exist.")] = False,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the table already exists.")
    ] = False,
) -> Report:
    """Create a table as declared in floe.yaml, or from --schema.

    Examples:
        floe tables create --all  # all missing tables of floe.yaml
        floe tables create bronze.orders
        floe tables create bronze.events --schema 'id long not null, at timestamp' --partition-by 'day(at)'
    """
    if everything == (table is not None):
        msg = "Pass either TABLE or --all."
        raise ConfigurationError(msg)
    if not schema and (partition_by or sort_by):
        msg = "--partition-by and --sort-by require --schema."
        raise ConfigurationError(msg, hint="For a declared table, set partition_by and sort_by in floe.yaml.")
    artifacts = workspace.artifacts
    if table is None:
        designs = {name: config for name, config in artifacts.tables.items() if config.columns}
    elif schema:
        designs = {table: typed_table(schema, partition_by or (), sort_by or ())}
    else:
        designs = {table: declared_table(artifacts, table)}
    created: list[str] = []
    existing: list[str] = []
    with working("Creating"), workspace.tables() as manager:
        for name, config in designs.items():
            exists = (everything or if_not_exists) and manager.table_exists(name)
            if not exists:
                manager.create_namespace(name.rpartition(".")[0])
                manager.create_from_config(name, config)
            (existing if exists else created).append(name)
    lines = [*(f"Created {name}." for name in created), *(f"{name} already exists." for name in existing)]
    return Report(
        data={"created": created, "existing": existing}, text=lines or ["floe.yaml declares no tables with columns."]
    )


def drop(
    workspace: Workspace,
    table: TableArgument,
    *,
    purge: Annotated[bool, typer.Option("--purge", help="Also delete its files.")] = False,
    allow_below_retention: Annotated[
        bool,
        typer.Option("--allow-below-retention", help="Purge even if the declared retention would keep snapshots."),
    ] = False,
    force: Annotated[  # noqa: ARG001 - accepted for scripts written for earlier versions
        bool,
        typer.Option("--force", help="No longer needed: tables that cannot be read are dropped as well.", hidden=True),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Drop a table; --purge also deletes its files.

    A table whose metadata cannot be read can be dropped but not purged; the locations of its files are shown.

    Examples:
        floe tables drop bronze.orders  # keeps the files
        floe tables drop bronze.orders --purge --dry-run
    """
    with workspace.tables() as manager:
        found = _drop_target(manager, workspace.artifacts, table, purge=purge)
        place = f"in {' and '.join(found.places)}" if found.places else "where they are"
        files = f"and delete its files {place}" if purge else f"and keep its files {place}"
        broken = [f"Cannot read its metadata: {found.problem}"] if found.problem else []
        data = {
            "table": table,
            "location": found.places[0] if found.places else None,
            "purge": purge,
            "broken": found.problem is not None,
            "problem": found.problem,
            "left": [] if purge else list(found.places),
        }
        if dry_run:
            return Report(data=data | {"dropped": False}, text=[f"Would drop {table} {files}.", *broken])
        workspace.confirm("\n".join([*broken, f"Drop {table} {files}?"]), yes=yes)
        with working("Dropping"):
            purged = manager.drop_table(table, purge=purge, allow_below_retention=allow_below_retention)
    kept = purged.foreign_files
    dropped = f"Dropped {table} {'with' if purge else 'without'} its files."
    if found.problem:
        dropped = f"Dropped {table}, whose metadata cannot be read. Its files are kept {place}."
    return Report(
        data=data | {"dropped": True, "kept_foreign_files": list(kept)},
        text=[dropped, *foreign_lines(kept)],
    )


@dataclass(frozen=True)
class _DropTarget:
    """The file locations of a table, and why it cannot be read."""

    places: tuple[str, ...] = ()
    problem: str | None = None


def _drop_target(
    manager: "IcebergTableManager", artifacts: "CompiledArtifacts", table: str, *, purge: bool
) -> _DropTarget:
    """Find the table to drop.

    Raises:
        ConfigurationError: A purge was requested, but the table cannot be read.
    """
    from floe_iceberg.table.recovery import is_broken, likely_locations

    try:
        loaded = manager.load_table(table)
    except CapabilityError as err:
        if not purge:
            return _DropTarget()
        from floe_iceberg.table.lifecycle import unlisted_files

        raise unlisted_files(table, err) from err
    except FloeStorageError as err:
        if not is_broken(err):
            raise
        places = likely_locations(manager.context, table, err)
        if not purge:
            return _DropTarget(places, err.message)
        where = f" in {' and '.join(places)}" if places else ""
        msg = f"Cannot purge table '{table}': its metadata, which lists its files, cannot be read. {err.message}"
        hint = (
            f"Repair it with: floe tables register {table} --replace. "
            f"Or drop it without --purge; this keeps the files{where}."
        )
        raise ConfigurationError(msg, hint=hint, table=table) from err
    if purge:
        from floe_iceberg.commit.own_files import require_collected
        from floe_iceberg.table.history.legal_hold import require_no_hold

        require_collected(loaded.metadata, table=table, what="A purge")
        require_no_hold(manager.context, loaded, what="A purge")
        _respect_legal_hold(artifacts, loaded, table)
    return _DropTarget((loaded.location(),))


def _respect_legal_hold(artifacts: "CompiledArtifacts", loaded: "Table", table: str) -> None:
    """Refuse to purge a table under a legal hold declared in floe.yaml."""
    from floe_core.governance import PolicyEnforcer

    hold = PolicyEnforcer.legal_hold_of(artifacts.governance)
    newest = max((snapshot.timestamp_ms for snapshot in loaded.metadata.snapshots), default=None)
    if hold is None or newest is None or newest <= (time.time() - hold * _DAY_SECONDS) * 1000:
        return
    msg = f"Cannot purge {table}: {'; '.join(hold.derivation)}, and its newest snapshot is younger."
    hint = "Drop it without --purge to keep its files. To lift the hold, remove it from the governance section."
    raise LegalHoldError(msg, hint=hint, table=table)


_LAYOUT_LINES = (("Partitioned by", "partition_by"), ("Sorted by", "sort_by"))


def _layout(table: "Table") -> dict[str, Any]:
    schema = table.schema()
    return {
        "location": table.location(),
        "format_version": table.format_version,
        "partition_by": [
            _term(str(field.transform), schema.find_column_name(field.source_id)) for field in table.spec().fields
        ],
        "sort_by": [
            f"{schema.find_column_name(field.source_id)} {field.direction} {field.null_order}".lower()
            for field in table.sort_order().fields
        ],
        "properties": dict(sorted(table.properties.items())),
    }


def _term(transform: str, column: str | None) -> str:
    """Render a partition field in the syntax of floe.yaml: ``region``, ``day(ts)``, ``bucket(16, id)``."""
    if transform == "identity":
        return f"{column}"
    name, _, number = transform.rstrip("]").partition("[")
    return f"{name}({number}, {column})" if number else f"{name}({column})"


def _columns(table: "Table") -> list[dict[str, Any]]:
    return [
        {
            "id": field.field_id,
            "name": field.name,
            "type": str(field.field_type),
            "required": field.required,
            "doc": field.doc,
        }
        for field in table.schema().fields
    ]


def _column_grid(table: "Table") -> Any:  # noqa: ANN401 - a rich table
    rows = [
        (column["name"], column["type"], "required" if column["required"] else "", column["doc"])
        for column in _columns(table)
    ]
    return grid(["COLUMN", "TYPE", "", "DOC"], rows)
