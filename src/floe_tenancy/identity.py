"""Validation of tenant ids and table names."""

from __future__ import annotations

import re

from floe_core.errors import InvalidIdentifierError
from floe_core.observing.redaction import redact_text

MAX_LENGTH = 63

# ASCII only: look-alike Unicode letters could make two tenant ids look the same.
_TENANT_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_LENGTH - 1}}}", re.ASCII)


def validate_tenant_id(tenant: str) -> str:
    """Return the id if it is valid as a namespace and as a prefix on every store.

    Raises:
        InvalidIdentifierError: The id contains characters other than ASCII letters, digits, ``-`` and ``_``, does not
            start with a letter or digit, or has more than 63 characters.
    """
    return _validated(tenant, "tenant id")


def validate_table_name(name: str) -> str:
    """Return the table name if it is valid as a folder on every store; the rules are those for tenant ids.

    Raises:
        InvalidIdentifierError: The name is invalid.
    """
    return _validated(name, "table name")


def _validated(name: str, what: str) -> str:
    if not isinstance(name, str) or not _TENANT_ID.fullmatch(name):
        shown = ascii(redact_text(name)) if isinstance(name, str) else type(name).__name__
        msg = f"{shown[: MAX_LENGTH + 20]} is not a valid {what}."
        hint = f"Use up to {MAX_LENGTH} ASCII letters, digits, '-' and '_', starting with a letter or digit."
        raise InvalidIdentifierError(msg, hint=hint)
    return name


def refuse_collision(tenant: str, other: str | None) -> None:
    """Refuse an id that differs from an existing one only in case.

    Raises:
        InvalidIdentifierError: The ids differ only in case, so on some stores the tenants would share their files.
    """
    if other is not None and other != tenant:
        msg = f"Tenant id '{tenant}' differs from the existing '{other}' only in case."
        raise InvalidIdentifierError(msg, hint=f"Use '{other}', or choose another id.")
