"""Secrets are references in files and are resolved only in memory."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from floe_core.errors import SecretReferenceError
from floe_core.observing.redaction import redact_text
from floe_core.secrets import SecretReference, expand, missing_variables

CANARY = "canary9Xk2LmQ7"


def reference(value) -> SecretReference:
    return SecretReference.model_validate(value)


@pytest.mark.parametrize("value", ["${A_1}", " ${A_1}\n", {"env": "A_1"}])
def test_a_variable_is_read_when_asked_for(value):
    secret = reference(value).resolve({"A_1": CANARY})
    assert secret.get_secret_value() == CANARY
    assert CANARY not in repr(secret)


def test_a_resolved_secret_is_masked_from_then_on():
    reference("${A}").resolve({"A": "resolved8Zq1Wn5"})
    assert "resolved8Zq1Wn5" not in redact_text("connection refused for resolved8Zq1Wn5")


def test_a_mounted_secret_comes_from_its_file_and_else_from_its_variable(tmp_path):
    secret = reference({"secret_ref": "polaris-prod"})
    environ = {"FLOE_SECRETS_DIR": str(tmp_path), "FLOE_SECRET_POLARIS_PROD": "by-variable"}
    assert secret.resolve(environ).get_secret_value() == "by-variable"
    (tmp_path / "polaris-prod").write_text("by-file\n", encoding="utf-8")
    assert secret.resolve(environ).get_secret_value() == "by-file"
    (tmp_path / "polaris-prod").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretReferenceError, match="not UTF-8"):
        secret.resolve(environ)


@pytest.mark.parametrize(
    ("value", "hint"), [("${A}", "export A="), ({"secret_ref": "x"}, "FLOE_SECRET_X")], ids=["variable", "mounted"]
)
def test_a_reference_that_leads_nowhere_says_what_to_set(value, hint):
    with pytest.raises(SecretReferenceError, match=hint):
        reference(value).resolve({"A": ""})


@pytest.mark.parametrize(
    "value",
    [
        CANARY,
        f"${{A:-{CANARY}}}",
        f"${{A}}{CANARY}",
        f"x${{{CANARY}}}",
        {"env": f"{CANARY} with spaces"},
        {"secret_ref": f"../{CANARY}"},
        {"env": "A", "secret_ref": "b"},
        {},
        5,
        None,
    ],
    ids=str,
)
def test_what_is_no_reference_is_refused_without_being_printed(value):
    with pytest.raises(ValidationError) as caught:
        reference(value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("value", ["${A}", {"secret_ref": "b"}], ids=str)
def test_a_reference_is_written_as_it_was_read(value):
    assert json.loads(reference(value).model_dump_json()) == value


def test_text_is_expanded_with_variables_and_defaults():
    environ = {"HOST": "db", "EMPTY": ""}
    assert expand("${HOST}:${PORT:-5432}/${EMPTY:-x}${EMPTY:-}", environ) == "db:5432/x"
    assert missing_variables("${HOST} ${PORT} ${EMPTY} ${X:-}", environ) == ["PORT", "EMPTY"]
    with pytest.raises(SecretReferenceError, match="PORT"):
        expand("${PORT}", environ)
