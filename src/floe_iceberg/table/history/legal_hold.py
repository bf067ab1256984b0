"""Legal holds, which protect the files and history of tables."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from floe_core.errors import CapabilityError, CatalogAuthorizationError, LegalHoldError, NamespaceNotFoundError
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.names import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

# Set on a table or any of its namespaces; any value except "false" is the reason for the hold.
# "floe.legal-hold.<name>" on a namespace puts the child namespace <name> on hold and survives a drop of the child: an
# owner of the child without write access to the parent can neither lift the hold nor evade it by dropping the child.
LEGAL_HOLD = "floe.legal-hold"


def hold_of(properties: Mapping[str, str]) -> str | None:
    """Return the reason for the legal hold in the properties; None without a hold."""
    reason = properties.get(LEGAL_HOLD, "").strip()
    return None if reason.lower() in {"", "false"} else reason


def hold_of_child(properties: Mapping[str, str], child: str) -> str | None:
    """Return the reason for the hold that a namespace's properties put on its child namespace ``child``."""
    return hold_of({LEGAL_HOLD: properties.get(f"{LEGAL_HOLD}.{child}", "")})


def namespace_holds(namespaces: Namespaces, parts: tuple[str, ...], *, skip_unreadable: bool = False) -> dict[str, str]:
    """Return the legal holds of a namespace and its parents, as namespace to reason.

    Args:
        namespaces: The catalog's namespaces.
        parts: The namespace.
        skip_unreadable: Whether to skip unreadable namespaces; a tenant cannot read the parents of its namespace.

    Raises:
        CatalogAuthorizationError: Access to the properties of a namespace is denied.
    """
    # Flat catalogs have no parent namespaces; a dropped namespace may still be on hold through its parent.
    skipped = (NamespaceNotFoundError, CapabilityError, *((CatalogAuthorizationError,) if skip_unreadable else ()))
    found: dict[str, str] = {}
    for depth in range(1, len(parts) + 1):
        with contextlib.suppress(*skipped):
            found |= _holds_at(namespaces, parts, depth)
    return found


def _holds_at(namespaces: Namespaces, parts: tuple[str, ...], depth: int) -> dict[str, str]:
    """Return the holds that the namespace at one depth puts on itself and on its child in ``parts``."""
    properties = namespaces.properties(parts[:depth])
    found = {".".join(parts[:depth]): hold_of(properties)}
    if depth < len(parts):
        found[".".join(parts[: depth + 1])] = hold_of_child(properties, parts[depth])
    return {held_object: reason for held_object, reason in found.items() if reason is not None}


def _hold_properties(namespace: str) -> str:
    """Name the properties that can put a namespace on hold, for a hint."""
    parent, _, child = namespace.rpartition(".")
    return f"{LEGAL_HOLD}, or {LEGAL_HOLD}.{child} on its parent namespace" if parent else LEGAL_HOLD


def require_no_hold(context: ManagerContext, table: Table, *, what: str) -> None:
    """Require that neither a table nor its namespaces are under legal hold.

    Args:
        context: The manager's context.
        table: The table.
        what: The operation, for the error message.

    Raises:
        LegalHoldError: The table, or a namespace it is in, is under legal hold.
    """
    name = name_of(table)
    holds = {} if (reason := hold_of(table.metadata.properties)) is None else {name: reason}
    holds |= namespace_holds(Namespaces(context.catalog), table.name()[:-1], skip_unreadable=True)
    for held_object, reason in holds.items():
        msg = f"{what} of table '{name}' is refused: '{held_object}' is under legal hold ({reason})."
        properties = LEGAL_HOLD if held_object == name else _hold_properties(held_object)
        raise LegalHoldError(msg, hint=f"When the hold is lifted, remove the property {properties}.", table=name)
