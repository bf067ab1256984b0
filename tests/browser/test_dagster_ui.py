"""The Dagster UI of ``floe dev`` in a browser: materialize an asset and see its metadata."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.xdist_group("floe-dev")]

ROWS = 56


def test_a_click_materialises_an_asset_and_shows_rows_schema_and_snapshot(page, dev_server):
    address = f"{dev_server.url}/assets/bronze/orders"
    page.goto(address)
    expect(page.get_by_text("Never materialized")).to_be_visible()
    page.locator("button", has_text="Materialize").first.click()

    artifacts = CompiledArtifacts.from_json_file(dev_server.folder / ".floe" / "compiled_artifacts.json")
    with IcebergTableManager.from_artifacts(artifacts) as tables:

        def published() -> bool:
            return tables.table_exists("bronze.orders") and len(tables.scan("bronze.orders")) == ROWS

        # The page's own requests only proceed while a browser call is active.
        dev_server.eventually(
            published, "the click wrote no rows", pause=lambda seconds: page.wait_for_timeout(seconds * 1000)
        )
        snapshot = tables.get_current_snapshot("bronze.orders").snapshot_id

    # Metadata of a run that ends while the page is open appears after a reload.
    page.goto(address)
    expect(page.get_by_text("Row count")).to_be_visible()
    expect(page.get_by_text(re.compile(rf"^{ROWS}$")).first).to_be_visible()
    for column, kind in {
        "id": "long",
        "placed": "timestamptz",
        "customer": "string",
        "total": "decimal(10, 2)",
    }.items():
        row = page.get_by_role("row").filter(has_text=column).filter(has_text=kind)
        expect(row.first).to_be_visible()
    expect(page.get_by_text(str(snapshot), exact=True).first).to_be_visible()
    expect(page.get_by_text("iceberg", exact=False).first).to_be_visible()
    assert page.outside == []
