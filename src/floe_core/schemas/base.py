"""What every configuration model shares."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

SCHEMA_VERSION = 1

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class FrozenModel(BaseModel):
    """A value: immutable, closed to unknown keys, strict about types."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
