"""An example of a third-party floe plugin."""

from floe_example_plugin.json_file import JsonFileSecretsPlugin, JsonFileSettings
from floe_example_plugin.row_count import RowCountPlugin
from floe_example_plugin.scratch import ScratchSettings, ScratchStoragePlugin

__all__ = [
    "JsonFileSecretsPlugin",
    "JsonFileSettings",
    "RowCountPlugin",
    "ScratchSettings",
    "ScratchStoragePlugin",
]
