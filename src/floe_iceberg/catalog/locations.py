"""Location provider for new files of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider

if TYPE_CHECKING:
    from pyiceberg.table.locations import LocationProvider
    from pyiceberg.table.metadata import TableMetadata


def location_provider(metadata: TableMetadata) -> LocationProvider:
    """Return a table's location provider; custom provider classes in its properties are ignored and never run."""
    own = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
    properties = metadata.properties
    if own in properties:
        properties = {key: value for key, value in properties.items() if key != own}
    return load_location_provider(metadata.location, properties)
