"""Expiring snapshots together with the files only they needed."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate

from floe_core.declaration.locations import links_below, spellings
from floe_core.errors import SharedFilesError, UnsafeRetentionError
from floe_iceberg.catalog.metadata_updates import RemoveSnapshots
from floe_iceberg.commit.engine import commits_by_engine, required_plane
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.commit.own_files import require_collected
from floe_iceberg.commit.own_places import own_files
from floe_iceberg.context import identifier_of
from floe_iceberg.maintenance.engines import plane_for
from floe_iceberg.maintenance.lease import maintenance_lease
from floe_iceberg.models import ExpiredSnapshots
from floe_iceberg.read.integrity import load_table, manifests_of
from floe_iceberg.read.versions import name_of, to_millis, to_utc
from floe_iceberg.table.files.deletion import delete_files
from floe_iceberg.table.files.live_files import FileReader, statistics_files
from floe_iceberg.table.history.keeping import LONGEST_DAYS, keeping_of, least_snapshots, moment_before
from floe_iceberg.table.history.legal_hold import require_no_hold
from floe_iceberg.table.history.retention import Expiry, Floor, plan_expiry
from floe_iceberg.write.abandoned import clear_operations

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane
    from floe_core.governance import RetentionDays
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.models import Engine
    from floe_iceberg.read.versions import Moment
    from floe_iceberg.table.history.keeping import Keeping

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Beyond this many manifests a cluster reads them faster than one process.
_MOST_MANIFESTS = 2_000
# Files with strange names that are looked at before an engine expires.
_MOST_OUTSIDE = 1_000


@dataclass(frozen=True)
class _Rule:
    """What the caller asks to expire, and what stays nevertheless."""

    older_than: datetime | None
    retain_last: int
    snapshot_ids: tuple[int, ...]
    floor: Floor = Floor()  # noqa: RUF009 - a frozen value


def expire_snapshots(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    *,
    older_than: Moment | None = None,
    older_than_days: float | None = None,
    retain_last: int | None = None,
    snapshot_ids: Collection[int] = (),
    engine: Engine | str | None = None,
    dry_run: bool = False,
    retention: RetentionDays | None = None,
    allow_below_retention: bool = False,
) -> ExpiredSnapshots:
    """Expire old snapshots and delete the files that only they needed.

    Whatever a branch or tag still needs survives; a branch or tag that outlived its own age goes too. What a declared
    retention asks to keep stays, whatever ages of their own branches and tags have. Files outside the table's own
    places are kept and reported.

    Args:
        context: The manager's context.
        target: The table.
        older_than: Expire snapshots older than this; a datetime without zone is local time.
        older_than_days: The same by age; by default the table's retention, as ``keeping_of`` finds it.
        retain_last: Snapshots each branch keeps at least; None is the table's
            ``history.expire.min-snapshots-to-keep``.
        snapshot_ids: Expire exactly these, whatever their age, unless an age is given as well.
        engine: Who does it; None is the manager's setting.
        dry_run: Whether to only tell which snapshots would go.
        retention: Days that the project asks for; by default what the manager's own project says.
        allow_below_retention: Whether ages, snapshots or a number of your choice, and ages of branches, may undercut
            the declared retention.

    Returns:
        The number of snapshots expired, which also carries files and bytes.

    Raises:
        MaintenanceInProgressError: Another maintenance run holds the table.
        UnsafeRetentionError: The age, a snapshot or the number of your choice is below the declared retention; or
            only Spark can expire the table, and would follow the age of a branch that is.
        SharedFilesError: ``gc.enabled=false`` says that other tables share the files.
        LegalHoldError: The table, or a namespace it is in, is under legal hold.
        MaintenanceError: One of ``snapshot_ids`` is still referred to.
        CorruptFileError: A file of the table is damaged, so that nobody can tell what is still needed.
    """
    with context.operation("iceberg.expire_snapshots", target, retain_last=retain_last, dry_run=dry_run) as operation:
        table = load_table(context, target)
        require_collected(table.metadata, table=name_of(table), what="Expiry")
        require_no_hold(context, table, what="Expiry")
        if not dry_run and clear_operations(context, table):
            table = load_table(context, target)
        keeping = keeping_of(context, table, retention)
        rule = _rule(table, keeping, older_than, older_than_days, retain_last, tuple(snapshot_ids))
        if not allow_below_retention:
            keeping.require(table, rule.older_than, rule.snapshot_ids)
            keeping.require_count(table, retain_last)
            rule = replace(rule, floor=keeping.floor)
        plan = _plan(table, rule)
        if dry_run or not (plan.snapshot_ids or plan.refs):
            return ExpiredSnapshots(len(plan.snapshot_ids), snapshot_ids=plan.snapshot_ids)
        manifests = manifests_of(table, table.metadata.current_snapshot(), to_read=False)
        plane = _plane(context, table, engine, len(manifests))
        if plane is not None and (more := _beyond(table, rule, plan)):
            _require_process(context, table, more)
            plane = None
        with maintenance_lease(context, target, "expire_snapshots"):
            expired = _by_engine(context, target, plane, rule) if plane else _in_process(context, target, rule)
        operation.set(
            engine=plane.name if plane else "arrow",
            snapshots=int(expired),
            data_files=expired.deleted_data_files,
            manifests=expired.deleted_manifests,
            bytes=expired.deleted_bytes,
        )
        return expired


def _rule(  # noqa: PLR0913, PLR0917 - the caller's options as they came
    table: Table,
    keeping: Keeping,
    older_than: Moment | None,
    older_than_days: float | None,
    retain_last: int | None,
    snapshot_ids: tuple[int, ...],
) -> _Rule:
    if older_than is not None and older_than_days is not None:
        msg = "Give either older_than or older_than_days."
        raise UnsafeRetentionError(msg, table=name_of(table))
    if retain_last is not None and retain_last < 1:
        msg = f"retain_last must be 1 or more, not {retain_last}: a table keeps its current snapshot."
        raise UnsafeRetentionError(msg, table=name_of(table))
    # Not a number compares with nothing.
    if older_than_days is not None and not 0 <= older_than_days <= LONGEST_DAYS:
        msg = f"older_than_days must be 0 or more, and {LONGEST_DAYS} at most, not {older_than_days}."
        raise UnsafeRetentionError(msg, table=name_of(table))
    least = retain_last or least_snapshots(table)
    if older_than is not None:
        return _Rule(to_utc(older_than), least, snapshot_ids)
    if snapshot_ids and older_than_days is None:
        return _Rule(None, least, snapshot_ids)
    age = keeping.age if older_than_days is None else timedelta(days=older_than_days)
    return _Rule(moment_before(age), least, snapshot_ids)


def _plan(table: Table, rule: _Rule) -> Expiry:
    return plan_expiry(
        table.metadata,
        older_than_ms=to_millis(rule.older_than) if rule.older_than else None,
        retain_last=rule.retain_last,
        snapshot_ids=rule.snapshot_ids,
        now_ms=int(time.time() * 1000),
        floor=rule.floor,
    )


def _beyond(table: Table, rule: _Rule, plan: Expiry) -> set[int]:
    """Return the snapshots that an engine would expire and the plan keeps: it follows the ages of refs alone."""
    by_engine = _plan(table, replace(rule, older_than=rule.older_than or _EPOCH, floor=Floor()))
    return set(by_engine.snapshot_ids) - set(plan.snapshot_ids)


def _require_process(context: ManagerContext, table: Table, more: set[int]) -> None:
    """Make sure that an expiry which an engine would take too far can be done in this process.

    Raises:
        UnsafeRetentionError: Only an engine can expire the table.
    """
    if commits_by_engine(context, table):
        msg = f"Spark would expire snapshots of table '{name_of(table)}' that must be kept, such as {min(more)}: "
        msg += "it follows the ages that branches and tags have of their own."
        hint = "Remove or replace those branches and tags, or undercut the retention by allow_below_retention=True."
        raise UnsafeRetentionError(msg, hint=hint, table=name_of(table))
    context.logger.warning("iceberg.engine", chosen="arrow", reason="ages of branches and tags", kept=len(more))


def _in_process(context: ManagerContext, target: TableTarget, rule: _Rule) -> ExpiredSnapshots:
    planned: list[tuple[Table, Expiry, FileReader]] = []

    def plan(table: Table, doubtful: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
        if doubtful and planned and not _still_there(table, planned[-1][1]):
            return None
        expiry = _plan(table, rule)
        reader = planned[-1][2] if planned else FileReader(table)
        # Everything that must be known before a file may go is read first: damage stops the run while nothing changed.
        reader.data_files(reader.manifests(s for s in table.snapshots() if s.snapshot_id not in expiry.snapshot_ids))
        planned[:] = [(table, expiry, reader)]
        if not expiry.snapshot_ids and not expiry.refs:
            return None
        return _change(table, expiry)

    commit_change(context, target, plan, what="expiring snapshots")
    # What others have committed meanwhile keeps its files as well.
    after = load_table(context, target)
    before, expiry, reader = planned[-1]
    return _delete_unreachable(context, before, after, expiry, reader)


def _still_there(table: Table, expiry: Expiry) -> bool:
    return any(table.metadata.snapshot_by_id(snapshot_id) is not None for snapshot_id in expiry.snapshot_ids) or any(
        ref in table.metadata.refs for ref in expiry.refs
    )


def _change(table: Table, expiry: Expiry) -> Change:
    updates = tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in expiry.refs)
    expired = (RemoveSnapshots(snapshot_ids=list(expiry.snapshot_ids)),) if expiry.snapshot_ids else ()
    # A ref that was moved onto one of these snapshots meanwhile would be dropped with it.
    unmoved = (AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in table.metadata.refs.items())
    return Change((*updates, *expired), tuple(unmoved))


def _delete_unreachable(
    context: ManagerContext, before: Table, after: Table, expiry: Expiry, reader: FileReader
) -> ExpiredSnapshots:
    expired = [s for s in before.snapshots() if s.snapshot_id in expiry.snapshot_ids]
    kept = after.snapshots()
    kept_manifests = reader.manifests(kept)
    manifests = {p: n for p, n in reader.manifests(expired, lenient=True).items() if p not in kept_manifests}
    kept_files = reader.data_files(kept_manifests)
    files = {p: n for p, n in reader.data_files(manifests, lenient=True).items() if p not in kept_files}
    lists = {s.manifest_list for s in expired} - {s.manifest_list for s in kept}
    statistics = statistics_files(before.metadata) - statistics_files(after.metadata)
    foreign = own_files(context, after).split({*files, *manifests, *lists, *statistics})[1]
    if foreign:
        context.logger.warning("iceberg.expire_snapshots", kept_foreign_files=len(foreign), first=foreign[0])
    # From the leaves up, so that what a killed run leaves behind can still be told from what is needed.
    gone_files = delete_files(context, after.io, files.keys() - set(foreign))
    gone_manifests = delete_files(context, after.io, manifests.keys() - set(foreign))
    gone_others = delete_files(context, after.io, (lists | statistics) - set(foreign))
    return ExpiredSnapshots(
        len(expired),
        deleted_data_files=len(gone_files),
        deleted_manifests=len(gone_manifests),
        deleted_manifest_lists=len(gone_others & lists),
        deleted_statistics_files=len(gone_others & statistics),
        deleted_bytes=sum(files[path] for path in gone_files) + sum(manifests[path] for path in gone_manifests),
        snapshot_ids=tuple(snapshot.snapshot_id for snapshot in expired),
        foreign_files=foreign,
    )


def _plane(context: ManagerContext, table: Table, engine: Engine | str | None, manifests: int) -> DataPlane | None:
    only_engine = commits_by_engine(context, table)
    if only_engine:
        plane: DataPlane | None = required_plane(context, table, engine)
    else:
        plane = plane_for(context, engine, size=manifests, largest=_MOST_MANIFESTS, what="manifests")
    if plane is None or not (foreign := _foreign_files(context, table, plane)):
        return plane
    # An engine's procedure deletes whatever only expired snapshots refer to.
    if only_engine:
        msg = f"Snapshots of table '{name_of(table)}' refer to files outside its own location, such as '{foreign[0]}'."
        hint = "Spark would delete them, and nothing else can expire format version 3. Nothing was changed."
        raise SharedFilesError(msg, hint=hint, table=name_of(table))
    context.logger.warning("iceberg.engine", chosen="arrow", reason="files of others", first=foreign[0])
    return None


def _foreign_files(context: ManagerContext, table: Table, plane: DataPlane) -> tuple[str, ...]:
    """Return files that an engine must not delete, or places that it must not delete in."""
    own = own_files(context, table)
    if doubtful := (*own.refused, *own.others, *links_below(own.places)):
        return doubtful
    prefixes = [spelling for place in own.places for spelling in spellings(place)]
    outside = plane.files_outside(name_of(table), prefixes=prefixes, limit=_MOST_OUTSIDE)
    foreign = own.split({*outside, *statistics_files(table.metadata)})[1]
    # Of more than were asked for, nobody has seen all.
    return foreign or (outside if len(outside) >= _MOST_OUTSIDE else ())


def _by_engine(context: ManagerContext, target: TableTarget, plane: DataPlane, rule: _Rule) -> ExpiredSnapshots:
    before = load_table(context, target)
    figures = plane.expire_snapshots(
        str(identifier_of(target)),
        older_than=rule.older_than or _EPOCH,
        retain_last=rule.retain_last,
        snapshot_ids=rule.snapshot_ids,
    )
    kept = {snapshot.snapshot_id for snapshot in load_table(context, target).snapshots()}
    gone = tuple(snapshot.snapshot_id for snapshot in before.snapshots() if snapshot.snapshot_id not in kept)
    return ExpiredSnapshots(
        len(gone),
        deleted_data_files=figures.deleted_data_files + figures.deleted_delete_files,
        deleted_manifests=figures.deleted_manifests,
        deleted_manifest_lists=figures.deleted_manifest_lists,
        deleted_statistics_files=figures.deleted_statistics_files,
        snapshot_ids=gone,
    )
