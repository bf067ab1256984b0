"""Orphan removal: files in a table's folder that no version of the table refers to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO

from floe_core.declaration.locations import Compass, normal, path_alone
from floe_core.errors import CapabilityError, MaintenanceError, UnsafeRetentionError
from floe_iceberg.commit.own_files import require_collected
from floe_iceberg.commit.own_places import own_files
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.context import identifier_of
from floe_iceberg.maintenance.engines import plane_for
from floe_iceberg.maintenance.lease import maintenance_lease
from floe_iceberg.models import Engine, OrphanSweepResult
from floe_iceberg.read.integrity import load_table
from floe_iceberg.read.versions import local_text, name_of, to_millis, to_utc
from floe_iceberg.table.files.deletion import delete_files
from floe_iceberg.table.files.live_files import (
    METADATA_FILE,
    FileReader,
    holds_another_table,
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
    from floe_iceberg.read.versions import Moment

_DEFAULT_HOURS = 72.0
# For a limit worked out just before the call.
_GRACE = timedelta(seconds=1)
# Beyond this many files in the current snapshot a cluster lists and compares faster.
_MOST_FILES = 1_000_000


@dataclass(frozen=True)
class _Listed:
    """A file found in storage."""

    location: str
    size: int
    modified_ms: int


def sweep_orphans(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    *,
    older_than: Moment | None = None,
    older_than_hours: float | None = None,
    dry_run: bool = True,
    engine: Engine | str | None = None,
    allow_below_retention: bool = False,
) -> OrphanSweepResult:
    """Find, and unless ``dry_run`` delete, files in the table's folder that nothing refers to.

    A file counts only when it is older than the limit: the files of a running write are not referred to yet.

    Args:
        context: The manager's context.
        target: The table.
        older_than: Files younger than this are left alone; a datetime without zone is local time.
        older_than_hours: The same by age; by default the table's ``retention.orphan_days``, or three days.
        dry_run: Whether to only look.
        engine: Who does it; None is the manager's setting.
        allow_below_retention: Whether an age of your choice may be shorter than ``retention.orphan_days``.

    Raises:
        UnsafeRetentionError: The limit is more recent than ``retention.orphan_days`` allows; or so close that a running
            write could lose files, and there is no way around that.
        MaintenanceInProgressError: Another maintenance run holds the table.
        SharedFilesError: ``gc.enabled=false`` says that other tables share the files.
        LegalHoldError: The table, or a namespace it is in, is under legal hold.
        MaintenanceError: Another table lies in this one's folder, or the store has several names.
        CorruptFileError: A file of the table is damaged, so that nobody can tell what is still needed.
    """
    with context.operation("iceberg.sweep_orphans", target, dry_run=dry_run) as operation:
        limit = _limit(
            context, older_than, older_than_hours, str(identifier_of(target)), undercut=allow_below_retention
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
    context: ManagerContext, older_than: Moment | None, hours: float | None, table: str, *, undercut: bool
) -> datetime:
    if older_than is not None and hours is not None:
        msg = "Give either older_than or older_than_hours."
        raise UnsafeRetentionError(msg, table=table)
    now = datetime.now(UTC)
    days = context.orphan_days(table)
    usual = _DEFAULT_HOURS if days is None else days * 24.0
    limit = to_utc(older_than) if older_than is not None else now - timedelta(hours=hours or usual)
    if hours is not None and hours <= 0:
        limit = now
    least = context.config.min_orphan_age_hours
    if days is not None and not undercut and limit > now - timedelta(days=days) + _GRACE:
        msg = (
            f"Orphan files of table '{table}' must be kept for {days} days: the table's retention.orphan_days says so."
        )
        hint = "Choose a longer age; to undercut it on purpose, allow_below_retention=True (--allow-below-retention)."
        raise UnsafeRetentionError(msg, hint=hint, table=table)
    if limit > now - timedelta(hours=least) + _GRACE:
        msg = (
            f"Files younger than {least:g} hours can belong to a write that is still running, and "
            f"{local_text(to_millis(limit))} is more recent than that."
        )
        hint = f"Pass older_than_hours={least:g} or more; the setting min_orphan_age_hours says how low it may go."
        raise UnsafeRetentionError(msg, hint=hint, table=table)
    return limit


def _plane(context: ManagerContext, table: Table, engine: Engine | str | None) -> DataPlane | None:
    snapshot = table.metadata.current_snapshot()
    summary = summary_of(snapshot)
    files = int(summary.get("total-data-files", "0") or 0)
    return plane_for(context, engine, size=files, largest=_MOST_FILES, what="files")


def _sweep(
    context: ManagerContext, target: TableTarget, plane: DataPlane | None, limit: datetime, *, dry_run: bool
) -> OrphanSweepResult:
    if plane is not None:
        return _sweep_by_engine(context, target, plane, limit, dry_run=dry_run)
    # The folder is listed before the metadata is read: a file that is committed in between is then referred to.
    listed = _list_files(load_table(context, target))
    table = load_table(context, target)
    _require_folder_of_its_own(table, [file.location for file in listed])
    old = [file for file in listed if file.modified_ms < to_millis(limit)]
    found = {file.location: file for file in _unreferenced(table, old)}
    own, foreign = _own_files(context, table, found).split(found)
    orphans = [found[location] for location in own]
    _tell(context, table, foreign)
    if orphans and not dry_run:
        # What was committed while the manifests were read counts too.
        orphans = _unreferenced(load_table(context, target), orphans)
        gone = delete_files(context, table.io, [file.location for file in orphans])
        orphans = [file for file in orphans if file.location in gone]
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
    # An engine would delete whatever lies below the location, so it is asked for a list first.
    found = plane.remove_orphan_files(name, older_than=limit, dry_run=True).orphan_files
    table = load_table(context, target)
    _require_folder_of_its_own(table, found)
    own, foreign = _own_files(context, table, found).split(found)
    _tell(context, table, foreign)
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
    """Return the files of a table that lies nowhere near another one.

    Raises:
        MaintenanceError: The location is a place of another table.
    """
    own = own_files(context, table, shared=holds_another_table(table, orphans))
    if owner := own.refused.get(table.location()):
        msg = f"The location of table '{name_of(table)}', {table.location()}, belongs to '{owner}'."
        hint = "Files of the other would look like orphans. Give the tables folders of their own first."
        raise MaintenanceError(msg, hint=hint, table=name_of(table))
    return own


def _tell(context: ManagerContext, table: Table, foreign: tuple[str, ...]) -> None:
    if foreign:
        context.logger.warning("iceberg.sweep_orphans", table=name_of(table), kept_foreign_files=len(foreign))


def _list_files(table: Table) -> list[_Listed]:
    io, location = table.io, table.location().rstrip("/")
    if not isinstance(io, PyArrowFileIO):
        return _list_with_fsspec(table)
    scheme, netloc, path = io.parse_location(location, io.properties)
    found = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    return [
        _Listed(location + info.path[len(path.rstrip("/")) :], info.size or 0, (info.mtime_ns or 0) // 1_000_000)
        for info in found
        if info.type == FileType.File
    ]


def _list_with_fsspec(table: Table) -> list[_Listed]:
    from urllib.parse import urlparse

    get_fs = getattr(table.io, "get_fs", None)
    if get_fs is None:
        msg = f"The file access of table '{name_of(table)}' cannot list folders."
        raise CapabilityError(msg, hint="Pass engine='spark'.", table=name_of(table))
    location = table.location().rstrip("/")
    filesystem = get_fs(urlparse(location).scheme)
    root = filesystem._strip_protocol(location)  # noqa: SLF001 - fsspec's own way from a URL to a path
    listed = []
    for path, info in filesystem.find(location, detail=True).items():
        modified = info.get("LastModified") or info.get("last_modified") or info.get("mtime") or info.get("updated")
        when = to_millis(modified) if isinstance(modified, datetime) else int(float(modified or 0) * 1000)
        listed.append(_Listed(location + path[len(root) :], int(info.get("size") or 0), when))
    return listed


def _require_folder_of_its_own(table: Table, listed: Iterable[str]) -> None:
    own = metadata_folders(table)
    for file in listed:
        match = METADATA_FILE.match(normal(file))
        if match and match["folder"] not in own:
            msg = f"Another table lies in the folder of table '{name_of(table)}': '{file}' is its metadata."
            hint = "Its files would look like orphans. Give the tables folders of their own first."
            raise MaintenanceError(msg, hint=hint, table=name_of(table))


def _unreferenced(table: Table, files: list[_Listed]) -> list[_Listed]:
    # A table's location may be a link to the folder that its files are named by.
    compass = Compass()
    referenced = {compass.real(path) for path in _referenced(table)}
    orphans = [file for file in files if compass.real(file.location) not in referenced and not _is_hidden(table, file)]
    # The same path in a store of another name may be the same file: the names alone do not tell.
    paths = {path_alone(path) for path in referenced} if orphans else set()
    if doubtful := next((file for file in orphans if path_alone(file.location) in paths), None):
        msg = f"The metadata of table '{name_of(table)}' names '{doubtful.location}' with another scheme or store."
        hint = "Nobody can tell whether both are one file, so nothing was deleted."
        raise MaintenanceError(msg, hint=hint, table=name_of(table))
    return orphans


def _is_hidden(table: Table, file: _Listed) -> bool:
    """Whether a file or its folder begins with a dot or underscore: checksums and other engines' working files."""
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
