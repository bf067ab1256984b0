"""Table maintenance: snapshot expiry, compaction, manifest rewrites and orphan file removal."""

from floe_iceberg.maintenance.compaction import compact_table
from floe_iceberg.maintenance.expiry import expire_snapshots
from floe_iceberg.maintenance.manifest_rewrite import rewrite_manifests
from floe_iceberg.maintenance.orphans import sweep_orphans
from floe_iceberg.table.history.keeping import Keeping, keeping_of

__all__ = ["Keeping", "compact_table", "expire_snapshots", "keeping_of", "rewrite_manifests", "sweep_orphans"]
