"""Files are opened as the catalog's own settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.typedef import EMPTY_DICT

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.typedef import Properties


class OwnSettings(MetastoreCatalog):
    """Takes no settings of the client from a table: whoever writes its properties may be somebody else.

    PyIceberg lets a table's properties override the catalog's, so that one of them could send an administrator's
    requests to another endpoint, or name the class that opens the files.
    """

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        del properties
        return super()._load_file_io({}, location)
