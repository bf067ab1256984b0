"""Orphan file removal: deletes files in a table's folder that no version of the table references."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from floe_core.declaration.locations import LocationResolver, normal, path_only
from floe_core.errors import MaintenanceError, UnsafeRetentionError
from floe_iceberg.commit.file_ownership import own_files
from floe_iceberg.commit.own_files import require_collected
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.context import identifier_of
from floe_iceberg.maintenance.engines import plane_for
from floe_iceberg.maintenance.lease import maintenance_lease
from floe_iceberg.models import Engine, OrphanSweepResult
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import load_table
from floe_iceberg.read.versions import local_text, to_millis, to_utc
from floe_iceberg.table.files.deletion import delete_files
from floe_iceberg.table.files.file_listing import FileIOListing
from floe_iceberg.table.files.live_files import (
    METADATA_FILE,
    FileReader,
    contains_another_table,
    metadata_folders,
    statistics_files,
)
from floe_iceberg.table.history.legal_hold import require_no_hold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane
    from floe_iceberg.commit.own_files import OwnFiles
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.read.versions import TimestampLike

_DEFAULT_HOURS = 72.0
# Tolerance for a limit that the caller computed just before the call.
_GRACE = timedelta(seconds=1)
# With more files than this in the current snapshot, a cluster lists and compares faster.
_MAX_FILES_IN_PROCESS = 1_000_000


@dataclass(frozen=True)
class _Listed:
    """A file found in storage; ``modified`` is None if the store does not report it."""

    location: str
    size: int
    modified: datetime | None

    def is_older_than(self, limit: datetime) -> bool:
        """Whether the file was certainly last written before a limit."""
        return self.modified is not None and self.modified < limit


def sweep_orphans(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    *,
    older_than: TimestampLike | None = None,
    older_than_hours: float | None = None,
    dry_run: bool = True,
    engine: Engine | str | None = None,
    allow_below_retention: bool = False,
) -> OrphanSweepResult:
    """Find unreferenced files in the table's folder, and delete them unless ``dry_run`` is set.

    Only files older than the limit count, because the files of a running write are not referenced yet.

    Args:
        context: The manager's context.
        target: The table.
        older_than: Newer files are ignored; a datetime without a time zone is local time.
        older_than_hours: The same as an age; by default the table's ``retention.orphan_days``, or three days.
        dry_run: Whether to only report.
        engine: The engine to use; None for the manager's setting.
        allow_below_retention: Whether the given age may be shorter than ``retention.orphan_days``.

    Raises:
        UnsafeRetentionError: The limit is more recent than ``retention.orphan_days`` allows, or more recent than
            ``min_orphan_age_hours``, which protects the files of running writes and has no override.
        MaintenanceInProgressError: Another maintenance run holds the table's lease.
        SharedFilesError: ``gc.enabled=false`` marks the files as shared with other tables.
        LegalHoldError: The table or one of its namespaces is under legal hold.
        MaintenanceError: The folder contains another table, or the metadata references the store by several names.
        CorruptFileError: A file of the table is damaged, so it is unknown which files are still needed.
    """
    with context.operation("iceberg.sweep_orphans", target, dry_run=dry_run) as operation:
        limit = _limit(
            context,
            older_than,
            older_than_hours,
            str(identifier_of(target)),
            allow_below_retention=allow_below_retention,
        )
        table = load_table(context, target)
        require_collected(table.metadata, table=name_of(table), what="A sweep")
        if not dry_run:
            require_no_hold(context, table, what="A sweep")
        plane = _plane(context, table, engine)
        if dry_run:
            result = _sweep(context, target, plane, limit, dry_run=True)
        else:
            with maintenance_lease(context, target, "sweep_orphans"):
                result = _sweep(context, target, plane, limit, dry_run=False)
        operation.set(engine=plane.name if plane else "arrow", files=len(result.files), bytes=result.total_bytes)
        return result


def _limit(
    context: ManagerContext,
    older_than: TimestampLike | None,
    hours: float | None,
    table: str,
    *,
    allow_below_retention: bool,
) -> datetime:
    if older_than is not None and hours is not None:
        msg = "Pass either older_than or older_than_hours, not both."
        raise UnsafeRetentionError(msg, table=table)
    now = datetime.now(UTC)
    days = context.orphan_days(table)
    default = _DEFAULT_HOURS if days is None else days * 24.0
    limit = to_utc(older_than) if older_than is not None else now - timedelta(hours=hours or default)
    if hours is not None and hours <= 0:
        limit = now
    minimum = context.config.min_orphan_age_hours
    if days is not None and not allow_below_retention and limit > now - timedelta(days=days) + _GRACE:
        msg = f"Orphan files of table '{table}' must be kept for {days} days, as set by its retention.orphan_days."
        hint = "Use a longer age, or pass allow_below_retention=True (--allow-below-retention)."
        raise UnsafeRetentionError(msg, hint=hint, table=table)
    if limit > now - timedelta(hours=minimum) + _GRACE:
        msg = (
            f"Files newer than {minimum:g} hours can belong to a write that is still running, and "
            f"{local_text(to_millis(limit))} is more recent than that."
        )
        hint = f"Pass older_than_hours={minimum:g} or more. The setting min_orphan_age_hours is the minimum."
        raise UnsafeRetentionError(msg, hint=hint, table=table)
    return limit


def _plane(context: ManagerContext, table: Table, engine: Engine | str | None) -> DataPlane | None:
    snapshot = table.metadata.current_snapshot()
    summary = summary_of(snapshot)
    files = int(summary.get("total-data-files", "0") or 0)
    return plane_for(context, engine, size=files, limit=_MAX_FILES_IN_PROCESS, what="files")


def _sweep(
    context: ManagerContext, target: TableTarget, plane: DataPlane | None, limit: datetime, *, dry_run: bool
) -> OrphanSweepResult:
    if plane is not None:
        return _sweep_by_engine(context, target, plane, limit, dry_run=dry_run)
    # The folder is listed before the metadata is read, so a file committed in between is referenced by then.
    listed = _list_files(load_table(context, target))
    table = load_table(context, target)
    _require_exclusive_folder(table, [file.location for file in listed])
    old = [file for file in listed if file.is_older_than(limit)]
    found = {file.location: file for file in _unreferenced(table, old)}
    own, foreign = _own_files(context, table, found).split(found)
    orphans = [found[location] for location in own]
    _log_foreign_files(context, table, foreign)
    if orphans and not dry_run:
        # Files committed while the manifests were read are referenced too.
        orphans = _unreferenced(load_table(context, target), orphans)
        deleted = delete_files(context, table.io, [file.location for file in orphans])
        orphans = [file for file in orphans if file.location in deleted]
    return OrphanSweepResult(
        files=tuple(sorted(file.location for file in orphans)),
        total_bytes=sum(file.size for file in orphans),
        dry_run=dry_run,
        older_than=limit,
        foreign_files=foreign,
    )


def _sweep_by_engine(
    context: ManagerContext, target: TableTarget, plane: DataPlane, limit: datetime, *, dry_run: bool
) -> OrphanSweepResult:
    name = str(identifier_of(target))
    # An engine would delete everything below the location, so first it only lists.
    found = plane.remove_orphan_files(name, older_than=limit, dry_run=True).orphan_files
    table = load_table(context, target)
    _require_exclusive_folder(table, found)
    own, foreign = _own_files(context, table, found).split(found)
    _log_foreign_files(context, table, foreign)
    orphans: Iterable[str] = own
    if own and not dry_run:
        orphans = (
            delete_files(context, table.io, own)
            if foreign
            else plane.remove_orphan_files(name, older_than=limit, dry_run=False).orphan_files
        )
    return OrphanSweepResult(
        files=tuple(sorted(orphans)), total_bytes=0, dry_run=dry_run, older_than=limit, foreign_files=foreign
    )


def _own_files(context: ManagerContext, table: Table, orphans: Iterable[str]) -> OwnFiles:
    """Return the table's own files.

    Raises:
        MaintenanceError: The location belongs to another table.
    """
    own = own_files(context, table, shared=contains_another_table(table, orphans))
    if owner := own.refused.get(table.location()):
        msg = f"The location of table '{name_of(table)}', {table.location()}, belongs to '{owner}'."
        hint = "The other table's files would look like orphans. Move the tables to separate folders first."
        raise MaintenanceError(msg, hint=hint, table=name_of(table))
    return own


def _log_foreign_files(context: ManagerContext, table: Table, foreign: tuple[str, ...]) -> None:
    if foreign:
        context.logger.warning("iceberg.sweep_orphans", table=name_of(table), kept_foreign_files=len(foreign))


def _list_files(table: Table) -> list[_Listed]:
    listing = FileIOListing(table.io, table.location(), table=name_of(table))
    return [_Listed(listing.location_of(found.key), found.size, found.modified) for found in listing.list()]


def _require_exclusive_folder(table: Table, listed: Iterable[str]) -> None:
    own = metadata_folders(table)
    for file in listed:
        match = METADATA_FILE.match(normal(file))
        if match and match["folder"] not in own:
            msg = f"Another table is in the folder of table '{name_of(table)}': '{file}' is its metadata."
            hint = "Its files would look like orphans. Move the tables to separate folders first."
            raise MaintenanceError(msg, hint=hint, table=name_of(table))


def _unreferenced(table: Table, files: list[_Listed]) -> list[_Listed]:
    # A table's location may be a link to the folder that its files are named after.
    resolver = LocationResolver()
    referenced = {resolver.real(path) for path in _referenced(table)}
    orphans = [file for file in files if resolver.real(file.location) not in referenced and not _is_hidden(table, file)]
    # The same path in a store with another name may be the same file.
    paths = {path_only(path) for path in referenced} if orphans else set()
    if ambiguous := next((file for file in orphans if path_only(file.location) in paths), None):
        msg = (
            f"The metadata of table '{name_of(table)}' references '{ambiguous.location}' with another scheme or store."
        )
        hint = "These may be the same file, so nothing was deleted. Use one name for the store."
        raise MaintenanceError(msg, hint=hint, table=name_of(table))
    return orphans


def _is_hidden(table: Table, file: _Listed) -> bool:
    """Whether a file or folder name starts with a dot or underscore, such as engines' checksums and work files."""
    inside = file.location[len(table.location().rstrip("/")) + 1 :].split("/")
    partitions = tuple(f"{field.name}=" for spec in table.metadata.partition_specs for field in spec.fields)
    return any(part.startswith(("_", ".")) and not part.startswith(partitions) for part in inside)


def _referenced(table: Table) -> set[str]:
    reader = FileReader(table)
    snapshots = table.snapshots()
    manifests = reader.manifests(snapshots)
    return {
        table.metadata_location,
        f"{table.location().rstrip('/')}/metadata/version-hint.text",
        *(entry.metadata_file for entry in table.metadata.metadata_log),
        *statistics_files(table.metadata),
        *(snapshot.manifest_list for snapshot in snapshots),
        *manifests,
        *reader.data_files(manifests),
    }
