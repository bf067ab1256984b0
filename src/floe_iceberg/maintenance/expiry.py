"""Snapshot expiry: removes snapshots and deletes the files that only they reference."""

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
from floe_iceberg.commit.file_ownership import own_files
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.commit.own_files import require_collected
from floe_iceberg.context import identifier_of
from floe_iceberg.maintenance.engines import plane_for
from floe_iceberg.maintenance.lease import maintenance_lease
from floe_iceberg.models import ExpiredSnapshots
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import load_table, manifests_of
from floe_iceberg.read.versions import to_millis, to_utc
from floe_iceberg.table.files.deletion import delete_files
from floe_iceberg.table.files.live_files import FileReader, statistics_files
from floe_iceberg.table.history.keeping import MAX_DAYS, keeping_of, min_snapshots, time_before
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
    from floe_iceberg.read.versions import TimestampLike
    from floe_iceberg.table.history.keeping import Keeping

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# With more manifests than this, a cluster reads them faster than one process.
_MAX_MANIFESTS_IN_PROCESS = 2_000
# Maximum number of files outside the table's locations to check before an engine expires snapshots.
_MAX_OUTSIDE = 1_000


@dataclass(frozen=True)
class _Rule:
    """The requested expiry, and the snapshots that stay regardless."""

    older_than: datetime | None
    retain_last: int
    snapshot_ids: tuple[int, ...]
    floor: Floor = Floor()  # noqa: RUF009 - a frozen value


def expire_snapshots(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    *,
    older_than: TimestampLike | None = None,
    older_than_days: float | None = None,
    retain_last: int | None = None,
    snapshot_ids: Collection[int] = (),
    engine: Engine | str | None = None,
    dry_run: bool = False,
    retention: RetentionDays | None = None,
    allow_below_retention: bool = False,
) -> ExpiredSnapshots:
    """Expire old snapshots and delete the files that only they reference.

    Snapshots that branches or tags need are kept; branches and tags that exceed their maximum age are removed. A
    declared retention takes precedence over the ages of branches and tags. Files outside the table's own locations are
    kept and reported.

    Args:
        context: The manager's context.
        target: The table.
        older_than: Expire snapshots older than this; a datetime without zone is local time.
        older_than_days: The same as an age; by default the table's retention from ``keeping_of``.
        retain_last: Minimum number of snapshots per branch; None for the table's
            ``history.expire.min-snapshots-to-keep``.
        snapshot_ids: Expire exactly these snapshots regardless of age, unless an age is given as well.
        engine: The engine to use; None for the manager's setting.
        dry_run: Whether to only report which snapshots would expire.
        retention: The project's retention in days; by default that of the manager's project.
        allow_below_retention: Whether the given age, snapshots or number, and the ages of branches, may go below the
            declared retention.

    Returns:
        The number of expired snapshots, with the deleted files and bytes as attributes.

    Raises:
        MaintenanceInProgressError: Another maintenance run holds the table's lease.
        UnsafeRetentionError: The given age, snapshots or number are below the declared retention; or only Spark can
            expire the table and would apply a branch's age below it.
        SharedFilesError: ``gc.enabled=false`` means that other tables share the files.
        LegalHoldError: The table, or a namespace it is in, is under legal hold.
        MaintenanceError: A branch or tag still points to one of ``snapshot_ids``.
        CorruptFileError: A file of the table is damaged, so it is unknown which files are still needed.
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
        if plane is not None and (extra := _expired_only_by_engine(table, rule, plan)):
            _require_in_process(context, table, extra)
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


def _rule(  # noqa: PLR0913, PLR0917 - the caller's options
    table: Table,
    keeping: Keeping,
    older_than: TimestampLike | None,
    older_than_days: float | None,
    retain_last: int | None,
    snapshot_ids: tuple[int, ...],
) -> _Rule:
    if older_than is not None and older_than_days is not None:
        msg = "Pass either older_than or older_than_days, not both."
        raise UnsafeRetentionError(msg, table=name_of(table))
    if retain_last is not None and retain_last < 1:
        msg = f"retain_last must be 1 or more, not {retain_last}; the current snapshot is always kept."
        raise UnsafeRetentionError(msg, table=name_of(table))
    # The condition also rejects NaN, which fails every comparison.
    if older_than_days is not None and not 0 <= older_than_days <= MAX_DAYS:
        msg = f"older_than_days must be between 0 and {MAX_DAYS}, not {older_than_days}."
        raise UnsafeRetentionError(msg, table=name_of(table))
    minimum = retain_last or min_snapshots(table)
    if older_than is not None:
        return _Rule(to_utc(older_than), minimum, snapshot_ids)
    if snapshot_ids and older_than_days is None:
        return _Rule(None, minimum, snapshot_ids)
    age = keeping.age if older_than_days is None else timedelta(days=older_than_days)
    return _Rule(time_before(age), minimum, snapshot_ids)


def _plan(table: Table, rule: _Rule) -> Expiry:
    return plan_expiry(
        table.metadata,
        older_than_ms=to_millis(rule.older_than) if rule.older_than else None,
        retain_last=rule.retain_last,
        snapshot_ids=rule.snapshot_ids,
        now_ms=int(time.time() * 1000),
        floor=rule.floor,
    )


def _expired_only_by_engine(table: Table, rule: _Rule, plan: Expiry) -> set[int]:
    """Return the snapshots that the plan keeps but an engine would expire, because it only uses the refs' ages."""
    by_engine = _plan(table, replace(rule, older_than=rule.older_than or _EPOCH, floor=Floor()))
    return set(by_engine.snapshot_ids) - set(plan.snapshot_ids)


