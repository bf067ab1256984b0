"""Base class for catalogs whose namespaces have a single level, such as databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog

from floe_catalogs.trusted_file_io import TrustedFileIO
from floe_core.errors import CapabilityError

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier


class FlatNamespaces(TrustedFileIO):
    """Rejects nested namespaces before any level is created."""

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Return whether the database exists.

        Raises:
            CapabilityError: The name has more than one level.
        """
        parts = Catalog.identifier_to_tuple(namespace)
        if len(parts) > 1:
            msg = f"Catalog '{self.name}' does not support nested namespaces: '{'.'.join(parts)}'."
            raise CapabilityError(msg, hint=f"Use a single level, such as '{'_'.join(parts)}'.")
        return super().namespace_exists(namespace)
