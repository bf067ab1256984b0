"""Snapshots, branches and tags of a table."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.commands.tables.options import (
    DryRunOption,
    LimitOption,
    RefOption,
    SnapshotOption,
    TableArgument,
    YesOption,
)
from floe_cli.output import Report, ago, count, grid, working
from floe_cli.timestamps import parse_age, parse_timestamp
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError, SnapshotNotFoundError

if TYPE_CHECKING:
    from floe_iceberg.models import RefInfo, SnapshotInfo

_DAY_MS = 24 * 60 * 60 * 1000


def snapshots(workspace: Workspace, table: TableArgument, limit: LimitOption = None) -> Report:
    """List the snapshots of a table, newest first.

    Examples:
        floe tables snapshots bronze.orders --limit 5
    """
    with working("Reading the table"), workspace.tables() as manager:
        found = manager.list_snapshots(table, limit=limit)
        refs = manager.list_refs(table)
    names = _names_by_snapshot(refs)
    rows = [
        (
            info.snapshot_id,
            ago(info.timestamp),
            info.operation,
            info.summary.get("added-records", ""),
            info.summary.get("total-records", ""),
            ", ".join(names.get(info.snapshot_id, [])),
        )
        for info in found
    ]
    headers = ["SNAPSHOT", "CREATED", "OPERATION", "ADDED ROWS", "ROWS", "REFS"]
    return Report(
        data=[_listed(info, names.get(info.snapshot_id, [])) for info in found],
        text=[grid(headers, rows, right=["ADDED ROWS", "ROWS"]) if rows else f"{table} has no snapshots yet."],
    )


def history(workspace: Workspace, table: TableArgument, limit: LimitOption = None) -> Report:
    """Show which snapshot was current when, newest first.

    Examples:
        floe tables history bronze.orders --limit 5
    """
    from floe_iceberg.table.inspection import history as history_of

    with working("Reading the table"), workspace.tables() as manager:
        entries = history_of(manager.context, table)[:limit]
    rows = [
        (ago(entry.made_current_at), entry.snapshot_id, "yes" if entry.is_current_ancestor else "no")
        for entry in entries
    ]
    return Report(
        data=list(entries),
        text=[
            grid(["CURRENT SINCE", "SNAPSHOT", "CURRENT ANCESTOR"], rows) if rows else f"{table} has no history yet."
        ],
    )


def rollback(
    workspace: Workspace,
    table: TableArgument,
    snapshot: SnapshotOption = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", help="Timestamp such as 2026-05-04T12:00, or age such as 2h.", show_default=False
        ),
    ] = None,
    ref: RefOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Make an earlier snapshot current again.

    Later snapshots remain readable until they expire.

    Examples:
        floe tables rollback bronze.orders --to 2026-01-31T12:00 --dry-run
        floe tables rollback bronze.orders --snapshot 3051729675574597004 --yes
    """
    if sum(target is not None for target in (snapshot, to, ref)) != 1:
        msg = "Pass exactly one of --snapshot, --to and --ref."
        raise ConfigurationError(msg)
    from floe_iceberg.table.inspection import find_snapshot

    moment = parse_timestamp(to) if to else None
    with workspace.tables() as manager:
        current = manager.get_current_snapshot(table)
        target = find_snapshot(manager.context, table, snapshot_id=snapshot, as_of=moment, ref=ref)
        if target is None:
            msg = f"Table '{table}' has no snapshots yet."
            raise SnapshotNotFoundError(msg, table=table)
        data = {"table": table, "from_snapshot_id": current and current.snapshot_id, "to": _snapshot_data(target)}
        what = f"{table} to snapshot {target.snapshot_id}, created {ago(target.timestamp)}"
        if dry_run:
            return Report(data=data | {"rolled_back": False}, text=[f"Would roll back {what}."])
        workspace.confirm(f"Roll back {what}?", yes=yes)
        manager.rollback(table, snapshot_id=target.snapshot_id)
    return Report(data=data | {"rolled_back": True}, text=[f"Rolled back {what}."])


