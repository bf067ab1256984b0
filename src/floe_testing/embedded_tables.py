"""A context on an embedded catalog, and a look at a table's folder, for tests of table operations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog

from floe_core.errors import MissingDependencyError
from floe_core.telemetry import get_logger, get_tracer
from floe_iceberg.context import ManagerContext
from floe_iceberg.models import IcebergTableManagerConfig
from floe_iceberg.reconciling import ReconcilingCatalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Tracer
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane


def no_engine() -> DataPlane:
    """Stand for a machine without Spark."""
    what = "This operation"
    raise MissingDependencyError(what, extra="spark")


def make_context(
    root: Path, *, tracer: Tracer | None = None, config: IcebergTableManagerConfig | None = None
) -> ManagerContext:
    """Open a context on the embedded catalog in a folder; contexts on one folder share their tables."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{root}/catalog.db?timeout=30", warehouse=f"file://{root}/warehouse")
    catalog.create_namespace_if_not_exists("bronze")
    return context_on(catalog, tracer=tracer, config=config)


def context_on(
    catalog: Catalog,
    *,
    plane: Callable[[], DataPlane] = no_engine,
    tracer: Tracer | None = None,
    config: IcebergTableManagerConfig | None = None,
) -> ManagerContext:
    """Give a context on a connected catalog."""
    return ManagerContext(
        catalog=ReconcilingCatalog.around(catalog),
        config=config or IcebergTableManagerConfig(),
        tracer=tracer or get_tracer("test"),
        logger=get_logger("test"),
        plane=plane,
    )


def local_path(location: str) -> Path:
    """Return the path of a file location."""
    return Path(location.removeprefix("file://"))


def files_of(table: Table, suffix: str = "") -> list[Path]:
    """List what lies in a table's folder."""
    return sorted(path for path in local_path(table.location()).rglob(f"*{suffix}") if path.is_file())
