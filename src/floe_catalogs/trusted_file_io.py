"""Base class for catalogs that open files with the catalog's settings only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import MetastoreCatalog

from floe_iceberg.pyiceberg_internals.catalogs import FileIOHook

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Properties


class TrustedFileIO(FileIOHook, MetastoreCatalog):
    """Ignores client settings in table properties, which an untrusted party may have written.

    PyIceberg lets a table's properties override the catalog's. A table property could redirect an administrator's
    requests to another endpoint, or name the class that opens the files.
    """

    def open_file_io(self, properties: Properties, location: str | None) -> FileIO:
        """Return a FileIO without the table's properties."""
        del properties
        return super().open_file_io({}, location)
