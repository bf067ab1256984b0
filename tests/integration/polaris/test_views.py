"""``floe views``: lists and drops views that other engines define."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

from floe_cli.app import main


@pytest.fixture
def floe(tmp_path, gateway):
    section = {"type": "rest", "name": "lake", "uri": gateway.url, "access_delegation": "none"}
    (tmp_path / "floe.yaml").write_text(json.dumps({"name": "shop", "catalog": section}))

    def run(*arguments):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = main(["views", *arguments, "--project", str(tmp_path), "-o", "json"])
        content = json.loads(out.getvalue())
        return code, content.get("data") if content["ok"] else content["error"]["type"]

    return run


def test_views_are_listed_shown_and_dropped(floe, connect, namespace):
    catalog = connect()
    catalog.create_namespace(f"{namespace}.gold")
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    query = SQLViewRepresentation(type="sql", sql="SELECT 1 AS id", dialect="spark")
    version = ViewVersion(
        version_id=1,
        schema_id=schema.schema_id,
        timestamp_ms=1_700_000_000_000,
        summary={"engine-name": "spark"},
        representations=[query],
        default_namespace=[namespace],
    )
    catalog.create_view(f"{namespace}.gold.recent", schema, version)
    name = f"{namespace}.gold.recent"
    assert floe("list", "--namespace", namespace) == (0, [name])
    code, shown = floe("show", name)
    assert (code, shown["queries"], shown["columns"]) == (0, {"spark": "SELECT 1 AS id"}, {"id": "long"})
    assert floe("drop", name, "--dry-run") == (0, {"view": name, "dropped": False})
    assert floe("drop", name, "--yes") == (0, {"view": name, "dropped": True})
    assert floe("list", "--namespace", namespace) == (0, [])
    assert floe("show", name) == (1, "TableNotFoundError")
