"""Namespaces of any PyIceberg catalog: nested, created idempotently, and deleted only when empty."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pyiceberg import exceptions as pyiceberg_errors

from floe_core.errors import (
    CapabilityError,
    CatalogAuthorizationError,
    InvalidIdentifierError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
)
from floe_core.telemetry import get_logger, get_tracer, traced
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.errors import rejected_request
from floe_iceberg.names import is_usable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.trace import Tracer
    from pyiceberg.catalog import Catalog
    from structlog.typing import FilteringBoundLogger

    from floe_core.telemetry import Logger, Operation

NamespaceName = str | tuple[str, ...]

_MAX_LISTED = 10


def parse_namespace(namespace: NamespaceName) -> tuple[str, ...]:
    """Return the parts of a namespace from dotted text or a tuple.

    Raises:
        InvalidIdentifierError: A part is empty, padded with spaces, or contains a separator or unprintable character.
    """
    parts = tuple(namespace.split(".")) if isinstance(namespace, str) else tuple(namespace)
    shown = namespace if isinstance(namespace, str) else ".".join(map(str, parts))
    if not parts or not all(parts):
        msg = f"The namespace name {shown!r} has an empty part."
        raise InvalidIdentifierError(msg, hint="Separate parts with single dots, such as bronze.raw.")
    for part in parts:
        if not is_usable(part):
            msg = f"The namespace name {shown!r} has an invalid part: {part!r}."
            raise InvalidIdentifierError(
                msg, hint="Use printable characters except . / \\ # ?, and no leading or trailing spaces."
            )
    return parts


def missing_parents(catalog: Catalog, parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the missing parents of a namespace, outermost first.

    The search goes upward from the nearest parent and stops at the first existing one, because a tenant may have no
    access to namespaces above its own.
    """
    missing: list[tuple[str, ...]] = []
    for depth in range(len(parts) - 1, 0, -1):
        try:
            if catalog.namespace_exists(parts[:depth]):
                break
        except CatalogAuthorizationError:
            # The catalog decides whether the namespace may be created.
            break
        missing.insert(0, parts[:depth])
    return missing


def _listed(names: Iterable[str]) -> str:
    names = sorted(names)
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more


