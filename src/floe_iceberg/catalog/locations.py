"""Where new files of a table go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider

if TYPE_CHECKING:
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata


def location_provider(metadata: TableMetadata) -> LocationProvider:
    """Return what names a table's new files: no code that its properties name is run."""
    own = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
    properties = metadata.properties
    if own in properties:
        properties = {key: value for key, value in properties.items() if key != own}
    return load_location_provider(metadata.location, properties)
