"""Redaction removes all secrets and nothing else."""

from __future__ import annotations

import time
import typing
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from floe_core import schemas
from floe_core.observing.redaction import MASK, is_secret_key, redact, redact_text, remember_secret
from floe_core.secrets import SecretReference

CANARY = "cAn4ry-Zq9+w/8Lk=="

MODELS = sorted(
    {m for m in vars(schemas).values() if isinstance(m, type) and issubclass(m, BaseModel)}, key=lambda m: m.__name__
)
FIELDS = [
    pytest.param(name, field.annotation, id=f"{model.__name__}.{name}")
    for model in MODELS
    for name, field in model.model_fields.items()
    if name != "credentials"  # a section, whose fields are redacted individually
]


def mentions(annotation: object, wanted: type) -> bool:
    return annotation is wanted or any(mentions(part, wanted) for part in typing.get_args(annotation))


@pytest.mark.parametrize(("name", "annotation"), FIELDS)
def test_every_configuration_field_is_masked_exactly_when_it_is_a_secret(name, annotation):
    secret = mentions(annotation, SecretReference)
    assert is_secret_key(name) is secret
    assert redact({name: CANARY}) == {name: MASK if secret else CANARY}


@pytest.mark.parametrize(
    "key",
    [
        "s3.secret-access-key",
        "s3.session-token",
        "adls.account-key",
        "adls.connection-string",
        "adls.sas-token",
        "adls.client-secret",
        "gcs.oauth2.token",
        "credential",
        "token",
        "header.Authorization",
        "X-Amz-Security-Token",
        "X-Amz-Signature",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.sql.catalog.lake.credential",
        "fs.azure.account.key.acc.dfs.core.windows.net",
        "clientSecret",
        "accountKey",
        "SharedAccessKey",
        "javax.net.ssl.keyStorePassword",
        "PGPASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "api_key",
        "private_key",
        "Set-Cookie",
    ],
)
def test_settings_of_clients_that_hold_secrets_are_masked(key):
    assert redact({key: CANARY}) == {key: MASK}
    assert redact({"outer": [{"inner": {key: CANARY}}]}) == {"outer": [{"inner": {key: MASK}}]}


@pytest.mark.parametrize(
    "key",
    [
        "token_endpoint",
        "token_refresh_enabled",
        "token-exchange-enabled",
        "gcs.oauth2.token-expires-at",
        "access_key_id",
        "s3.access-key-id",
        "AWS_ACCESS_KEY_ID",
        "snapshot_id",
        "partition_key",
        "asset_key",
        "keys",
        "secret_ref",
        "oauth2-server-uri",
        "signal",
        "design",
        "sasquatch",
        "tokenizer",
        "credentials_provider",
        "fs.s3a.aws.credentials.provider",
        "oauthTokenFile",
        "service_account_file",
    ],
)
def test_names_that_only_sound_secret_stay_readable(key):
    assert redact({key: "visible-value"}) == {key: "visible-value"}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"postgresql://floe:{CANARY}@db:5432/lake", id="URL"),
        pytest.param(f"postgresql+psycopg://floe:{CANARY}@x@db:5432/lake", id="URL with @ in the password"),
        pytest.param(f"redis://:{CANARY}@cache/0", id="URL without user"),
        pytest.param(f"https://{CANARY.replace('/', '')}@git.example/x", id="URL with a token as user"),
        pytest.param(f"GET /x Authorization: Bearer {CANARY}", id="bearer header"),
        pytest.param(f"'authorization': 'Basic {CANARY}'", id="basic header"),
        pytest.param(f"AccountName=a;AccountKey={CANARY};EndpointSuffix=core.windows.net", id="Azure connection"),
        pytest.param(f"https://a.blob.core.windows.net/c?sv=1&sig={CANARY}&se=2", id="Azure SAS"),
        pytest.param(f"https://b.s3.amazonaws.com/k?X-Amz-Signature={CANARY}", id="presigned S3"),
        pytest.param(f"s3.secret-access-key={CANARY}, s3.region=eu", id="S3 property"),
        pytest.param(f"id > 3 AND password == '{CANARY}'", id="filter with two equals signs"),
        pytest.param(f"`api_key` = '{CANARY}'", id="filter on a column in backquotes"),
        pytest.param(f"t.password <> '{CANARY}'", id="filter by inequality"),
        pytest.param(f"token NOT IN ('a', '{CANARY}')", id="filter by a list"),
        pytest.param(f"lower(api_key) LIKE '{CANARY}%'", id="filter by a pattern"),
        pytest.param(f"secret BETWEEN 'a' AND '{CANARY}'", id="filter by a range"),
        pytest.param(f"{{'client_secret': '{CANARY} with spaces', 'scope': 'x'}}", id="dict repr"),
        pytest.param(f'{{"client_secret": "a\\"{CANARY}"}}', id="JSON with a quote in it"),
        pytest.param(f'"{{\\"client_secret\\": \\"{CANARY}\\"}}"', id="JSON within JSON"),
        pytest.param(f"{{'tokens': ['a', '{CANARY}']}}", id="list repr"),
        pytest.param(f"password = {CANARY}", id="assignment"),
        pytest.param(f"--conf spark.hadoop.fs.s3a.secret.key={CANARY}", id="Spark option"),
        pytest.param(f"token=>{CANARY}", id="hash rocket"),
        pytest.param(f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{CANARY}", id="JWT"),
        pytest.param(f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----", id="PEM"),
        pytest.param(f"-----BEGIN PRIVATE KEY-----\n{CANARY}", id="PEM cut short"),
    ],
)
def test_secrets_within_texts_are_masked(text):
    masked = redact_text(text)
    assert "cAn4ry" not in masked
    assert MASK in masked
    assert redact_text(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost:8181/api/catalog?owner=a@b.example",
        "password IS NOT NULL AND name = 'x'",
        "Set the token in 'floe.yaml'.",
        "abfss://container@account.dfs.core.windows.net/warehouse",
        "token_endpoint=https://idp.example/token",
        "s3.access-key-id=AKIAEXAMPLE",
        "password=${DB_PASSWORD}",
        "client_secret: None",
        "floe_core.errors.SecretReferenceError: The environment variable X is not set.",
        "Basic authentication failed: the token expired",
        "secret_ref: polaris-secret",
        "The plugin floe.secrets:vault failed to start",
        "Table 'bronze.tokens' not found in catalog 'lake'",
        "partition_key=2024-01-01 snapshot_id=12345",
    ],
)
def test_texts_without_secrets_stay_as_they_are(text):
    assert redact_text(text) == text


