"""Detection of delete files: equality deletes that need an engine, and dangling position deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import FileScanTask

from floe_core.errors import CapabilityError, MissingDependencyError
from floe_core.runtime.distribution import install_hint
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.models import Engine
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import CheckedIO, manifests_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_core.dataplane import DataPlane
    from floe_iceberg.context import ManagerContext

_TOTAL = "total-equality-deletes"
_TOTAL_FILES = "total-delete-files"


def has_equality_deletes(table: Table, snapshot: Snapshot | None) -> bool:
    """Whether a snapshot has equality deletes, which PyIceberg does not apply.

    The snapshot summary usually has their count; if not, the delete manifests are read.
    """
    if snapshot is None:
        return False
    summary = summary_of(snapshot)
    if (count := summary.get(_TOTAL)) is not None:
        return count != "0"
    found = [m for m in manifests_of(table, snapshot) if m.content == ManifestContent.DELETES]
    io = CheckedIO(table.io, {m.manifest_path: m.manifest_length for m in found}, name_of(table))
    return any(
        entry.data_file.content == DataFileContent.EQUALITY_DELETES
        for manifest in found
        for entry in manifest.fetch_manifest_entry(io)
    )


def dangling_deletes(table: Table, live: Iterable[FileScanTask]) -> list[DataFile]:
    """Return the position delete files of main that no longer apply to any data file.

    Args:
        table: The table.
        live: The data files that stay, each with the delete files that apply to it. New files can be omitted, because a
            position delete does not apply to files of later commits.
    """
    snapshot = table.metadata.current_snapshot()
    if snapshot is None or (snapshot.summary and snapshot.summary.additional_properties.get(_TOTAL_FILES) == "0"):
        return []
    found = [m for m in manifests_of(table, snapshot) if m.content == ManifestContent.DELETES]
    if not found:
        return []
    needed = {file.file_path for task in live for file in task.delete_files}
    io = CheckedIO(table.io, {m.manifest_path: m.manifest_length for m in found}, name_of(table))
    files = [entry.data_file for manifest in found for entry in manifest.fetch_manifest_entry(io)]
    return [file for file in files if file.content == DataFileContent.POSITION_DELETES and file.file_path not in needed]


def plane_for_equality_deletes(context: ManagerContext, table: Table, engine: Engine | str | None) -> DataPlane:
    """Return the engine that applies equality deletes.

    Raises:
        CapabilityError: Another engine is requested, or none is installed; nothing was written.
    """
    name = name_of(table)
    msg = f"Table '{name}' has equality deletes, which only Spark can apply."
    if Engine(engine or context.config.engine) is Engine.ARROW:
        hint = "Remove engine=arrow, or compact the table once: floe tables compact --engine spark."
        raise CapabilityError(msg, hint=hint, table=name)
    try:
        return context.plane()
    except MissingDependencyError as err:
        raise CapabilityError(msg, hint=install_hint(err.extra), table=name) from err


def data_files(table: Table) -> list[FileScanTask]:
    """Return the live data files of main without their deletes, for counting."""
    found = [m for m in manifests_of(table, table.metadata.current_snapshot()) if m.content != ManifestContent.DELETES]
    io = CheckedIO(table.io, {m.manifest_path: m.manifest_length for m in found}, name_of(table))
    return [FileScanTask(entry.data_file) for manifest in found for entry in manifest.fetch_manifest_entry(io)]
