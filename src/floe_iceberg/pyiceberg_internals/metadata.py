"""PyIceberg's table metadata: how updates are applied, and the indexes of schemas."""

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
"""What the updates of one commit share: PyIceberg passes it from one to the next."""

_SCHEMA_INDEXES = tuple(name for name, value in vars(Schema).items() if isinstance(value, cached_property))


def register_update(
    kind: type[TableUpdate],
) -> Callable[[Callable[..., TableMetadata]], Callable[..., TableMetadata]]:
    """Return a decorator for the function that applies one class of updates to metadata.

    Why: PyIceberg dispatches on the class of an update and offers no way to add one of another library.

    Args:
        kind: The class. The function takes the update, the metadata and the ``UpdateContext``.
    """

    def register(function: Callable[..., TableMetadata]) -> Callable[..., TableMetadata]:
        _apply_table_update.register(kind, function)
        return function

    return register


def apply_update(update: TableUpdate, metadata: TableMetadata, context: UpdateContext) -> TableMetadata:
    """Apply one update as part of the commit that a context belongs to.

    Why: the public ``update_table_metadata`` starts a context of its own, and the commit would not know the change.
    """
    changed: TableMetadata = _apply_table_update(update, metadata, context)
    return changed


def build_schema_indexes(schema: Schema) -> None:
    """Build the indexes that a schema builds when they are first used.

    Why: threads share schemas, and one thread may copy a schema while another fills its indexes.
    """
    for name in _SCHEMA_INDEXES:
        getattr(schema, name)
