"""The base of all configuration models."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints, WithJsonSchema

SCHEMA_VERSION = 1


def _no_boolean(value: Any) -> Any:  # noqa: ANN401 - a before-validator sees raw input
    if isinstance(value, bool):
        msg = "expected a number, not true or false"
        raise ValueError(msg)  # noqa: TRY004 - pydantic turns only ValueError into a located error
    return value


def _as_text(value: Any) -> Any:  # noqa: ANN401 - a before-validator sees raw input
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _web_address(value: str) -> str:
    if "${" in value:
        return value
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        msg = f"'{value}' is not a valid address; use http://host:port or https://host"
        raise ValueError(msg)
    return value


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
WebAddress = Annotated[Text, AfterValidator(_web_address)]
WholeNumber = Annotated[int, BeforeValidator(_no_boolean)]
Number = Annotated[float, BeforeValidator(_no_boolean)]
# The value of a setting that is passed on as text: numbers and booleans keep their source text.
Setting = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema({"anyOf": [{"type": kind} for kind in ("string", "number", "boolean")]}),
]


class FrozenModel(BaseModel):
    """An immutable value that rejects unknown keys; errors omit invalid values, which may be secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)
