"""Views, generic tables, and entries of a namespace whose names floe cannot address."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NoSuchViewError

from floe_core.errors import CapabilityError, NamespaceNotFoundError
from floe_iceberg.names import is_usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from floe_iceberg import IcebergTableManager

# HTTP clients resolve these in a URL path, so a request would address the parent.
_NOT_IN_A_URL = frozenset({".", ".."})


class ContentKind(StrEnum):
    """Kind of content."""

    VIEW = "view"
    GENERIC_TABLE = "generic table"
    TABLE = "table"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class NamespaceContent:
    """A view, a generic table, or a table or namespace whose name floe cannot address.

    Attributes:
        kind: Kind of content.
        parts: The parts of its namespace, and its name.
    """

    kind: ContentKind
    parts: tuple[str, ...]

    @property
    def name(self) -> str:
        """The display name; parts that floe cannot address are quoted."""
        return ".".join(part if is_usable(part) else ascii(part) for part in self.parts)

    def __str__(self) -> str:
        """Return the kind and the name."""
        return f"{self.kind.value} {self.name}"


@runtime_checkable
class HoldsGenericTables(Protocol):
    """A catalog that supports generic tables, that is, tables of other formats."""

    def list_generic_tables(self, namespace: tuple[str, ...]) -> list[str]:
        """List the names of a namespace's generic tables."""
        ...

    def drop_generic_table(self, namespace: tuple[str, ...], name: str) -> None:
        """Drop a generic table; do nothing if it does not exist."""
        ...


def walk(manager: IcebergTableManager, parts: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield every namespace below another with the names of its tables as the server returns them; parents first."""
    for child in _children(manager, parts):
        try:
            tables = _tables(manager, child)
            below = list(walk(manager, child))
        except NamespaceNotFoundError:
            # It was dropped concurrently, or its name cannot be used in a request.
            continue
        yield child, tables
        yield from below


def _children(manager: IcebergTableManager, parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    with manager.namespaces.operation("list_namespaces", parts):
        return sorted(tuple(child) for child in manager.catalog.list_namespaces(parts))


def _tables(manager: IcebergTableManager, parts: tuple[str, ...]) -> list[str]:
    with manager.namespaces.operation("list_tables", parts):
        return sorted(table[-1] for table in manager.catalog.list_tables(parts))


def contents_of(manager: IcebergTableManager, namespaces: Iterable[str]) -> list[NamespaceContent]:
    """List the contents of namespaces other than addressable tables and namespaces, deepest first."""
    return [content for namespace in namespaces for content in _inside(manager, tuple(namespace.split(".")))]


def _inside(manager: IcebergTableManager, parts: tuple[str, ...]) -> Iterator[NamespaceContent]:
    for child in _children(manager, parts):
        if not is_usable(child[-1]):
            yield from _all_of(manager, child)
    tables = _tables(manager, parts)
    yield from (NamespaceContent(ContentKind.TABLE, (*parts, table)) for table in tables if not is_usable(table))
    yield from _other_formats(manager, parts)


def _all_of(manager: IcebergTableManager, parts: tuple[str, ...]) -> Iterator[NamespaceContent]:
    """Yield the contents of a namespace that floe cannot address, then the namespace itself."""
    try:
        children, tables = _children(manager, parts), _tables(manager, parts)
        inside = [content for child in children for content in _all_of(manager, child)]
        inside += [NamespaceContent(ContentKind.TABLE, (*parts, table)) for table in tables]
        yield from [*inside, *_other_formats(manager, parts)]
    except NamespaceNotFoundError:
        # It was just listed, so its name cannot be used in a request. Dropping the parent reports it.
        pass
    yield NamespaceContent(ContentKind.NAMESPACE, parts)


def _other_formats(manager: IcebergTableManager, parts: tuple[str, ...]) -> Iterator[NamespaceContent]:
    views: list[str] = []
    # Not every catalog supports views.
    with contextlib.suppress(CapabilityError), manager.namespaces.operation("list_views", parts):
        views = sorted(view[-1] for view in manager.catalog.list_views(parts))
    yield from (NamespaceContent(ContentKind.VIEW, (*parts, view)) for view in views)
    if (generic := _generic(manager)) is not None:
        with manager.namespaces.operation("list_generic_tables", parts):
            names = generic.list_generic_tables(parts)
        yield from (NamespaceContent(ContentKind.GENERIC_TABLE, (*parts, name)) for name in names)


def drop_content(manager: IcebergTableManager, content: NamespaceContent) -> None:
    """Drop an entry of a namespace; do nothing if it does not exist.

    Raises:
        CapabilityError: Its name cannot be used in a request.
    """
    *namespace, name = content.parts
    parts, catalog, generic = tuple(namespace), manager.catalog, _generic(manager)
    if name in _NOT_IN_A_URL and content.kind is not ContentKind.NAMESPACE:
        msg = f"Cannot drop {content}: its name cannot be used in a request."
        raise CapabilityError(msg, hint="Drop it with the server's tools.")
    missing = (NoSuchViewError, NoSuchTableError, NoSuchNamespaceError)
    operation = f"drop_{content.kind.value.replace(' ', '_')}"
    with manager.namespaces.operation(operation, parts), contextlib.suppress(*missing):
        match content.kind:
            case ContentKind.VIEW:
                catalog.drop_view(content.parts)
            case ContentKind.TABLE:
                catalog.drop_table(content.parts)
            case ContentKind.NAMESPACE:
                catalog.drop_namespace(content.parts)
            case ContentKind.GENERIC_TABLE if generic is not None:
                generic.drop_generic_table(parts, name)


def _generic(manager: IcebergTableManager) -> HoldsGenericTables | None:
    catalog = manager.catalog
    inner = getattr(catalog, "inner", catalog)
    return inner if isinstance(inner, HoldsGenericTables) else None
