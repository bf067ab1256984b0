"""Files are opened with the catalog's own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import MetastoreCatalog

from floe_iceberg.pyiceberg_internals.catalogs import FileIOHook

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Properties


class OwnSettings(FileIOHook, MetastoreCatalog):
    """Takes no settings of the client from a table, whose properties may have been written by another party.

    PyIceberg lets a table's properties override the catalog's. One of them could send an administrator's requests to
    another endpoint, or name the class that opens the files.
    """

    def open_file_io(self, properties: Properties, location: str | None) -> FileIO:
        """Open files; the properties of the table are not used."""
        del properties
        return super().open_file_io({}, location)
