"""Catalogs whose namespaces have one level, such as databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from floe_catalogs.own_settings import OwnSettings
from floe_core.errors import CapabilityError

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier


class FlatNamespaces(OwnSettings):
    """Refuses nested namespaces before any level of one is created."""

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Tell whether the database exists.

        Raises:
            CapabilityError: The name has more than one level.
        """
        parts = Catalog.identifier_to_tuple(namespace)
        if len(parts) > 1:
            msg = f"The catalog '{self.name}' has no nested namespaces, so there can be no '{'.'.join(parts)}'."
            raise CapabilityError(msg, hint=f"Use one level, such as {'_'.join(parts)}.")
        return super().namespace_exists(namespace)
