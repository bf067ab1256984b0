"""Tenant ids: checked before anything is read or written."""

from __future__ import annotations

import re

from floe_core.errors import InvalidIdentifierError
from floe_core.observing.redaction import redact_text

MAX_LENGTH = 63

# ASCII on purpose: look-alike letters of other scripts must not make two tenants look the same.
_TENANT_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_LENGTH - 1}}}", re.ASCII)


def validate_tenant_id(tenant: str) -> str:
    """Return the id when it can name a namespace and a prefix on every store.

    Raises:
        InvalidIdentifierError: Anything but ASCII letters, digits, ``-`` and ``_``, a first character that is neither
            letter nor digit, or more than 63 characters.
    """
    return _validated(tenant, "tenant id")


def validate_table_name(name: str) -> str:
    """Return a table's name when it can be a folder on every store; the rules are those of tenant ids.

    Raises:
        InvalidIdentifierError: It cannot.
    """
    return _validated(name, "table name")


def _validated(name: str, what: str) -> str:
    if not isinstance(name, str) or not _TENANT_ID.fullmatch(name):
        shown = ascii(redact_text(name)) if isinstance(name, str) else type(name).__name__
        msg = f"{shown[: MAX_LENGTH + 20]} is no {what}."
        hint = f"Use up to {MAX_LENGTH} ASCII letters, digits, '-' and '_', starting with a letter or digit."
        raise InvalidIdentifierError(msg, hint=hint)
    return name


def refuse_collision(tenant: str, other: str | None) -> None:
    """Refuse an id that differs from a known one in case only.

    Raises:
        InvalidIdentifierError: Such a tenant is there: on some stores the two would share their files.
    """
    if other is not None and other != tenant:
        msg = f"The tenant id '{tenant}' differs from the existing '{other}' in case only."
        raise InvalidIdentifierError(msg, hint=f"Use '{other}', or an id that differs in more than case.")