def tag(
    workspace: Workspace,
    table: TableArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the tag; omit it to list all tags.", show_default=False),
    ] = None,
    snapshot: SnapshotOption = None,
    keep: Annotated[
        str | None, typer.Option(metavar="AGE", help="Keep the tag for this long, such as 30d.", show_default=False)
    ] = None,
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the tag.")] = False,
    yes: YesOption = False,
) -> Report:
    """Create, list or remove tags.

    Examples:
        floe tables tag bronze.orders  # list tags
        floe tables tag bronze.orders month-end --keep 90d
        floe tables tag bronze.orders month-end --delete
    """
    with workspace.tables() as manager:
        if name is None:
            return _refs(manager.list_refs(table), "tag")
        if delete:
            workspace.confirm_in_environment(f"Remove tag {name} of {table}?", yes=yes)
            manager.remove_tag(table, name)
            return Report(data={"table": table, "tag": name, "removed": True}, text=[f"Removed tag {name}."])
        made = manager.create_tag(table, name, snapshot_id=snapshot, max_ref_age=parse_age(keep) if keep else None)
    return Report(data=made, text=[f"Tagged snapshot {made.snapshot_id} of {table} as {name}."])


def branch(
    workspace: Workspace,
    table: TableArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the branch; omit it to list all branches.", show_default=False),
    ] = None,
    snapshot: SnapshotOption = None,
    keep: Annotated[
        str | None, typer.Option(metavar="AGE", help="Keep the branch for this long, such as 30d.", show_default=False)
    ] = None,
    *,
    publish: Annotated[bool, typer.Option("--publish", help="Fast-forward main to the branch.")] = False,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the branch; with --publish, after publishing it.")
    ] = False,
    yes: YesOption = False,
) -> Report:
    """Create, list, publish or remove branches.

    Examples:
        floe tables branch bronze.orders repair
        floe tables branch bronze.orders repair --publish --delete
    """
    with workspace.tables() as manager:
        if name is None:
            return _refs(manager.list_refs(table), "branch")
        if publish:
            workspace.confirm_in_environment(f"Fast-forward main of {table} to branch {name}?", yes=yes)
            head = manager.publish_branch(table, name, remove=delete)
            text = f"Published {name}: {table} is now at snapshot {head.snapshot_id}."
            return Report(
                data={"table": table, "branch": name, "snapshot_id": head.snapshot_id, "removed": delete}, text=[text]
            )
        if delete:
            workspace.confirm_in_environment(f"Remove branch {name} of {table} with its rows?", yes=yes)
            manager.remove_branch(table, name)
            return Report(data={"table": table, "branch": name, "removed": True}, text=[f"Removed branch {name}."])
        made = manager.create_branch(table, name, snapshot_id=snapshot, max_ref_age=parse_age(keep) if keep else None)
    return Report(data=made, text=[f"Created branch {name} of {table} at snapshot {made.snapshot_id}."])


def _refs(refs: "list[RefInfo]", kind: str) -> Report:
    wanted = [ref for ref in refs if ref.kind == kind]
    rows = [
        (ref.name, ref.snapshot_id, count(ref.max_ref_age_ms // _DAY_MS, "day") if ref.max_ref_age_ms else "always")
        for ref in wanted
    ]
    return Report(
        data=wanted,
        text=[
            grid(["NAME", "SNAPSHOT", "KEPT"], rows)
            if rows
            else f"No {'branches' if kind == 'branch' else 'tags'} yet."
        ],
    )


def _names_by_snapshot(refs: "list[RefInfo]") -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for ref in refs:
        names.setdefault(ref.snapshot_id, []).append(ref.name)
    return names


def _listed(info: "SnapshotInfo", refs: list[str]) -> dict[str, Any]:
    rows = {name: info.summary.get(key) for name, key in (("added_rows", "added-records"), ("rows", "total-records"))}
    counted = {name: None if number is None else int(number) for name, number in rows.items()}
    return _snapshot_data(info) | counted | {"refs": refs}


def _snapshot_data(info: "SnapshotInfo") -> dict[str, Any]:
    return {**info.model_dump(mode="json"), "timestamp": info.timestamp.astimezone().isoformat()}
