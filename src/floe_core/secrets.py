"""Secret references in files, and how they are resolved in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_serializer, model_validator

from floe_core.errors import SecretReferenceError
from floe_core.observing.redaction import remember_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

ENV_REFERENCE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
SECRETS_DIR_VARIABLE = "FLOE_SECRETS_DIR"
REFERENCE_HINT = "Use a reference: ${MY_SECRET} reads an environment variable, {secret_ref: my-secret} a mounted secret"
# Returns a secret by name; None if there is no such secret.
SecretSource = Callable[[str], str | None]
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_WHOLE_REFERENCE = re.compile(rf"\$\{{(?P<name>{_VARIABLE})\}}")


class SecretReference(BaseModel):
    """A reference to a secret: ``${ENV_VAR}``, or ``{secret_ref: name}`` for a mounted secret.

    The plugin of the ``vault`` section, if any, looks up the name first. Otherwise ``secret_ref: polaris`` is read
    from the file ``$FLOE_SECRETS_DIR/polaris`` (as Kubernetes and Docker mount secrets), or else from the variable
    ``FLOE_SECRET_POLARIS``.
    """

    # An invalid value may be the secret itself, so errors do not show it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    env: str | None = Field(
        default=None, pattern=f"^{_VARIABLE}$", description="Environment variable that contains the secret."
    )
    secret_ref: str | None = Field(default=None, pattern=f"^{_NAME}$", description="Name of the secret.")

    _source: SecretSource | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:  # noqa: ANN401 - a before-validator sees raw input
        if isinstance(value, str):
            if not (reference := _WHOLE_REFERENCE.fullmatch(value.strip())):
                msg = "plain-text secrets are not allowed; use a reference: ${MY_SECRET} or {secret_ref: my-secret}"
                raise ValueError(msg)
            return {"env": reference["name"]}
        return value

    @model_validator(mode="after")
    def _one_source(self) -> SecretReference:
        if (self.env is None) == (self.secret_ref is None):
            msg = "set either an environment variable or a secret_ref"
            raise ValueError(msg)
        return self

    @model_serializer
    def _as_written(self) -> str | dict[str, str]:
        return f"${{{self.env}}}" if self.env else {"secret_ref": str(self.secret_ref)}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe both forms of a reference, for editors."""
        by_name = {"type": "string", "pattern": f"^{_NAME}$", "description": "Name of a mounted secret."}
        return {
            "title": "SecretReference",
            "description": "A reference to a secret: ${ENV_VAR} or {secret_ref: name}. Never the secret itself.",
            "anyOf": [
                {"type": "string", "pattern": rf"^\s*\$\{{{_VARIABLE}\}}\s*$"},
                {
                    "type": "object",
                    "properties": {"secret_ref": by_name},
                    "required": ["secret_ref"],
                    "additionalProperties": False,
                },
            ],
        }

    def __str__(self) -> str:
        """Return the reference, which is safe to show."""
        return f"${{{self.env}}}" if self.env else f"secret_ref:{self.secret_ref}"

    @property
    def variable(self) -> str:
        """The environment variable that can contain the secret."""
        return self.env or "FLOE_SECRET_" + re.sub(r"[^A-Za-z0-9]", "_", str(self.secret_ref)).upper()

    def with_source(self, source: SecretSource) -> SecretReference:
        """Return the same reference, with its name looked up in a source first."""
        copy = self.model_copy()
        copy._source = source  # noqa: SLF001 - our own copy
        return copy

    def resolve(self, environ: Mapping[str, str] | None = None) -> SecretStr:
        """Read the secret; from then on, its value is masked in logs and messages.

        Raises:
            SecretReferenceError: The variable is not set, or no plugin, file or variable has the named secret.
        """
        environ = os.environ if environ is None else environ
        if self.env is not None:
            if value := environ.get(self.env):
                return _remembered(value)
            msg = f"The environment variable {self.env} is not set."
            raise SecretReferenceError(msg, hint=f"Set it with: export {self.env}=…")
        name = str(self.secret_ref)
        if self._source is not None and (value := self._source(name)):
            return _remembered(value)
        folder = environ.get(SECRETS_DIR_VARIABLE)
        if folder and (value := _mounted(Path(folder) / name)):
            return _remembered(value)
        if value := environ.get(self.variable):
            return _remembered(value)
        msg = f"The secret '{name}' was not found."
        hint = f"Put it in ${SECRETS_DIR_VARIABLE}/{name} or the variable {self.variable}."
        raise SecretReferenceError(msg, hint=hint)


def expand(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Replace each ``${VAR}`` and ``${VAR:-default}`` in a text that is not a secret.

    Raises:
        SecretReferenceError: A variable without a default is not set.
    """
    environ = os.environ if environ is None else environ

    def value_of(match: re.Match[str]) -> str:
        value = environ.get(match["name"]) or match["default"]
        if value is None:
            msg = f"The environment variable {match['name']} is not set."
            raise SecretReferenceError(msg, hint=f"Set it, or set a default: ${{{match['name']}:-value}}.")
        return value

    return ENV_REFERENCE.sub(value_of, text)


def missing_variables(text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables in a text that are not set and have no default."""
    environ = os.environ if environ is None else environ
    matches = ENV_REFERENCE.finditer(text)
    return [match["name"] for match in matches if match["default"] is None and not environ.get(match["name"])]


def _remembered(value: str) -> SecretStr:
    remember_secret(value)
    return SecretStr(value)


def _mounted(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as err:
        reason = getattr(err, "strerror", None) or "it is not UTF-8 text"
        msg = f"Cannot read the secret file {path}: {reason}."
        raise SecretReferenceError(msg, hint="Check its content and permissions.") from None