def test_a_resolved_secret_is_masked_wherever_it_turns_up():
    reference = SecretReference.model_validate("${FLOE_TEST_SECRET}")
    secret = reference.resolve({"FLOE_TEST_SECRET": "zebra-crossing-7"})
    assert redact_text(f"server said: bad pair me/{secret.get_secret_value()}!") == f"server said: bad pair me/{MASK}!"
    assert redact({"note": "zebra-crossing-7"}) == {"note": MASK}
    assert redact_text("zebra-crossing-77 is another word") == "zebra-crossing-77 is another word"


def test_a_secret_too_short_to_be_told_from_words_is_left_to_the_other_nets():
    remember_secret("lake")
    assert redact_text("catalog 'lake'") == "catalog 'lake'"


class Colour(StrEnum):
    RED = "red"


class Settings(BaseModel):
    url: str
    password: SecretStr
    reference: SecretReference


def test_values_of_every_kind_come_out_fit_for_a_log():
    reference = SecretReference.model_validate("${PASSWORD}")
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    assert redact(
        {
            "model": Settings(url=f"https://u:{CANARY}@h", password=SecretStr(CANARY), reference=reference),
            "client_secret": reference,
            "secret": SecretStr(CANARY),
            "error": ValueError(f"password={CANARY}"),
            "path": Path("/data/lake"),
            "moment": moment,
            "colour": Colour.RED,
            "rows": 3,
            "token_seen": True,
            "token": None,
            "nothing": None,
        }
    ) == {
        "model": {"url": f"https://u:{MASK}@h", "password": MASK, "reference": "${PASSWORD}"},
        "client_secret": "${PASSWORD}",
        "secret": MASK,
        "error": f"password={MASK}",
        "path": "/data/lake",
        "moment": moment,
        "colour": "red",
        "rows": 3,
        "token_seen": True,
        "token": None,
        "nothing": None,
    }


def test_a_section_under_a_secret_name_is_masked_whole():
    assert redact({"secret": {"value": CANARY, "n": 1}}) == {"secret": {"value": MASK, "n": MASK}}
    assert redact({"passwords": [CANARY]}) == {"passwords": [MASK]}


def test_a_credentials_section_shows_what_is_no_secret():
    section = {"credentials": {"client_id": "me", "client_secret": CANARY}}
    assert redact(section) == {"credentials": {"client_id": "me", "client_secret": MASK}}


def test_a_structure_that_contains_itself_ends():
    loop: dict[str, object] = {"password": CANARY}
    loop["self"] = loop
    assert CANARY not in str(redact(loop))


@pytest.mark.parametrize(
    "piece", ["a", "token", "https://a:", "secret_", "password = ", "token=[", 'secret="', "eyJaaaaaa."]
)
def test_a_long_text_takes_time_in_proportion(piece):
    def spent(size: int) -> float:
        text = piece * (size // len(piece))
        started = time.process_time()
        redact_text(text)
        return time.process_time() - started

    # Quadratic growth would be a factor of 64; the floor makes the test robust against a tiny first measurement.
    assert spent(160_000) < 30 * max(spent(20_000), 0.02)


@pytest.mark.parametrize(
    "text",
    [
        "Failed to get subscoped credentials: Unable to execute HTTP request",
        "The catalog vends no credentials: access is denied",
        "Invalid token: The client is not authorized",
        "Missing authorization: Principal is not allowed to do this",
    ],
)
def test_a_sentence_after_a_colon_is_no_secret(text):
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "client_secret: Swordfish is wrong",
        "password: Correct horse",
        "token: cAn4ry",
        "token=Unable to",
        "credentials: cAn4ry-Zq9 is wrong",
        "Authorization: Swordfish",
    ],
)
def test_what_may_be_a_value_is_masked_in_a_sentence_too(text):
    assert MASK in redact_text(text)


@pytest.mark.parametrize("secret", ["s3cr3t", "r00tpw"])
def test_a_short_secret_of_letters_and_digits_is_masked_where_it_stands_alone(secret):
    remember_secret(secret)
    assert redact_text(f"client root, {secret}, was refused") == f"client root, {MASK}, was refused"
    assert redact_text(f"x{secret}x") == f"x{secret}x"


@pytest.mark.parametrize("word", ["root", "admin", "secret"])
def test_a_secret_that_is_a_short_plain_word_does_not_eat_the_word(word):
    remember_secret(word)
    assert redact_text(f"The {word} of all things") == f"The {word} of all things"
