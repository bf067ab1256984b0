"""Rewrites manifests into fewer, larger ones, which speeds up scan planning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import Operation

from floe_core.dataplane import OPERATION_ID_PROPERTY
from floe_iceberg.commit.engine import engine_only, required_plane
from floe_iceberg.commit.protocol import WriteScope, commit, new_operation_id
from floe_iceberg.commit.snapshot import SnapshotDraft
from floe_iceberg.context import identifier_of
from floe_iceberg.maintenance.engines import plane_for
from floe_iceberg.maintenance.lease import maintenance_lease
from floe_iceberg.maintenance.rewrite import as_replace
from floe_iceberg.models import ManifestRewriteResult
from floe_iceberg.read.integrity import load_table, manifests_of

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane
    from floe_iceberg.commit.protocol import CommitAttempt
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.models import Engine

# With more manifests than this, a cluster is faster.
_MAX_MANIFESTS_IN_PROCESS = 2_000


def rewrite_manifests(
    context: ManagerContext, target: TableTarget, *, engine: Engine | str | None = None
) -> ManifestRewriteResult:
    """Merge the manifests of main up to the table's ``commit.manifest.target-size-bytes``.

    Raises:
        MaintenanceInProgressError: Another maintenance run holds the table's lease.
    """
    with context.operation("iceberg.rewrite_manifests", target) as operation:
        before = load_table(context, target)
        manifests = _count(before)
        if engine_only(before.metadata):
            plane: DataPlane | None = required_plane(context, before, engine)
        else:
            plane = plane_for(context, engine, size=manifests, limit=_MAX_MANIFESTS_IN_PROCESS, what="manifests")
        with maintenance_lease(context, target, "rewrite_manifests"):
            if plane is not None:
                plane.rewrite_manifests(str(identifier_of(target)))
            elif manifests > 1:
                operation_id = new_operation_id()
                prepared = _PreparedMerge(SnapshotDraft({OPERATION_ID_PROPERTY: operation_id}, merge=True))
                commit(context, target, prepared, WriteScope(operation_id, may_be_repeated=False))
        after = load_table(context, target)
        changed = after.metadata.current_snapshot_id != before.metadata.current_snapshot_id
        result = ManifestRewriteResult(
            manifests_before=manifests,
            manifests_after=_count(after),
            snapshot_id=after.metadata.current_snapshot_id if changed else None,
        )
        operation.set(engine=plane.name if plane else "arrow", **result.model_dump())
        return result


@dataclass
class _PreparedMerge:
    """Builds the merge on the current version of the table, which keeps concurrent changes."""

    draft: SnapshotDraft

    def attempt(self, table: Table) -> CommitAttempt | None:
        if _count(table) <= _specs(table):
            return None
        return as_replace(self.draft.attempt(table, operation=Operation.OVERWRITE))

    def discard(self, io: FileIO) -> None:
        """Do nothing: only the attempt's manifests were written."""


def _count(table: Table) -> int:
    return len(manifests_of(table, table.metadata.current_snapshot(), to_read=False))


def _specs(table: Table) -> int:
    manifests = manifests_of(table, table.metadata.current_snapshot(), to_read=False)
    deletes = sum(manifest.content == ManifestContent.DELETES for manifest in manifests)
    return deletes + len({m.partition_spec_id for m in manifests if m.content == ManifestContent.DATA})
