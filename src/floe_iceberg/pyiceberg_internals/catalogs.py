"""PyIceberg's catalogs: how they open files and place tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.typedef import EMPTY_DICT

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Properties


def file_io_of(catalog: Catalog, location: str | None, properties: Properties = EMPTY_DICT) -> FileIO:
    """Return a catalog's own client for the files at a location.

    Why: a ``FileIO`` is public only as that of a loaded table, and a damaged table cannot be loaded. A client made from
    the catalog's properties alone would lack what the catalog adds, such as its authentication.

    Args:
        catalog: The catalog.
        location: The location.
        properties: Settings that come before the catalog's.
    """
    return catalog._load_file_io(properties, location)  # noqa: SLF001 - see above


class FileIOHook(Catalog):
    """A catalog that decides with which settings files are opened, by overriding ``open_file_io``.

    Why: PyIceberg lets a table's properties override the client's settings, and has no public way to change that.
    """

    def open_file_io(self, properties: Properties, location: str | None) -> FileIO:
        """Return a client for the files at a location; by default PyIceberg's own.

        Args:
            properties: Settings that come with the table.
            location: The location, if it is known.
        """
        return super()._load_file_io(properties, location)

    def _load_file_io(self, properties: Properties | None = None, location: str | None = None) -> FileIO:
        return self.open_file_io(properties or {}, location)


def default_table_location(catalog: MetastoreCatalog, namespace: str, table: str) -> str:
    """Return where a catalog puts a new table that names no location.

    Why: PyIceberg tells the location only by creating the table.

    Raises:
        ValueError: Neither the namespace nor the catalog has a location.
    """
    return catalog._get_default_warehouse_location(namespace, table)  # noqa: SLF001 - see above


class TableLocationHook(MetastoreCatalog):
    """A catalog that decides where new tables lie, by implementing ``place_table``.

    Why: PyIceberg writes nested namespaces as one folder, Iceberg's Java as one folder per level.
    """

    def place_table(self, namespace: str, table: str) -> str:
        """Return the location of a new table that names none."""
        raise NotImplementedError

    def _get_default_warehouse_location(self, database_name: str, table_name: str) -> str:
        return self.place_table(database_name, table_name)


def create_sql_tables(catalog: SqlCatalog) -> None:
    """Create the tables of a SQL catalog in its database if they are missing, and find out their schema version.

    Why: ``SqlCatalog.__init__`` does this, but it creates an engine of its own without deadlines.
    """
    catalog._init_catalog()  # noqa: SLF001 - see above
