"""Legal holds: what is under one may lose neither its files nor its history."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from floe_core.errors import CapabilityError, CatalogAuthorizationError, LegalHoldError, NamespaceNotFoundError
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.read.versions import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

# On a table, or on any namespace that it is in: any value but "false" is the reason of a hold.
# "floe.legal-hold.<name>" on a namespace holds the namespace <name> below it, and outlives that one: whoever owns the
# child, but may not write to its parent, can neither lift the hold nor drop it.
LEGAL_HOLD = "floe.legal-hold"


def hold_of(properties: Mapping[str, str]) -> str | None:
    """Return the reason of the hold that properties tell of; None without one."""
    reason = properties.get(LEGAL_HOLD, "").strip()
    return None if reason.lower() in {"", "false"} else reason


def hold_of_child(properties: Mapping[str, str], child: str) -> str | None:
    """Return the reason of the hold that a namespace's properties put on the namespace ``child`` below it."""
    return hold_of({LEGAL_HOLD: properties.get(f"{LEGAL_HOLD}.{child}", "")})


def namespace_holds(namespaces: Namespaces, parts: tuple[str, ...], *, in_sight: bool = False) -> dict[str, str]:
    """Return the holds that a namespace is under, its own and those from above: reason by namespace.

    Args:
        namespaces: The catalog's.
        parts: The namespace.
        in_sight: Pass over what may not be read: a tenant sees nothing above its own namespace.

    Raises:
        CatalogAuthorizationError: The properties of one of them may not be read.
    """
    # Flat catalogs have nothing above; a namespace that is gone may still be held from above.
    passed_over = (NamespaceNotFoundError, CapabilityError, *((CatalogAuthorizationError,) if in_sight else ()))
    found: dict[str, str] = {}
    for depth in range(1, len(parts) + 1):
        with contextlib.suppress(*passed_over):
            found |= _holds_at(namespaces, parts, depth)
    return found


def _holds_at(namespaces: Namespaces, parts: tuple[str, ...], depth: int) -> dict[str, str]:
    """Return the holds that the namespace at one depth puts on itself, and on the next one on the way."""
    properties = namespaces.properties(parts[:depth])
    found = {".".join(parts[:depth]): hold_of(properties)}
    if depth < len(parts):
        found[".".join(parts[: depth + 1])] = hold_of_child(properties, parts[depth])
    return {place: reason for place, reason in found.items() if reason is not None}


def require_no_hold(context: ManagerContext, table: Table, *, what: str) -> None:
    """Refuse to delete what belongs to a table under legal hold.

    Args:
        context: The manager's context.
        table: The table.
        what: What is about to happen, for the message.

    Raises:
        LegalHoldError: The table, or a namespace it is in, is under legal hold.
    """
    name = name_of(table)
    holds = {} if (reason := hold_of(table.metadata.properties)) is None else {name: reason}
    holds |= namespace_holds(Namespaces(context.catalog), table.name()[:-1], in_sight=True)
    for place, reason in holds.items():
        msg = f"{what} of table '{name}' is refused: '{place}' is under legal hold ({reason})."
        raise LegalHoldError(msg, hint=f"Remove the property {LEGAL_HOLD} once it is lifted.", table=name)
