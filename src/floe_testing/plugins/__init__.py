"""Contract suites for plugin authors.

Subclass the suite for your kind of plugin, override its fixtures, and run pytest::

    class TestScratchStorage(StoragePluginContract):
        @pytest.fixture
        def plugin_class(self):
            return ScratchStoragePlugin

        @pytest.fixture
        def storage_config(self):
            return StorageConfig(type="scratch")
"""

import pytest

# Before the suites are imported, so that a failed assert in them shows its values.
pytest.register_assert_rewrite(
    "floe_testing.plugins.catalog",
    "floe_testing.plugins.data_plane",
    "floe_testing.plugins.engine_tables",
    "floe_testing.plugins.engine_values",
    "floe_testing.plugins.engines",
    "floe_testing.plugins.metadata",
    "floe_testing.plugins.storage",
)

from floe_testing.plugins.catalog import CatalogPluginContract  # noqa: E402 - see above
from floe_testing.plugins.data_plane import DataPlaneContract  # noqa: E402 - see above
from floe_testing.plugins.engines import ComputePluginContract, OrchestratorPluginContract  # noqa: E402 - see above
from floe_testing.plugins.metadata import PluginContract  # noqa: E402 - see above
from floe_testing.plugins.network import no_network  # noqa: E402 - see above
from floe_testing.plugins.storage import StorageFormsContract, StoragePluginContract  # noqa: E402 - see above

__all__ = [
    "CatalogPluginContract",
    "ComputePluginContract",
    "DataPlaneContract",
    "OrchestratorPluginContract",
    "PluginContract",
    "StorageFormsContract",
    "StoragePluginContract",
    "no_network",
]
