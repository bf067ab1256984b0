"""Where PyIceberg's and Arrow's errors become floe's, once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg import exceptions as pyiceberg_errors

from floe_core.errors import (
    NamespaceNotFoundError,
    TableExistsError,
    TableNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

    from floe_iceberg.models import TableIdentifier

TableAlreadyExistsError = TableExistsError


@contextmanager
def translated(catalog: Catalog, identifier: TableIdentifier) -> Iterator[None]:
    """Turn library errors that rise from the block into floe's own."""
    try:
        yield
    except pyiceberg_errors.NoSuchTableError as err:
        msg = f"Table '{identifier}' not found in catalog '{catalog.name}'."
        raise TableNotFoundError(msg, table=str(identifier)) from err
    except pyiceberg_errors.NoSuchNamespaceError as err:
        msg = f"Namespace '{identifier.namespace}' not found in catalog '{catalog.name}'."
        raise NamespaceNotFoundError(msg, table=str(identifier)) from err
    except pyiceberg_errors.TableAlreadyExistsError as err:
        msg = f"Table '{identifier}' already exists in catalog '{catalog.name}'."
        raise TableExistsError(msg, table=str(identifier)) from err
