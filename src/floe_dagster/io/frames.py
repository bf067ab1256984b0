"""Recognizes frames of the project's engine and annotations for them, without starting an engine for Arrow data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import DagsterType

from floe_iceberg.write.operations import is_engine_frame

if TYPE_CHECKING:
    from floe_core.dataplane import DataPlane
    from floe_iceberg.manager import IcebergTableManager


class EngineFrame:
    """Annotation for inputs that are read as a frame of the project's engine, regardless of the engine."""


ENGINE_FRAME = DagsterType(
    type_check_fn=lambda _context, _value: True, name=EngineFrame.__name__, typing_type=EngineFrame
)


def plane_of(manager: IcebergTableManager, data: object) -> DataPlane | None:
    """Return the engine if the data is one of its own frames; None for Arrow data and unknown types.

    Raises:
        CapabilityError: The data may be a frame of an engine that cannot open the catalog.
    """
    return manager.context.plane() if is_engine_frame(manager.context, data) else None


def is_engine_annotation(manager: IcebergTableManager, annotation: object) -> bool:
    """Whether an annotation other than an Arrow, pandas or Polars type requests a frame of the engine.

    Raises:
        FloeStorageError: The engine is not available.
    """
    if annotation is EngineFrame:
        return True
    return isinstance(annotation, type) and manager.context.plane().gives(annotation)
