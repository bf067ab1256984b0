"""Export a tenant's tables as Parquet files that can be read without a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyiceberg.io import load_file_io

from floe_core.declaration.locations import is_at_or_below
from floe_core.errors import ConfigurationError, FloeStorageError, StorageError, TransientError
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import traced
from floe_iceberg.table.files.live_files import FileReader
from floe_tenancy.layout.layout import is_own_location

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from floe_iceberg import IcebergTableManager
    from floe_iceberg.commit.own_files import OwnFiles
    from floe_tenancy.layout.layout import TenantTable


@dataclass(frozen=True, slots=True)
class ExportedTable:
    """An exported table.

    Attributes:
        snapshot_id: The exported snapshot; None for a table without snapshots.
        rows: Rows written.
        uri: The Parquet file.
    """

    snapshot_id: int | None
    rows: int
    uri: str

    def as_json(self) -> dict[str, Any]:
        """Return the journal entry."""
        return {"snapshot_id": self.snapshot_id, "rows": self.rows, "uri": self.uri}


def export_root(destination: str, *, forbidden: Sequence[str]) -> str:
    """Return the URI of the export folder.

    Raises:
        ConfigurationError: The folder is below a prefix that off-boarding purges.
    """
    given = destination.strip()
    root = given.rstrip("/") if "://" in given else f"file://{Path(given).expanduser().resolve()}"
    if is_at_or_below(root, forbidden):
        msg = f"Cannot export to {root}: off-boarding deletes this folder."
        raise ConfigurationError(msg, hint="Choose a folder outside the tenant's prefixes.")
    return root


def reason_against_export(manager: IcebergTableManager, table: TenantTable, own: OwnFiles) -> str | None:
    """Return why a tenant's table cannot be exported; None if it can be.

    Tenants write their tables' metadata and manifests, but an export reads with the administrator's credentials. It
    must not read files outside the tenant's prefixes, which belong to others.
    """
    if table.broken:
        return f"cannot read it: {table.broken}"
    if outside := [place for place in table.places if not is_own_location(own, place)]:
        return f"it uses {outside[0]}, outside the tenant's prefixes"
    if table.snapshot_id is None:
        return None
    try:
        # Stop at the first one, so that foreign manifest lists and manifests are never read.
        foreign = next((file for file in _files_read(manager, table) if file not in own), None)
    except TransientError:
        raise
    except FloeStorageError as err:
        return f"cannot read it: {redact_text(err.message)}"
    return f"its snapshot references {foreign}, outside the tenant's prefixes" if foreign else None


def _files_read(manager: IcebergTableManager, table: TenantTable) -> Iterator[str]:
    """Yield every file that a scan reads, before opening it."""
    loaded = manager.load_table(table.name)
    snapshot = loaded.snapshot_by_id(table.snapshot_id) if table.snapshot_id is not None else None
    if snapshot is None:
        return
    reader = FileReader(loaded)
    yield snapshot.manifest_list
    manifests = reader.manifests([snapshot])
    yield from manifests
    yield from reader.data_files(manifests)


def export_table(manager: IcebergTableManager, table: TenantTable, root: str) -> ExportedTable:
    """Write a table's current rows to one Parquet file below a folder.

    Raises:
        StorageError: The file cannot be written.
    """
    uri = f"{root}/{'/'.join(table.name.split('.'))}.parquet"
    with traced("tenancy.export", table=table.name, uri=uri) as operation:
        reader = manager.scan_batches(table.name, snapshot_id=table.snapshot_id)
        rows = 0
        try:
            output = load_file_io(dict(manager.catalog.properties), uri).new_output(uri)
            with output.create(overwrite=True) as stream, pq.ParquetWriter(stream, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    rows += batch.num_rows
        except OSError as err:
            msg = f"Cannot export '{table.name}' to {uri}: {err.strerror or type(err).__name__}."
            raise StorageError(msg, hint="Nothing was dropped. Check the location and its free space.") from err
        operation.set(rows=rows)
    return ExportedTable(table.snapshot_id, rows, uri)
