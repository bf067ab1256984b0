"""floe's behavior matches the reference of metadata keys."""

from __future__ import annotations

import ast
import inspect

import dagster as dg
import pyarrow as pa
import pytest

from floe_core.errors import CapabilityError, ConfigurationError
from floe_core.schemas.sql_model import SqlModelConfig
from floe_dagster.assets import settings
from floe_dagster.assets.metadata_keys import ASSET_KEYS, INPUT_KEYS, mistyped_keys
from floe_dagster.assets.settings import AssetSettings, settings_from
from floe_dagster.io import inputs
from floe_dagster.io.inputs import InputSelection, selection_from

ANY = dg.PythonObjectDagsterType(pa.Table)
# Read with the settings of the asset that writes the input's table.
OF_THE_COLUMN = {"partition_column", "partition_expr"}


def read_of_input(key, value):
    metadata = {key: value}
    return settings_from(metadata, asset="a") if key in OF_THE_COLUMN else selection_from(metadata, ANY, where="b")


@pytest.mark.parametrize("key", ASSET_KEYS)
def test_the_example_of_an_asset_s_key_is_taken_and_does_something(key):
    assert settings_from({key: ASSET_KEYS[key].example}, asset="a") != AssetSettings()


@pytest.mark.parametrize("key", ASSET_KEYS)
def test_what_is_refused_of_an_asset_s_key_is_refused(key):
    with pytest.raises((ConfigurationError, CapabilityError), match="'a'"):
        settings_from({key: ASSET_KEYS[key].refused}, asset="a")


@pytest.mark.parametrize("key", INPUT_KEYS)
def test_the_example_of_an_input_s_key_is_taken_and_does_something(key):
    assert read_of_input(key, INPUT_KEYS[key].example) not in (AssetSettings(), InputSelection())


@pytest.mark.parametrize("key", INPUT_KEYS)
def test_what_is_refused_of_an_input_s_key_is_refused(key):
    with pytest.raises(ConfigurationError, match=key if key not in OF_THE_COLUMN else "partition_column"):
        read_of_input(key, INPUT_KEYS[key].refused)


def keys_read_by(module):
    """Find the keys that a module asks metadata for."""
    asked = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if (name == "get" and owner in {"plain", "metadata"}) or name in {"_text", "_mapping"}:
            asked |= set(texts[:1])
    return asked


def test_every_key_that_is_read_is_described():
    assert keys_read_by(settings) == set(ASSET_KEYS)
    assert keys_read_by(inputs) == set(INPUT_KEYS) - OF_THE_COLUMN


def test_the_header_of_a_model_says_what_an_asset_s_metadata_can():
    of_the_model = {"description", "partitions", "incremental"}
    assert set(SqlModelConfig.model_fields) - of_the_model <= set(ASSET_KEYS)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("incremantal", "incremental"), ("column", "columns"), ("row_filer", "row_filter"), ("snapshotid", "snapshot_id")],
)
def test_a_slip_in_an_input_s_key_is_found(key, meant):
    assert mistyped_keys({key: 1, "team": "x", "floe/column": 1}, INPUT_KEYS) == {key: meant}
