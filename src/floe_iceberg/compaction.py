"""Public import path of compaction; the implementation is in ``floe_iceberg.maintenance``."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_iceberg.maintenance import compact_table, rewrite_manifests
    from floe_iceberg.models import CompactionResult, CompactionStrategy, ManifestRewriteResult

__all__ = ["CompactionResult", "CompactionStrategy", "ManifestRewriteResult", "compact_table", "rewrite_manifests"]

_HOMES = {
    "CompactionResult": "floe_iceberg.models",
    "CompactionStrategy": "floe_iceberg.models",
    "ManifestRewriteResult": "floe_iceberg.models",
    "compact_table": "floe_iceberg.maintenance",
    "rewrite_manifests": "floe_iceberg.maintenance",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
