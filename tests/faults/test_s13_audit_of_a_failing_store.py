"""S13: an audit reports a failing store as such, not as a damaged table."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from floe_cli.app import main
from floe_iceberg import IcebergTableManager
from floe_testing.faults.gateway import FaultGateway, Reply, Rule
from floe_testing.faults.sites import RestAddress
from floe_testing.rest_fixtures import store_properties

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def store(minio):
    with FaultGateway(minio.url) as gateway:
        yield gateway


@pytest.fixture
def address(iceberg_rest, minio, namespace):
    return RestAddress(iceberg_rest.url, iceberg_rest["warehouse"], namespace, store_properties(minio))


@pytest.fixture
def table(address, store, tmp_path, monkeypatch):
    """A table that a project reads through the gateway."""
    name = address.name("events")
    with IcebergTableManager(address.open_catalog()) as manager:
        manager.create_table(name, ROWS.schema)
        manager.append(name, ROWS)
    through = replace(address, properties={**address.properties, "s3.endpoint": store.url})
    with (tmp_path / "floe.yaml").open("w") as file:
        YAML().dump({"name": "audits", **through.project()}, file)
    monkeypatch.chdir(tmp_path)
    return name


def audit(capsys, name):
    code = main(["tables", "audit", name])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_s13_an_audit_tells_a_store_that_fails_from_a_breach(table, store, capsys):
    assert audit(capsys, table)[0] == 0
    store.answer(503, method="GET", path=r"\.parquet", times=None)
    code, out, err = audit(capsys, table)
    assert code == 2
    assert "breach" not in (out + err).lower()
    assert "The store failed or is unreachable." in err


def test_s13_an_audit_tells_refused_credentials_from_a_breach(table, store, capsys):
    denied = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"
    reply = Reply(403, {"Content-Type": "application/xml"}, denied)
    store.add(Rule("GET", r"\.parquet", times=None, forward=False, reply=reply))
    code, out, err = audit(capsys, table)
    assert code == 1
    assert "breach" not in (out + err).lower()
    assert "denied access" in err
