"""Who carries out maintenance: floe in process, or the engine of the data plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import MissingDependencyError
from floe_iceberg.models import Engine

if TYPE_CHECKING:
    from floe_core.dataplane import DataPlane
    from floe_iceberg.context import ManagerContext


def plane_for(
    context: ManagerContext, engine: Engine | str | None, *, size: int, largest: int, what: str
) -> DataPlane | None:
    """Return the data plane that should do the work, or None to do it in process.

    Args:
        context: The manager's context.
        engine: What the caller asks for; None is the manager's setting.
        size: How large the work is.
        largest: The largest work that auto keeps in process.
        what: What ``size`` counts, for the log.
    """
    asked = Engine(engine) if engine else context.config.engine
    if asked is Engine.ARROW:
        return None
    if asked is Engine.SPARK:
        return context.plane()
    if size <= largest:
        return None
    try:
        plane = context.plane()
    except MissingDependencyError:
        context.logger.warning("iceberg.engine", chosen="arrow", reason="no engine is installed; this may take long")
        return None
    context.logger.info("iceberg.engine", chosen=plane.name, reason=f"{size} {what}, more than {largest}")
    return plane
