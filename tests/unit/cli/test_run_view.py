"""The progress of a run, line by line."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest
from dagster import AssetKey

from floe_cli.reports.run_view import RunView
from floe_dagster.runs.batches import Batch
from floe_dagster.runs.progress import AssetProgress, AssetState

KEY = AssetKey(["bronze", "raw"])
MONDAY, TUESDAY = Batch((KEY,), ("mon",)), Batch((KEY,), ("tue",))
RUNNING = AssetProgress("bronze/raw", "bronze.raw", AssetState.RUNNING, started=1.0)
WRITTEN = AssetProgress("bronze/raw", "bronze.raw", AssetState.WRITTEN, rows=3, started=1.0, ended=3.5)


@contextmanager
def captured_step():
    """Lead standard error elsewhere, as Dagster does while a step runs."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def test_progress_is_told_while_the_output_of_a_step_is_captured(capfd):
    with RunView([MONDAY]).shown() as view, captured_step():
        view.update(MONDAY, [WRITTEN])
    assert capfd.readouterr().err == "bronze.raw: written, 3 rows, 2.5 s\n"


@pytest.mark.parametrize("fixture", ["capsys", "capfd"])
def test_batches_that_run_at_the_same_time_are_told_apart(request, fixture):
    captured = request.getfixturevalue(fixture)
    with RunView([MONDAY, TUESDAY]).shown() as view:
        for batch in (MONDAY, TUESDAY):
            view.update(batch, [RUNNING])
        for batch in (MONDAY, TUESDAY, TUESDAY):
            view.update(batch, [WRITTEN])
    titles = ["mon (1 of 2):", "tue (2 of 2):"]
    line = "bronze.raw: written, 3 rows, 2.5 s"
    assert captured.readouterr().err.splitlines() == [*titles, titles[0], line, titles[1], line]
