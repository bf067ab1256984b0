"""The database rows that register a catalog's tables; each references its table's current metadata file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import ICEBERG_TABLE_TYPE, IcebergTables
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from sqlalchemy import or_, select, update

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier
    from sqlalchemy import ColumnElement, Connection, Engine

# SQLite's result codes after which the transaction is still open and is rolled back without any effect.
_BUSY = frozenset({5, 6})
_FULL = 13
# PostgreSQL's codes for a transaction that it rolled back because of a concurrent one. A lost race is such an error at
# isolation levels above the default.
_OVERTAKEN = frozenset({"40001", "40P01"})


class TableRows:
    """Reads and swaps the metadata locations of one catalog's tables."""

    def __init__(self, engine: Engine, catalog_name: str) -> None:
        """Initialize from the catalog's database.

        Args:
            engine: The engine connected to the database.
            catalog_name: The catalog's name; several catalogs may share one database.
        """
        self._engine = engine
        self._catalog_name = catalog_name

    def metadata_location(self, identifier: Identifier) -> str:
        """Return the location of a table's current metadata file.

        Raises:
            NoSuchTableError: The table does not exist.
        """
        with self._engine.connect() as connection:
            row = connection.execute(select(IcebergTables.metadata_location).where(*self._row(identifier))).first()
        if row is None or not row[0]:
            msg = f"Table does not exist: {'.'.join(identifier)}"
            raise NoSuchTableError(msg)
        return str(row[0])

    def swap(self, identifier: Identifier, base_location: str, location: str) -> None:
        """Point a table at a new metadata file, provided it still points at the file that the change is based on.

        Raises:
            CommitFailedException: Another writer changed the row first, or the database is locked or undid the change.
            CommitStateUnknownException: The reply to the transaction's commit was lost.
        """
        statement = (
            update(IcebergTables)
            .where(*self._row(identifier), IcebergTables.metadata_location == base_location)
            .values(metadata_location=location, previous_metadata_location=base_location)
        )
        name = ".".join(identifier)
        try:
            with self._engine.connect() as connection:
                swapped = connection.execute(statement).rowcount
                if swapped:
                    _commit(connection, name)
        except CommitStateUnknownException:
            raise
        except Exception as err:
            if _code_of(err) in {*_BUSY, *_OVERTAKEN}:
                msg = f"The catalog's database is busy: {name}"
                raise CommitFailedException(msg) from err
            raise
        if swapped < 1:
            msg = f"Table has been updated by another process: {name}"
            raise CommitFailedException(msg)

    def _row(self, identifier: Identifier) -> list[ColumnElement[bool]]:
        return [
            IcebergTables.catalog_name == self._catalog_name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(Catalog.namespace_from(identifier)),
            IcebergTables.table_name == Catalog.table_name_from(identifier),
            # Other engines store views in the same table; rows written before the column existed have no type.
            or_(IcebergTables.iceberg_type == ICEBERG_TABLE_TYPE, IcebergTables.iceberg_type.is_(None)),
        ]


def _commit(connection: Connection, name: str) -> None:
    try:
        connection.commit()
    except Exception as err:
        # Otherwise the connection returns to the pool with the transaction still open, and its next user commits it.
        connection.invalidate()
        if _code_of(err) in {*_BUSY, _FULL, *_OVERTAKEN}:
            raise
        msg = f"The database did not confirm the commit of {name}"
        raise CommitStateUnknownException(msg) from err


def _code_of(err: BaseException | None) -> int | str | None:
    """Return SQLite's primary result code or PostgreSQL's SQLSTATE from an error or from the errors it wraps."""
    while err is not None:
        if (code := getattr(err, "sqlite_errorcode", None)) is not None:
            return int(code) & 0xFF
        if (state := getattr(err, "sqlstate", None)) is not None:
            return str(state)
        err = getattr(err, "orig", None) or err.__cause__
    return None
