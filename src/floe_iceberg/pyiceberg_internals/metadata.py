"""Private API of PyIceberg's table metadata: applying updates, and schema indexes."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from pyiceberg.schema import Schema
from pyiceberg.table.update import _apply_table_update, _TableMetadataUpdateContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

UpdateContext: TypeAlias = _TableMetadataUpdateContext
"""Context shared by the updates of one commit."""

_SCHEMA_INDEXES = tuple(name for name, value in vars(Schema).items() if isinstance(value, cached_property))


def register_update(
    kind: type[TableUpdate],
) -> Callable[[Callable[..., TableMetadata]], Callable[..., TableMetadata]]:
    """Return a decorator for a function that applies one class of updates to metadata.

    Why: PyIceberg dispatches on the class of an update and has no public API for adding classes.

    Args:
        kind: The class. The function is called with the update, the metadata and the ``UpdateContext``.
    """

    def register(function: Callable[..., TableMetadata]) -> Callable[..., TableMetadata]:
        _apply_table_update.register(kind, function)
        return function

    return register


def apply_update(update: TableUpdate, metadata: TableMetadata, context: UpdateContext) -> TableMetadata:
    """Apply one update within the commit of a context.

    Why: the public ``update_table_metadata`` creates a new context, so the commit would not record the change.
    """
    changed: TableMetadata = _apply_table_update(update, metadata, context)
    return changed


def build_schema_indexes(schema: Schema) -> None:
    """Build a schema's lazily built indexes.

    Why: threads share schemas, and one thread may copy a schema while another builds its indexes.
    """
    for name in _SCHEMA_INDEXES:
        getattr(schema, name)
