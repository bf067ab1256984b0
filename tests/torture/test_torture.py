"""A short torture run in process and over REST; ``make torture`` runs the long one, including Spark."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.torture.run import ROOT, Plan, Torture, clean


@pytest.mark.live
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [20261115])
def test_nothing_is_lost_doubled_or_half_visible_under_faults(seed, request):
    folder = ROOT / ".floe-dev" / "torture" / f"test-{seed}-{request.node.callspec.id}"
    # Files that an earlier failed run has kept for inspection.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result = Torture(Plan(seed, operations=1_500, spark=0, minutes=3), folder).run()
    arenas = result.pop("arenas")
    assert result["commits"] > 100
    assert result["faults"]
    assert clean(result), json.dumps({"result": result, "arenas": arenas}, indent=2)
