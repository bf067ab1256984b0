"""Plaintext secrets in floe.yaml are errors, which do not contain the secret."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from floe_core.compile import compile_project, write_artifacts
from floe_core.config import load_project
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

CANARY = "canary9Xk2LmQ7"


def written(folder: Path, text: str) -> Path:
    path = folder / "floe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


LITERALS = {
    "client secret": f"catalog: {{credentials: {{client_secret: {CANARY}}}}}",
    "token": f"catalog: {{credentials: {{token: {CANARY}}}}}",
    "database password": f"catalog: {{credentials: {{password: {CANARY}}}}}",
    "reference with default": f"catalog: {{credentials: {{password: '${{PW:-{CANARY}}}'}}}}",
    "storage key": f"storage: {{credentials: {{secret_access_key: {CANARY}}}}}",
    "account key": f"storage: {{credentials: {{account_key: {CANARY}}}}}",
    "env that is no variable": f"catalog: {{credentials: {{token: {{env: '{CANARY} x'}}}}}}",
    "list": f"catalog: {{credentials: {{token: [{CANARY}]}}}}",
    "unknown key of a reference": f"catalog: {{credentials: {{token: {{value: {CANARY}}}}}}}",
    "option by name": f"catalog: {{options: {{s3.secret-access-key: {CANARY}}}}}",
    "option with default": f"storage: {{options: {{token: '${{T:-{CANARY}}}'}}}}",
    "spark conf": f"compute: {{conf: {{spark.hadoop.fs.s3a.secret.key: {CANARY}}}}}",
    "java option": f"compute: {{conf: {{spark.driver.extraJavaOptions: -DkeyStorePassword={CANARY}}}}}",
    "table property": f"tables: {{a.b: {{properties: {{encryption.password: {CANARY}}}}}}}",
    "password in an address": f"catalog: {{uri: 'postgresql://floe:{CANARY}@db/x'}}",
    "default password in an address": f"catalog: {{uri: 'postgresql://floe:${{PW:-{CANARY}}}@db/x'}}",
    "signed address": f"storage: {{endpoint: 'https://acc.blob.example/x?sv=1&sig={CANARY}'}}",
    "private key": f"storage:\n  options:\n    pem: |\n      -----BEGIN PRIVATE KEY-----\n      {CANARY}",
    "in an environment": f"environments: {{prod: {{catalog: {{credentials: {{client_secret: {CANARY}}}}}}}}}",
    "misspelt key": f"catalog: {{credentials: {{client_secrt: {CANARY}}}}}",
    "misspelt section": f"catalogue: {{password: {CANARY}}}",
    "number": "catalog: {credentials: {password: 83729461}}",
    "syntax error in the line": f"catalog: {{credentials: {{password: '{CANARY}}}",
    "duplicate key": f"catalog: {{credentials: {{password: a, password: {CANARY}}}}}",
    "wrong type": f"catalog: {{credentials: {CANARY}}}",
}


@pytest.mark.parametrize("text", LITERALS.values(), ids=LITERALS.keys())
def test_s23_a_literal_secret_is_refused_and_never_repeated(tmp_path, text):
    path = written(tmp_path, f"name: a\n{text}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_project(path, environ={})
    printed = "".join(traceback.format_exception(caught.value)) + repr(caught.value.problems)
    assert CANARY not in printed
    assert "83729461" not in printed
    assert all(problem.line >= 2 for problem in caught.value.problems)


@pytest.mark.parametrize("case", ["client secret", "option by name", "password in an address", "table property"])
def test_the_error_says_how_to_use_a_reference(tmp_path, case):
    with pytest.raises(ConfigurationError) as caught:
        load_project(written(tmp_path, f"name: a\n{LITERALS[case]}\n"), environ={})
    (problem,) = caught.value.problems
    assert "secret in plain text" in problem.message
    assert "${MY_SECRET}" in problem.fix


@pytest.mark.parametrize(
    "text",
    [
        "catalog: {credentials: {client_secret: '${A}', token: {secret_ref: my-token}}}",
        "catalog: {credentials: {password: {env: A}}}",
        "catalog: {uri: 'postgresql://floe:${A}@db/x'}",
        "catalog: {uri: 'https://host:8181/api@v1'}",
        "catalog: {options: {credential: 'id:${A}', header.authorization: 'Bearer ${A}'}}",
        "compute: {conf: {spark.kubernetes.authenticate.driver.oauthTokenFile: /var/run/token}}",
        "compute: {conf: {fs.s3a.aws.credentials.provider: org.example.Provider, token-exchange-enabled: 'true'}}",
        "compute: {conf: {spark.network.crypto.enabled: true, spark.redaction.size: 1}}",
        "description: 'the password: see https://wiki.example/secrets'",
        "tables: {auth.tokens: {columns: [{name: password, type: string}], keys: [password]}}",
    ],
)
def test_what_is_no_secret_is_left_alone(tmp_path, text):
    assert load_project(written(tmp_path, f"name: a\n{text}\n"), environ={"A": "x"})


@pytest.mark.req("FR-034")
def test_s23_artifacts_hold_references_and_no_secret(tmp_path):
    path = written(
        tmp_path,
        """\
name: a
catalog:
  uri: postgresql://${DB_USER}:${DB_PASSWORD}@db/x
  credentials: {client_id: me, client_secret: "${CLIENT_SECRET}", token: {secret_ref: mounted}}
  options: {s3.secret-access-key: "${S3_SECRET}"}
storage:
  credentials: {secret_access_key: "${S3_SECRET}"}
""",
    )
    environ = dict.fromkeys(["DB_USER", "DB_PASSWORD", "CLIENT_SECRET", "S3_SECRET"], CANARY)
    artifacts = compile_project(path, environ=environ)
    text = write_artifacts(artifacts).read_text(encoding="utf-8")
    assert CANARY not in text + repr(artifacts) + str(artifacts)
    assert '"client_secret": "${CLIENT_SECRET}"' in text
    assert '"secret_ref": "mounted"' in text
