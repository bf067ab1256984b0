"""Frames of the project's engine: which data and annotations they are; Arrow data never opens an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import DagsterType

from floe_iceberg.write.operations import is_engine_frame

if TYPE_CHECKING:
    from floe_core.dataplane import DataPlane
    from floe_iceberg.manager import IcebergTableManager


class EngineFrame:
    """Annotation of an input that is read as a frame of the project's engine, whichever engine it is."""


ENGINE_FRAME = DagsterType(
    type_check_fn=lambda _context, _value: True, name=EngineFrame.__name__, typing_type=EngineFrame
)


def plane_of(manager: IcebergTableManager, data: object) -> DataPlane | None:
    """Return the engine if the data is one of its own frames; None for Arrow data, or data of no known kind.

    Raises:
        CapabilityError: The data may be a frame of an engine that cannot open the catalog.
    """
    return manager.context.plane() if is_engine_frame(manager.context, data) else None


def is_engine_annotation(manager: IcebergTableManager, annotation: object) -> bool:
    """Whether an annotation that is not an Arrow, pandas or Polars type asks for a frame of the engine.

    Raises:
        FloeStorageError: The engine is not available.
    """
    if annotation is EngineFrame:
        return True
    return isinstance(annotation, type) and manager.context.plane().gives(annotation)
