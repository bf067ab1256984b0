"""Public import path of the Dagster IO manager.

The implementation is in ``floe_dagster`` and is imported lazily, because tables do not need Dagster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_core.errors import MissingDependencyError

if TYPE_CHECKING:
    from floe_dagster import (
        IcebergIOManager,
        IcebergIOManagerConfig,
        create_iceberg_resources,
        create_io_manager,
        create_io_manager_from_artifacts,
    )

__all__ = [
    "IcebergIOManager",
    "IcebergIOManagerConfig",
    "create_iceberg_resources",
    "create_io_manager",
    "create_io_manager_from_artifacts",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute can be anything
    """Import the IO manager on first use."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    import floe_dagster

    try:
        return getattr(floe_dagster, name)
    except ImportError as err:
        what = "The Dagster IO manager"
        raise MissingDependencyError(what, extra="dagster") from err