def _require_in_process(context: ManagerContext, table: Table, extra: set[int]) -> None:
    """Require that the expiry can run in process, because an engine would expire too many snapshots.

    Raises:
        UnsafeRetentionError: Only an engine can expire the table.
    """
    if commits_by_engine(context, table):
        msg = f"Spark would expire snapshots of table '{name_of(table)}' that must be kept, such as {min(extra)}: "
        msg += "it only applies the ages of branches and tags."
        hint = "Remove or replace those branches and tags, or pass allow_below_retention=True."
        raise UnsafeRetentionError(msg, hint=hint, table=name_of(table))
    context.logger.warning("iceberg.engine", chosen="arrow", reason="ages of branches and tags", kept=len(extra))


def _in_process(context: ManagerContext, target: TableTarget, rule: _Rule) -> ExpiredSnapshots:
    planned: list[tuple[Table, Expiry, FileReader]] = []

    def plan(table: Table, uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
        if uncertain and planned and not _any_remaining(table, planned[-1][1]):
            return None
        expiry = _plan(table, rule)
        reader = planned[-1][2] if planned else FileReader(table)
        # All metadata is read before any change, so a damaged file stops the expiry while nothing has changed.
        reader.data_files(reader.manifests(s for s in table.snapshots() if s.snapshot_id not in expiry.snapshot_ids))
        planned[:] = [(table, expiry, reader)]
        if not expiry.snapshot_ids and not expiry.refs:
            return None
        return _change(table, expiry)

    commit_change(context, target, plan, what="expiring snapshots")
    # Files of commits that landed in the meantime are kept as well.
    after = load_table(context, target)
    before, expiry, reader = planned[-1]
    if after.metadata.table_uuid != before.metadata.table_uuid:
        # A new table got the name. The expired one may have been renamed, and it is unknown which files it still needs.
        context.logger.warning(
            "iceberg.expire_snapshots", table=name_of(after), outcome="files kept", reason="new table"
        )
        return ExpiredSnapshots(len(expiry.snapshot_ids), snapshot_ids=tuple(expiry.snapshot_ids))
    return _delete_unreachable(context, before, after, expiry, reader)


def _any_remaining(table: Table, expiry: Expiry) -> bool:
    return any(table.metadata.snapshot_by_id(snapshot_id) is not None for snapshot_id in expiry.snapshot_ids) or any(
        ref in table.metadata.refs for ref in expiry.refs
    )


def _change(table: Table, expiry: Expiry) -> Change:
    updates = tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in expiry.refs)
    expired = (RemoveSnapshots(snapshot_ids=list(expiry.snapshot_ids)),) if expiry.snapshot_ids else ()
    # Otherwise a ref that has since moved to one of these snapshots would be removed with it.
    unchanged_refs = (
        AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in table.metadata.refs.items()
    )
    return Change((*updates, *expired), tuple(unchanged_refs))


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
    # Delete from the leaves up: after a killed run, the remaining metadata still identifies unneeded files.
    deleted_files = delete_files(context, after.io, files.keys() - set(foreign))
    deleted_manifests = delete_files(context, after.io, manifests.keys() - set(foreign))
    deleted_others = delete_files(context, after.io, (lists | statistics) - set(foreign))
    return ExpiredSnapshots(
        len(expired),
        deleted_data_files=len(deleted_files),
        deleted_manifests=len(deleted_manifests),
        deleted_manifest_lists=len(deleted_others & lists),
        deleted_statistics_files=len(deleted_others & statistics),
        deleted_bytes=sum(files[path] for path in deleted_files) + sum(manifests[path] for path in deleted_manifests),
        snapshot_ids=tuple(snapshot.snapshot_id for snapshot in expired),
        foreign_files=foreign,
    )


