"""Look up a path of the document in the models: the keys allowed there and the type of their values."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from floe_core.config.nodes import Path


@dataclass(frozen=True, slots=True)
class FieldFacts:
    """A field's description, and the model of its value if there is one."""

    description: str
    model: type[BaseModel] | None


def keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """Return the keys allowed under a path; empty if any key is allowed."""
    holder = _model_in(_descend(model, path))
    return list(holder.model_fields) if holder else []


def field_at(model: type[BaseModel], path: Path) -> FieldFacts | None:
    """Return the facts about the field at a path; None if there is no such field."""
    if not path or not isinstance(path[-1], str):
        return None
    holder = _model_in(_descend(model, path[:-1]))
    info = holder.model_fields.get(path[-1]) if holder else None
    return FieldFacts(info.description or "", _model_in(info.annotation)) if info else None


def sections_with(model: type[BaseModel], key: str) -> list[str]:
    """Return the top-level sections that have a key."""
    sections = ((name, _model_in(info.annotation)) for name, info in model.model_fields.items())
    return [name for name, holder in sections if holder and key in holder.model_fields]


def _descend(annotation: Any, path: Path) -> Any:  # noqa: ANN401 - annotations have no common type
    for part in path:
        annotation = _step(annotation, part)
    return annotation


def _step(annotation: Any, part: str | int) -> Any:  # noqa: ANN401 - annotations have no common type
    annotation = _bare(annotation)
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    if get_origin(annotation) is tuple:
        return arguments[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and part in annotation.model_fields:
        return annotation.model_fields[str(part)].annotation
    return None


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - annotations have no common type
    annotation = _bare(annotation)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _bare(annotation: Any) -> Any:  # noqa: ANN401 - annotations have no common type
    """Remove ``Annotated`` and ``| None``."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [argument for argument in get_args(annotation) if argument is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else None
    return annotation
