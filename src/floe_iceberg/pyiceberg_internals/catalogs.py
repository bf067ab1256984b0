"""Private API of PyIceberg's catalogs: their FileIO and table locations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.typedef import EMPTY_DICT

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Properties


def file_io_of(catalog: Catalog, location: str | None, properties: Properties = EMPTY_DICT) -> FileIO:
    """Return a catalog's FileIO for a location.

    Why: a ``FileIO`` is only public on a loaded table, and a damaged table cannot be loaded. A FileIO created from the
    catalog's properties would lack what the catalog adds, such as its authentication.

    Args:
        catalog: The catalog.
        location: The location.
        properties: Settings that override the catalog's.
    """
    return catalog._load_file_io(properties, location)  # noqa: SLF001 - see above


class FileIOHook(Catalog):
    """Base class for catalogs that override the FileIO settings in ``open_file_io``.

    Why: PyIceberg lets a table's properties override the client's settings, and has no public way to change that.
    """

    def open_file_io(self, properties: Properties, location: str | None) -> FileIO:
        """Return a FileIO for a location; the default is PyIceberg's.

        Args:
            properties: Settings from the table.
            location: The location, if known.
        """
        return super()._load_file_io(properties, location)

    def _load_file_io(self, properties: Properties | None = None, location: str | None = None) -> FileIO:
        return self.open_file_io(properties or {}, location)


def default_table_location(catalog: MetastoreCatalog, namespace: str, table: str) -> str:
    """Return a catalog's default location for a new table.

    Why: PyIceberg only exposes the location by creating the table.

    Raises:
        ValueError: Neither the namespace nor the catalog has a location.
    """
    return catalog._get_default_warehouse_location(namespace, table)  # noqa: SLF001 - see above


class TableLocationHook(MetastoreCatalog):
    """Base class for catalogs that implement the default location of new tables in ``place_table``.

    Why: PyIceberg uses one folder for a nested namespace, Iceberg's Java implementation one folder per level.
    """

    def place_table(self, namespace: str, table: str) -> str:
        """Return the default location of a new table."""
        raise NotImplementedError

    def _get_default_warehouse_location(self, database_name: str, table_name: str) -> str:
        return self.place_table(database_name, table_name)


def create_sql_tables(catalog: SqlCatalog) -> None:
    """Create the missing tables of a SQL catalog in its database, and detect their schema version.

    Why: ``SqlCatalog.__init__`` does this, but it creates an engine without timeouts.
    """
    catalog._init_catalog()  # noqa: SLF001 - see above
