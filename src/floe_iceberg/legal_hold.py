"""Legal holds: what is under one may lose neither its files nor its history."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from floe_core.errors import CapabilityError, CatalogAuthorizationError, LegalHoldError, NamespaceNotFoundError
from floe_iceberg.namespaces import Namespaces
from floe_iceberg.versions import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

# On a table, or on any namespace that it is in: any value but "false" is the reason of a hold.
LEGAL_HOLD = "floe.legal-hold"


def hold_of(properties: Mapping[str, str]) -> str | None:
    """Return the reason of the hold that properties tell of; None without one."""
    reason = properties.get(LEGAL_HOLD, "").strip()
    return None if reason.lower() in {"", "false"} else reason


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
    places = {name: table.metadata.properties}
    parts = table.name()[:-1]
    namespaces = Namespaces(context.catalog)
    for depth in range(1, len(parts) + 1):
        place = ".".join(parts[:depth])
        # A tenant may not read what is above its own namespace, and flat catalogs have nothing there.
        with contextlib.suppress(NamespaceNotFoundError, CatalogAuthorizationError, CapabilityError):
            places[place] = namespaces.properties(place)
    for place, properties in places.items():
        if (reason := hold_of(properties)) is not None:
            msg = f"{what} of table '{name}' is refused: '{place}' is under legal hold ({reason})."
            raise LegalHoldError(msg, hint=f"Remove the property {LEGAL_HOLD} once it is lifted.", table=name)
