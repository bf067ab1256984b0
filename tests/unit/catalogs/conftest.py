from __future__ import annotations

import pytest

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.schemas import CatalogConfig


@pytest.fixture
def plugin(tmp_path):
    """Give a connected plugin on a new SQLite file."""
    plugin = SqlCatalogPlugin()
    plugin.connect(CatalogConfig(warehouse=f"file://{tmp_path}/wh"), file_io={}, project_root=tmp_path)
    yield plugin
    plugin.shutdown()


@pytest.fixture
def namespaces(plugin):
    """Give the plugin's namespaces."""
    return plugin.namespaces
