"""Replace ``${VAR}`` references in a configuration section by values; secrets remain references."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from floe_core.errors import ConfigProblem, ConfigurationError
from floe_core.schemas import FrozenModel
from floe_core.secrets import SecretReference, SecretSource, expand

Section = TypeVar("Section", bound=FrozenModel)


def expand_section(section: Section, *, path: str, secrets: SecretSource | None = None) -> Section:
    """Replace ``${VAR}`` in every text of a section and validate the result.

    Args:
        section: A section of the compiled artifacts.
        path: Its path, such as ``catalog``, for error messages.
        secrets: The source in which every ``secret_ref`` of the result is looked up first.

    Raises:
        SecretReferenceError: A variable without a default is not set.
        ConfigurationError: A value from the environment is not valid for its setting.
    """
    try:
        return type(section).model_validate({key: _expanded(value, secrets) for key, value in section})
    except ValidationError as err:
        problems = [
            ConfigProblem(item["msg"], path=".".join([path, *map(str, item["loc"])]))
            for item in err.errors(include_input=False, include_url=False)
        ]
        msg = f"The {path} section is not valid with the values from the environment."
        raise ConfigurationError(msg, problems=problems) from None


def _expanded(value: Any, secrets: SecretSource | None) -> Any:  # noqa: ANN401 - accepts and returns any setting
    if isinstance(value, str):
        # A str subclass such as an enum contains no reference and must keep its type.
        return expand(value) if type(value) is str else value
    if isinstance(value, SecretReference):
        return value if secrets is None else value.with_source(secrets)
    if isinstance(value, FrozenModel):
        return {key: _expanded(item, secrets) for key, item in value}
    if isinstance(value, dict):
        return {key: _expanded(item, secrets) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_expanded(item, secrets) for item in value)
    return value
