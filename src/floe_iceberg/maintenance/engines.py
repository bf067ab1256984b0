"""Chooses whether maintenance runs in process or on the engine of the data plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import MissingDependencyError
from floe_iceberg.models import Engine

if TYPE_CHECKING:
    from floe_core.dataplane import DataPlane
    from floe_iceberg.context import ManagerContext


def plane_for(
    context: ManagerContext, engine: Engine | str | None, *, size: int, limit: int, what: str
) -> DataPlane | None:
    """Return the data plane that should do the work, or None to do it in process.

    Args:
        context: The manager's context.
        engine: The requested engine; None for the manager's setting.
        size: Size of the work.
        limit: Largest size that auto runs in process.
        what: Unit of ``size``, for the log.
    """
    requested = Engine(engine) if engine else context.config.engine
    if requested is Engine.ARROW:
        return None
    if requested is Engine.SPARK:
        return context.plane()
    if size <= limit:
        return None
    try:
        plane = context.plane()
    except MissingDependencyError:
        context.logger.warning("iceberg.engine", chosen="arrow", reason="no engine is installed; this may be slow")
        return None
    context.logger.info("iceberg.engine", chosen=plane.name, reason=f"{size} {what}, more than {limit}")
    return plane