class Namespaces:
    """Creates, lists, describes and deletes the namespaces of one catalog."""

    def __init__(
        self, catalog: Catalog, *, tracer: Tracer | None = None, logger: Logger | FilteringBoundLogger | None = None
    ) -> None:
        """Use a connected catalog."""
        self._catalog = ReconcilingCatalog.around(catalog)
        self._tracer = tracer or get_tracer(__name__)
        self._logger = logger or get_logger(__name__)

    def __repr__(self) -> str:
        """Show the catalog's name, but not its properties, which contain secrets."""
        return f"Namespaces(catalog={self._catalog.name!r})"

    def create(self, namespace: NamespaceName, properties: Mapping[str, str] | None = None) -> bool:
        """Create a namespace and its missing parents.

        Args:
            namespace: Dotted text or a tuple of parts.
            properties: Properties of a new namespace; an existing one is not changed.

        Returns:
            Whether this call created the namespace.

        Raises:
            InvalidIdentifierError: The name is invalid.
        """
        parts = parse_namespace(namespace)
        given = dict(properties or {})
        with self.operation("create_namespace", parts, properties=sorted(given)) as operation:
            created = not self._catalog.namespace_exists(parts)
            if created:
                for parent in missing_parents(self._catalog, parts):
                    self._create_one(parent, {})
                # Another process may have created the namespace first, which is equivalent.
                created = self._create_one(parts, given)
            operation.set(created=created)
            return created

    def _create_one(self, parts: tuple[str, ...], properties: dict[str, str]) -> bool:
        try:
            self._catalog.create_namespace(parts, properties)
        except pyiceberg_errors.NamespaceAlreadyExistsError:
            return False
        except Exception:
            # Some servers report a lost race as a generic error; only the existence of the namespace matters.
            if self._catalog.namespace_exists(parts):
                return False
            raise
        return True

    def exists(self, namespace: NamespaceName) -> bool:
        """Whether the namespace exists."""
        return self._catalog.namespace_exists(parse_namespace(namespace))

    def list_below(self, parent: NamespaceName | None = None) -> list[str]:
        """List the namespaces directly below ``parent``, or at the root, dotted and sorted.

        Names that floe cannot address, such as ``..``, are omitted.

        Raises:
            NamespaceNotFoundError: The parent does not exist.
            CatalogAuthorizationError: Access denied; a tenant's credentials cannot list the root.
        """
        parts = parse_namespace(parent) if parent else ()
        with self.operation("list_namespaces", parts) as operation:
            try:
                listed = self._catalog.list_namespaces(parts)
            except CatalogAuthorizationError as err:
                if parts:
                    raise
                msg = f"The credentials do not allow listing all namespaces of catalog '{self._catalog.name}'."
                raise CatalogAuthorizationError(msg, hint="Pass a namespace or table they have access to.") from err
            # A server may have names that floe cannot address; they must not break listings for other users.
            found = sorted(".".join(child) for child in listed if all(map(is_usable, child)))
            operation.set(count=len(found), unusable=len(listed) - len(found))
            return found

    def tree(self, parent: NamespaceName | None = None) -> list[str]:
        """List every namespace below ``parent``, parents before children."""
        found: list[str] = []
        for child in self.list_below(parent):
            found.append(child)
            # A namespace that has been deleted in the meantime has no children.
            with suppress(NamespaceNotFoundError):
                found += self.tree(child)
        return found

    def properties(self, namespace: NamespaceName) -> dict[str, str]:
        """Return the namespace's properties.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
        """
        parts = parse_namespace(namespace)
        with self.operation("load_namespace_properties", parts):
            return dict(self._catalog.load_namespace_properties(parts))

    def update_properties(
        self,
        namespace: NamespaceName,
        *,
        updates: Mapping[str, str] | None = None,
        removals: Iterable[str] = (),
    ) -> dict[str, str]:
        """Set and remove properties; removing one that is not set does nothing.

        Returns:
            The updated properties.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            InvalidIdentifierError: A property is both set and removed.
        """
        parts = parse_namespace(namespace)
        changed, removed = dict(updates or {}), set(removals)
        if both := sorted(removed & changed.keys()):
            msg = f"Properties of namespace '{'.'.join(parts)}' are both set and removed: {', '.join(both)}."
            raise InvalidIdentifierError(msg, hint="List each property only once.")
        with self.operation(
            "update_namespace_properties", parts, properties=sorted(changed), removed_properties=sorted(removed)
        ):
            removed &= self._catalog.load_namespace_properties(parts).keys()
            if changed or removed:
                self._catalog.update_namespace_properties(parts, removals=removed or None, updates=changed)
            return dict(self._catalog.load_namespace_properties(parts))

    def delete(self, namespace: NamespaceName) -> None:
        """Delete an empty namespace.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            NamespaceNotEmptyError: The namespace contains tables, views or namespaces; the message lists them.
        """
        parts = parse_namespace(namespace)
        with self.operation("delete_namespace", parts):
            self._require_empty(parts)
            self._catalog.drop_namespace(parts)

    def _require_empty(self, parts: tuple[str, ...]) -> None:
        inside = [f"namespace {'.'.join(child)}" for child in self._catalog.list_namespaces(parts)]
        inside += [f"table {'.'.join(table)}" for table in self._catalog.list_tables(parts)]
        if inside:
            name = ".".join(parts)
            msg = f"Namespace '{name}' is not empty. It contains: {_listed(inside)}."
            raise NamespaceNotEmptyError(msg, hint="Drop or move them first.")

    @contextmanager
    def operation(self, name: str, parts: tuple[str, ...], **attributes: Any) -> Iterator[Operation]:  # noqa: ANN401
        """Trace one operation on a namespace and translate its errors."""
        dotted = ".".join(parts)
        with traced(
            f"iceberg.{name}",
            tracer=self._tracer,
            logger=self._logger,
            catalog=self._catalog.name,
            namespace=dotted or None,
            **attributes,
        ) as operation:
            try:
                yield operation
            except pyiceberg_errors.NoSuchNamespaceError as err:
                raise self._not_found(parts) from err
            except pyiceberg_errors.NamespaceNotEmptyError as err:
                msg = f"Namespace '{dotted}' is not empty."
                raise NamespaceNotEmptyError(msg, hint="Drop or move its content first.") from err
            except pyiceberg_errors.RESTError as err:
                what = f"namespace '{dotted}'" if parts else "its namespaces"
                raise rejected_request(err, self._catalog, what) from err
            except NotImplementedError as err:
                msg = f"The catalog '{self._catalog.name}' does not support {name}."
                raise CapabilityError(msg) from err

    def _not_found(self, parts: tuple[str, ...]) -> NamespaceNotFoundError:
        name = ".".join(parts)
        msg = f"Namespace '{name}' not found in catalog '{self._catalog.name}'."
        known = self._neighbors(parts)
        if close := get_close_matches(name, known, n=1):
            hint = f"Did you mean '{close[0]}'? Existing namespaces: {_listed(known)}."
            return NamespaceNotFoundError(msg, hint=hint)
        hint = f"Existing namespaces: {_listed(known)}." if known else "The catalog has no namespaces."
        return NamespaceNotFoundError(msg, hint=hint)

    def _neighbors(self, parts: tuple[str, ...]) -> list[str]:
        """List the siblings of a missing namespace, or else the children of its nearest existing parent."""
        for depth in range(len(parts) - 1, -1, -1):
            try:
                found = self._catalog.list_namespaces(parts[:depth])
            except Exception:  # noqa: BLE001, S112 - a hint must not hide the error it belongs to
                continue
            if found:
                return sorted(".".join(child) for child in found)
        return []
