"""Snapshot expiry, compaction and orphan file removal."""

from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.commands.tables.options import DryRunOption, TableArgument, YesOption, foreign_lines
from floe_cli.output import Report, ago, count, fields, size, working
from floe_cli.timestamps import parse_timestamp
from floe_cli.workspace import Workspace
from floe_core.dataplane import CompactionKind
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from floe_iceberg import Engine

_MIB = 1024 * 1024


class EngineChoice(StrEnum):
    """Engine to use."""

    AUTO = "auto"
    ARROW = "arrow"
    SPARK = "spark"


EngineOption = Annotated[EngineChoice | None, typer.Option(help="Engine to use.", show_default=False)]


def expire(
    workspace: Workspace,
    table: TableArgument,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Age, such as 30d; default: the table's retention.", show_default=False),
    ] = None,
    retain_last: Annotated[
        int | None,
        typer.Option(min=1, help="Number of recent snapshots to keep, regardless of age.", show_default=False),
    ] = None,
    engine: EngineOption = None,
    *,
    allow_below_retention: Annotated[
        bool,
        typer.Option("--allow-below-retention", help="Also expire snapshots that the declared retention would keep."),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Expire old snapshots and delete files that only they use.

    Examples:
        floe tables expire bronze.orders --older-than 30d --dry-run
        floe tables expire bronze.orders --older-than 7d --retain-last 3 --yes
    """
    moment = parse_timestamp(older_than) if older_than else None
    with workspace.tables() as manager:
        keeping = manager.snapshot_retention(table)
        moment = moment or datetime.now(UTC) - keeping.age
        expire_them = partial(
            manager.expire_snapshots, table, moment, retain_last, allow_below_retention=allow_below_retention
        )
        planned = expire_them(dry_run=True).snapshot_ids
        shown = {"table": table, "older_than": moment, "retention_days": keeping.days, "derivation": keeping.derivation}
        why = [f"Retention: {keeping.text}", *(f"  {line}" for line in keeping.derivation), ""]
        what = f"{count(len(planned), 'snapshot')} of {table} older than {ago(moment)}"
        if dry_run or not planned:
            verb = "Would expire" if dry_run else "Nothing to expire:"
            return Report(data=shown | {"expired": 0, "snapshot_ids": list(planned)}, text=[*why, f"{verb} {what}."])
        workspace.confirm(f"Expire {what}? They can no longer be read afterwards.", yes=yes)
        with working("Expiring"):
            done = expire_them(engine=_engine(engine))
    figures = {
        "expired": int(done),
        "snapshot_ids": list(done.snapshot_ids),
        "deleted_data_files": done.deleted_data_files,
        "deleted_manifests": done.deleted_manifests,
        "deleted_bytes": done.deleted_bytes,
        "kept_foreign_files": list(done.foreign_files),
    }
    freed = f"{count(done.deleted_data_files, 'data file')}, {size(done.deleted_bytes)}"
    closing = f"Expired {count(int(done), 'snapshot')} and deleted {freed}."
    return Report(data=shown | figures, text=[*why, closing, *foreign_lines(done.foreign_files)])


def compact(
    workspace: Workspace,
    table: TableArgument,
    strategy: Annotated[CompactionKind, typer.Option(help="How files are rewritten.")] = CompactionKind.BINPACK,
    sort_by: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Sort order for sort, such as ts desc; columns for zorder.", show_default=False
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="FILTER", help="Rewrite only files that may contain matching rows.", show_default=False),
    ] = None,
    target_size: Annotated[
        int | None, typer.Option(min=1, metavar="MIB", help="Target file size in MiB.", show_default=False)
    ] = None,
    engine: EngineOption = None,
    *,
    manifests: Annotated[bool, typer.Option("--manifests", help="Also rewrite the manifests.")] = False,
) -> Report:
    """Rewrite small files into fewer, larger or sorted ones.

    The rows do not change; old files are kept until their snapshots expire.

    Examples:
        floe tables compact bronze.orders
        floe tables compact bronze.orders --strategy sort --sort-by 'placed desc' --target-size 128
    """
    with working("Compacting"), workspace.tables() as manager:
        done = manager.compact_table(
            table,
            strategy,
            sort_order=[term.strip() for term in sort_by.split(",")] if sort_by else None,
            row_filter=where,
            target_file_size=target_size * _MIB if target_size else None,
            engine=_engine(engine),
        )
        merged = manager.rewrite_manifests(table, engine=_engine(engine)) if manifests else None
    pairs: list[tuple[str, object]] = [
        ("Files", f"{done.files_before:,} → {done.files_after:,}"),
        ("Bytes", f"{size(done.bytes_before)} → {size(done.bytes_after)}"),
        ("Rewritten", f"{count(done.rewritten_files, 'file')} into {done.added_files:,}"),
        ("Manifests", merged and f"{merged.manifests_before:,} → {merged.manifests_after:,}"),
        ("Snapshot", done.snapshot_id),
    ]
    return Report(data={"table": table, **done.model_dump(mode="json"), "manifests": merged}, text=[fields(pairs)])


def sweep(
    workspace: Workspace,
    table: TableArgument,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Age, such as 3d; default: the table's retention.orphan_days.", show_default=False
        ),
    ] = None,
    engine: EngineOption = None,
    *,
    allow_below_retention: Annotated[
        bool, typer.Option("--allow-below-retention", help="Allow an age below retention.orphan_days.")
    ] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the orphan files.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """List or delete orphan files.

    Orphan files are files in the table's location that no snapshot references. Without --delete, they are only listed.

    Examples:
        floe tables sweep bronze.orders  # list the orphan files
        floe tables sweep bronze.orders --older-than 3d --delete --yes
    """
    if delete and dry_run:
        msg = "--delete and --dry-run cannot be combined."
        raise ConfigurationError(msg, hint="Remove one of them.")
    moment = parse_timestamp(older_than) if older_than else None
    allow = allow_below_retention
    with workspace.tables() as manager:
        with working("Searching for orphan files"):
            found = manager.sweep_orphans(table, older_than=moment, engine=_engine(engine), allow_below_retention=allow)
        what = f"{count(len(found.files), 'orphan file')} of {table}, {size(found.total_bytes)}"
        if not delete or not found.files:
            note = "Delete them with --delete." if found.files else "Nothing to delete."
            closing = [f"Found {what}. {note}", *foreign_lines(found.foreign_files)]
            return Report(data=_swept(table, found), text=[*found.files, *closing])
        workspace.confirm(f"Delete {what}?", yes=yes)
        with working("Deleting"):
            done = manager.sweep_orphans(
                table, older_than=found.older_than, engine=_engine(engine), dry_run=False, allow_below_retention=allow
            )
    closing = [f"Deleted {count(len(done.files), 'file')}, {size(done.total_bytes)}."]
    return Report(data=_swept(table, done), text=[*closing, *foreign_lines(done.foreign_files)])


def _engine(choice: EngineChoice | None) -> "Engine | None":
    from floe_iceberg import Engine

    return Engine(choice.value) if choice else None


def _swept(table: str, result: Any) -> dict[str, Any]:  # noqa: ANN401 - an OrphanSweepResult, imported late
    return {"table": table, **result.model_dump(mode="json")}
