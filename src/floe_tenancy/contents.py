"""What a namespace can hold besides Iceberg tables: views, and the generic tables of Polaris."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyiceberg.exceptions import NoSuchViewError

from floe_core.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from floe_iceberg import IcebergTableManager


class ContentKind(StrEnum):
    """What it is."""

    VIEW = "view"
    GENERIC_TABLE = "generic table"


@dataclass(frozen=True, slots=True)
class NamespaceContent:
    """A view or a generic table."""

    kind: ContentKind
    name: str

    def __str__(self) -> str:
        """Name it with its kind."""
        return f"{self.kind.value} {self.name}"


@runtime_checkable
class HoldsGenericTables(Protocol):
    """A catalog whose namespaces can hold tables of other formats."""

    def list_generic_tables(self, namespace: tuple[str, ...]) -> list[str]:
        """List the names of a namespace's generic tables."""
        ...

    def drop_generic_table(self, namespace: tuple[str, ...], name: str) -> None:
        """Drop a generic table; one that is gone already is no error."""
        ...


def contents_of(manager: IcebergTableManager, namespaces: Iterable[str]) -> list[NamespaceContent]:
    """List the views and generic tables of some namespaces; none where the catalog does not know of such."""
    found = []
    generic = _generic(manager)
    for namespace in namespaces:
        parts = tuple(namespace.split("."))
        with contextlib.suppress(CapabilityError), manager.namespaces.operation("list_views", parts):
            views = sorted(view[-1] for view in manager.catalog.list_views(parts))
            found += [NamespaceContent(ContentKind.VIEW, f"{namespace}.{view}") for view in views]
        if generic is not None:
            with manager.namespaces.operation("list_generic_tables", parts):
                names = generic.list_generic_tables(parts)
            found += [NamespaceContent(ContentKind.GENERIC_TABLE, f"{namespace}.{name}") for name in names]
    return found


def drop_content(manager: IcebergTableManager, content: NamespaceContent) -> None:
    """Drop a view or a generic table; one that is gone already is no error."""
    namespace, _, name = content.name.rpartition(".")
    parts = tuple(namespace.split("."))
    generic = _generic(manager)
    with manager.namespaces.operation(f"drop_{content.kind.value.replace(' ', '_')}", parts):
        if content.kind is ContentKind.GENERIC_TABLE and generic is not None:
            generic.drop_generic_table(parts, name)
        elif content.kind is ContentKind.VIEW:
            with contextlib.suppress(NoSuchViewError):
                manager.catalog.drop_view((*parts, name))


def _generic(manager: IcebergTableManager) -> HoldsGenericTables | None:
    catalog = manager.catalog
    inner = getattr(catalog, "inner", catalog)
    return inner if isinstance(inner, HoldsGenericTables) else None