def _plane(context: ManagerContext, table: Table, engine: Engine | str | None, manifests: int) -> DataPlane | None:
    only_engine = commits_by_engine(context, table)
    if only_engine:
        plane: DataPlane | None = required_plane(context, table, engine)
    else:
        plane = plane_for(context, engine, size=manifests, limit=_MAX_MANIFESTS_IN_PROCESS, what="manifests")
    if plane is None or not (foreign := _foreign_files(context, table, plane)):
        return plane
    # An engine's procedure deletes every file that only expired snapshots reference.
    if only_engine:
        msg = f"Snapshots of table '{name_of(table)}' reference files outside its location, such as '{foreign[0]}'."
        hint = "Spark would delete them, and only Spark can expire format version 3. Nothing was changed."
        raise SharedFilesError(msg, hint=hint, table=name_of(table))
    context.logger.warning("iceberg.engine", chosen="arrow", reason="foreign files", first=foreign[0])
    return None


def _foreign_files(context: ManagerContext, table: Table, plane: DataPlane) -> tuple[str, ...]:
    """Return files that an engine must not delete, or locations in which it must not delete files."""
    own = own_files(context, table)
    if unclear := (*own.refused, *own.others, *links_below(own.locations)):
        return unclear
    prefixes = [spelling for location in own.locations for spelling in spellings(location)]
    outside = plane.files_outside(name_of(table), prefixes=prefixes, limit=_MAX_OUTSIDE)
    foreign = own.split({*outside, *statistics_files(table.metadata)})[1]
    # At the limit, there may be more files that were not checked.
    return foreign or (outside if len(outside) >= _MAX_OUTSIDE else ())


def _by_engine(context: ManagerContext, target: TableTarget, plane: DataPlane, rule: _Rule) -> ExpiredSnapshots:
    before = load_table(context, target)
    result = plane.expire_snapshots(
        str(identifier_of(target)),
        older_than=rule.older_than or _EPOCH,
        retain_last=rule.retain_last,
        snapshot_ids=rule.snapshot_ids,
    )
    kept = {snapshot.snapshot_id for snapshot in load_table(context, target).snapshots()}
    expired = tuple(snapshot.snapshot_id for snapshot in before.snapshots() if snapshot.snapshot_id not in kept)
    return ExpiredSnapshots(
        len(expired),
        deleted_data_files=result.deleted_data_files + result.deleted_delete_files,
        deleted_manifests=result.deleted_manifests,
        deleted_manifest_lists=result.deleted_manifest_lists,
        deleted_statistics_files=result.deleted_statistics_files,
        snapshot_ids=expired,
    )
