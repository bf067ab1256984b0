"""``floe doctor`` on a REST catalog reports the failed step and the fix."""

from __future__ import annotations

import json

import pytest

from floe_cli.doctor.scratch_table import try_tables
from floe_core.compile import compile_project
from floe_iceberg.catalog.connection import open_project
from floe_testing.faults.gateway import Reply, Rule

FORBIDDEN = (
    "Principal 'etl' with activated PrincipalRoles '[]' and activated grants via '[]' is not authorized for op X"
)
# Responses of Apache Polaris 1.4.1.
STS_DOWN = (
    "Failed to get subscoped credentials: Unable to execute HTTP request: Connect to 127.0.0.1:9 [/127.0.0.1] failed: "
    "Connection refused (SDK Attempt Count: 4)"
)
NO_STS = "Credential vending was requested for table n1.t1, but no credentials are available"
FOREIGN_LOCATION = (
    "Invalid locations '[s3://lake/b/n9/t4]' for identifier 'n1.t4': s3://lake/b/n9/t4 is not in the list of "
    "allowed locations: [s3://lake/b/n1]"
)
TAKEN_LOCATION = (
    "Unable to create table at location 's3://lake/b/n1/t1' because it conflicts with existing table or "
    "namespace at location 's3://lake/b/n1/t1/'"
)


@pytest.fixture
def connection(tmp_path, gateway, minio, monkeypatch):
    monkeypatch.setenv("DOCTOR_KEY", minio["secret_access_key"])
    settings = {
        "name": "shop",
        "catalog": {"type": "polaris", "name": "lake", "uri": gateway.url, "warehouse": "lake"},
        "storage": {
            "type": "s3",
            "bucket": minio["bucket"],
            "endpoint": minio.url,
            "region": minio["region"],
            "credentials": {"access_key_id": minio["access_key_id"], "secret_access_key": "${DOCTOR_KEY}"},
        },
    }
    (tmp_path / "floe.yaml").write_text(json.dumps(settings))
    with open_project(compile_project(tmp_path)) as connection:
        yield connection


def refuse(gateway, status, said, *, method="POST", path):
    content = {"error": {"message": said, "type": "ForbiddenException", "code": status}}
    return gateway.add(Rule(method, path, None, forward=False, reply=Reply.of(status, content)))


def left(connection, check):
    """Tell whether the scratch namespace that a check names is still there."""
    return [name for name in connection.namespaces.list_below() if name in check.detail]


def test_a_table_is_created_written_read_and_dropped(connection):
    check = try_tables(connection, below=None)
    assert check.status == "ok", check
    assert left(connection, check) == []


@pytest.mark.parametrize(
    ("path", "method", "step", "grant"),
    [
        ("/namespaces$", "POST", "create a namespace", "NAMESPACE_CREATE"),
        ("/tables$", "POST", "create a table", "TABLE_CREATE"),
        ("/tables/probe$", "POST", "write", "TABLE_WRITE_DATA"),
        ("/tables/probe$", "DELETE", "drop the table", "TABLE_DROP"),
    ],
)
def test_a_missing_grant_is_named_with_the_step_that_needs_it(gateway, connection, path, method, step, grant):  # noqa: PLR0917 - a matrix
    rule = refuse(gateway, 403, FORBIDDEN, method=method, path=path)
    check = try_tables(connection, below=None)
    assert (check.status, check.exit_code) == ("failed", 1)
    assert f"Could not {step}" in check.detail
    assert FORBIDDEN in check.detail
    assert grant in check.advice
    rule.times = 0


def test_an_sts_that_is_down_is_told(gateway, connection):
    refuse(gateway, 422, STS_DOWN, path="/tables$")
    check = try_tables(connection, below=None)
    assert (check.status, check.exit_code) == ("failed", 2)
    assert "Could not create a table" in check.detail
    assert STS_DOWN in check.detail
    assert "STS endpoint" in check.advice
    assert left(connection, check) == []


@pytest.mark.parametrize("said", [FOREIGN_LOCATION, TAKEN_LOCATION], ids=["foreign", "taken"])
def test_a_rejected_location_is_not_advised_to_need_a_grant(gateway, connection, said):
    refuse(gateway, 403, said, path="/tables$")
    check = try_tables(connection, below=None)
    assert said in check.detail
    assert check.advice.startswith("Choose a location")


def test_nothing_is_left_when_the_server_creates_the_table_and_vends_no_credentials_for_it(gateway, connection):
    """Without an STS, Polaris 1.4.1 creates the table and then fails the request, and every later load of the table."""
    reply = Reply.of(400, {"error": {"message": NO_STS, "type": "BadRequestException", "code": 400}})
    gateway.add(Rule("POST", "/tables$", None, reply=reply))
    gateway.add(Rule("GET", "/tables/probe$", None, forward=False, reply=reply))
    before = connection.namespaces.list_below()
    check = try_tables(connection, below=None)
    assert "Could not create a table" in check.detail
    assert NO_STS in check.detail
    assert connection.namespaces.list_below() == before
