"""Contexts on an embedded catalog, and access to a table's files, for tests of table operations."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import MissingDependencyError
from floe_core.schemas import CatalogConfig
from floe_core.telemetry import get_logger, get_tracer
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.context import ManagerContext
from floe_iceberg.models import IcebergTableManagerConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from opentelemetry.trace import Tracer
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane


def no_engine() -> DataPlane:
    """Raise the error of a machine without Spark."""
    what = "This operation"
    raise MissingDependencyError(what, extra="spark")


def make_context(
    root: Path, *, tracer: Tracer | None = None, config: IcebergTableManagerConfig | None = None
) -> ManagerContext:
    """Return a context on the embedded catalog in a folder; contexts on the same folder share their tables."""
    return context_on(open_catalog(root), tracer=tracer, config=config)


def open_catalog(root: Path) -> Catalog:
    """Open the embedded catalog in a folder like a project does, with the namespace ``bronze``."""
    config = CatalogConfig(name="test", type="sql", uri="catalog.db", warehouse=f"file://{root}/warehouse")
    catalog = SqlCatalogPlugin().connect(config, file_io={}, project_root=root)
    catalog.create_namespace_if_not_exists("bronze")
    return catalog


def context_on(
    catalog: Catalog,
    *,
    plane: Callable[[], DataPlane] = no_engine,
    tracer: Tracer | None = None,
    config: IcebergTableManagerConfig | None = None,
) -> ManagerContext:
    """Return a context on a connected catalog."""
    return ManagerContext(
        catalog=ReconcilingCatalog.around(catalog),
        config=config or IcebergTableManagerConfig(),
        tracer=tracer or get_tracer("test"),
        logger=get_logger("test"),
        plane=plane,
    )


def local_path(location: str) -> Path:
    """Return the local path of a file location."""
    return Path(location.removeprefix("file:").removeprefix("//"))


def files_of(table: Table, suffix: str = "") -> list[Path]:
    """List the files in a table's folder."""
    return sorted(path for path in local_path(table.location()).rglob(f"*{suffix}") if path.is_file())


def age_snapshots(table: Table, *ages: timedelta) -> tuple[int, ...]:
    """Backdate a table's snapshots by the given ages, oldest first, and return their ids in that order."""
    metadata = local_path(table.metadata_location)
    document = json.loads(metadata.read_text(encoding="utf-8"))
    now = time.time()
    moments = {}
    for snapshot, age in zip(document["snapshots"], ages, strict=True):
        moments[snapshot["snapshot-id"]] = snapshot["timestamp-ms"] = int((now - age.total_seconds()) * 1000)
    for entry in document["snapshot-log"]:
        entry["timestamp-ms"] = moments[entry["snapshot-id"]]
    # Written under a new name, because metadata files are cached by name.
    version = int(metadata.name.partition("-")[0])
    aged = metadata.with_name(f"{version + 1:05d}-{uuid.uuid4()}.metadata.json")
    aged.write_text(json.dumps(document), encoding="utf-8")
    table.catalog.drop_table(table.name())
    table.catalog.register_table(table.name(), f"file://{aged}")
    return tuple(moments)
