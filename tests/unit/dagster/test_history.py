"""The run history is written quickly and completely."""

from __future__ import annotations

import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from floe_dagster.runs.event_log import fast_event_log

NORMAL, FULL = 1, 2


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n", encoding="utf-8")
    return home


def synchronous(file) -> int:
    engine = create_engine(f"sqlite:///{file}", poolclass=NullPool)
    with engine.connect() as connection:
        return connection.execute(text("PRAGMA synchronous")).scalar_one()


def test_what_was_noted_inside_the_block_is_there_afterwards(home):
    with DagsterInstance.from_config(str(home)) as instance, fast_event_log(home):
        for number in range(5):
            instance.report_runless_asset_event(AssetMaterialization("orders", partition=str(number)))
    with DagsterInstance.from_config(str(home)) as instance:
        assert instance.get_materialized_partitions(AssetKey("orders")) == {"0", "1", "2", "3", "4"}


def test_a_file_is_not_folded_together_after_every_event(home):
    with DagsterInstance.from_config(str(home)) as instance, fast_event_log(home):
        instance.report_runless_asset_event(AssetMaterialization("orders"))
        instance.report_runless_asset_event(AssetMaterialization("orders"))
        assert (home / "history" / "runs" / "index.db-wal").stat().st_size > 0
    assert not (home / "history" / "runs" / "index.db-wal").exists()


def test_only_files_below_the_home_are_hurried_and_only_inside_the_block(home, tmp_path):
    with fast_event_log(home):
        assert synchronous(home / "mine.db") == NORMAL
        assert synchronous(tmp_path / "catalog.db") == FULL
    assert synchronous(home / "mine.db") == FULL
