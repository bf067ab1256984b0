"""The Dagster IO manager under the name that the API contract gives it.

It lives in ``floe_dagster``, and is imported only when it is asked for: tables need no Dagster.
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
    """Import the IO manager when it is asked for."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    import floe_dagster

    try:
        return getattr(floe_dagster, name)
    except ImportError as err:
        what = "The Dagster IO manager"
        raise MissingDependencyError(what, extra="dagster") from err
