"""Interpretation of server responses."""

from __future__ import annotations

import email.utils
import json
import time
import uuid

import pytest
import requests

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    CatalogUnavailableError,
    CorruptFileError,
    CredentialVendingError,
    RateLimitedError,
    TransientError,
)
from floe_polaris.errors import CatalogServerError, response_error, retry_after, server_message
from floe_polaris.transport.http import _time_ordered_uuid


def answer(status, content="", **headers):
    response = requests.Response()
    response.status_code = status
    response.url = "https://catalog.example/v1/namespaces?token=canary"
    response._content = content.encode()
    response.headers.update(headers)
    return response


@pytest.mark.req("RD-02")
@pytest.mark.parametrize(
    ("status", "error", "passing"),
    [
        (401, CatalogAuthenticationError, False),
        (419, CatalogAuthenticationError, False),
        (403, CatalogAuthorizationError, False),
        (429, RateLimitedError, True),
        (500, CatalogServerError, False),
        (502, CatalogUnavailableError, True),
        (503, CatalogUnavailableError, True),
        (504, CatalogUnavailableError, True),
        (307, CatalogConnectionError, False),
    ],
)
def test_statuses_have_their_errors_and_say_whether_to_come_back(status, error, passing):
    found = response_error(answer(status), credentials="catalog.credentials.token")
    assert type(found) is error or isinstance(found, error)
    assert isinstance(found, TransientError) is passing
    assert found.hint
    assert "canary" not in str(found)


# Responses of Apache Polaris 1.4.1.
RECORDED = {
    "location of a neighbor": (
        403,
        (
            "Invalid locations '[s3://lake/b/n9/t4]' for identifier 'n1.t4': s3://lake/b/n9/t4 is not in the list of "
            "allowed locations: [s3://lake/b/n1]"
        ),
        CatalogAuthorizationError,
        "below the namespace's own, or omit it",
    ),
    "location that is taken": (
        403,
        (
            "Unable to create table at location 's3://lake/b/n1/t1' because it conflicts with existing table or "
            "namespace at location 's3://lake/b/n1/t1/'"
        ),
        CatalogAuthorizationError,
        "that no other table or namespace uses",
    ),
    "purge": (
        403,
        (
            "Unable to purge entity: t1. To enable this feature, set the Polaris configuration DROP_WITH_PURGE_ENABLED "
            "or the catalog configuration polaris.config.drop-with-purge.enabled"
        ),
        CatalogAuthorizationError,
        "Set polaris.config.drop-with-purge.enabled",
    ),
    "privilege": (
        403,
        (
            "Principal 'etl' with activated PrincipalRoles '[]' and activated grants via '[]' is not authorized for op "
            "CREATE_TABLE_DIRECT_WITH_WRITE_DELEGATION"
        ),
        CatalogAuthorizationError,
        "Grant the privilege",
    ),
    "STS that is down": (
        422,
        (
            "Failed to get subscoped credentials: Unable to execute HTTP request: Connect to 127.0.0.1:9 [/127.0.0.1] "
            "failed: Connection refused (SDK Attempt Count: 4)"
        ),
        CredentialVendingError,
        "STS endpoint",
    ),
    "no STS": (
        400,
        "Credential vending was requested for table n1.t1, but no credentials are available",
        CapabilityError,
        "catalog.access_delegation to none",
    ),
}


@pytest.mark.parametrize("case", RECORDED)
def test_a_refusal_of_polaris_is_quoted_whole_and_its_hint_fits_the_reason(case):
    status, said, error, hint = RECORDED[case]
    content = json.dumps({"error": {"message": said, "type": "ForbiddenException", "code": status}})
    found = response_error(answer(status, content), credentials="catalog.credentials")
    assert type(found) is error
    assert said in found.message
    assert hint in found.hint


def test_a_denial_without_a_message_names_the_request():
    """The response to a HEAD request has no body."""
    response = answer(403)
    response.request = requests.Request("HEAD", response.url).prepare()
    found = response_error(response, credentials="catalog.credentials")
    assert found.message == "The catalog denied this operation: HEAD https://catalog.example/v1/namespaces."


@pytest.mark.parametrize(
    ("status", "said"),
    [
        # Responses of Apache Polaris 1.4.1 and of Iceberg's reference server.
        (503, "Failed to read file: s3://lake/b/n1/t1/metadata/00001-65d4e615.metadata.json"),
        (500, "Failed to read file: s3://lake/b/n1/t1/metadata/00001-65d4e615.metadata.json"),
        (500, "Failed to open input stream for file: file:/lake/b/n1/t1/metadata/00001-65d4e615.metadata.json"),
    ],
)
def test_a_metadata_file_that_the_server_cannot_read_is_no_outage(status, said):
    content = json.dumps({"error": {"message": said, "type": "RuntimeIOException", "code": status}})
    found = response_error(answer(status, content), credentials="catalog.credentials")
    assert isinstance(found, CorruptFileError)
    assert not isinstance(found, TransientError)
    assert found.path == said.partition(": ")[2]


@pytest.mark.parametrize("status", [200, 204, 400, 404, 409, 422, 501])
def test_other_statuses_are_left_to_pyiceberg(status):
    assert response_error(answer(status), credentials="x") is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"error": {"message": "no grant", "type": "ForbiddenException", "code": 403}}', "no grant"),
        (
            '{"error": "invalid_scope", "error_description": "The scope is invalid"}',
            "invalid_scope: The scope is invalid",
        ),
        ('{"error": "invalid_client"}', "invalid_client"),
        ('{"error": {"message": "client_secret=canary is wrong"}}', "client_secret=********** is wrong"),
        ("<html>canary</html>", ""),
        ("", ""),
        ("[1]", ""),
    ],
)
def test_what_the_server_said_is_quoted_without_secrets(content, said):
    assert server_message(answer(400, content)) == said


def test_a_moment_to_come_back_may_be_seconds_or_a_date():
    assert retry_after(answer(429, **{"Retry-After": "7"})) == 7
    moment = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 50 < retry_after(answer(429, **{"Retry-After": moment})) <= 61
    assert retry_after(answer(429, **{"Retry-After": "soon"})) is None
    assert retry_after(answer(429)) is None


def test_idempotency_keys_are_ordered_by_time():
    keys = [uuid.UUID(_time_ordered_uuid()) for _ in range(3)]
    assert {key.version for key in keys} == {7}
    assert {key.variant for key in keys} == {uuid.RFC_4122}
    assert len(set(keys)) == 3
    assert abs((keys[0].int >> 80) / 1000 - time.time()) < 60
