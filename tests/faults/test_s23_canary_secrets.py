"""S23: canary secrets from every configuration field never appear in logs, tracebacks, artifacts, spans or settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic import ValidationError

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import StorageError
from floe_core.observing.redaction import redact
from floe_core.schemas import CatalogConfig, CatalogCredentials, StorageConfig, StorageCredentials, TenancyConfig
from floe_dagster.io.config import IcebergIOManagerConfig
from floe_polaris import PolarisCatalogConfig
from floe_polaris.plugin import PolarisCatalogPlugin
from floe_spark.session.settings import _REDACTED
from floe_storage.azure import AzureStoragePlugin
from floe_storage.gcs import GcsStoragePlugin
from floe_storage.s3 import S3StoragePlugin
from floe_tenancy import CatalogProvider, IcebergCatalogBootstrapper, IcebergCatalogConfig
from floe_tenancy.layout.properties import catalog_properties

CANARY = "canary7f3a9c1e5b"
SECRET_PROPERTIES = {
    "s3.secret-access-key": CANARY,
    "s3.session-token": CANARY,
    "gcs.oauth2.token": CANARY,
    "adls.account-key": CANARY,
    "adls.connection-string": f"AccountName=x;AccountKey={CANARY}",
    "adls.client-secret": CANARY,
    "adls.sas-token": CANARY,
    "token": CANARY,
    "credential": f"id:{CANARY}",
    "header.Authorization": f"Bearer {CANARY}",
}
# A valid instance of every configuration model, with a secret wherever one is allowed.
FULL = {
    PolarisCatalogConfig: {
        "uri": "https://polaris.example.com/api/catalog",
        "warehouse": "lake",
        "client_id": "floe",
        "client_secret": CANARY,
        "properties": SECRET_PROPERTIES,
    },
    IcebergCatalogConfig: {
        "name": "clients",
        "provider": "s3",
        "warehouse_bucket": "lake",
        "metadata_bucket": "meta",
        "access_key_id": "key",
        "secret_access_key": CANARY,
        "properties": SECRET_PROPERTIES,
    },
    IcebergIOManagerConfig: {
        "catalog_uri": "https://polaris.example.com/api/catalog",
        "warehouse": "lake",
        "client_secret": CANARY,
        "token": CANARY,
        "catalog_properties": SECRET_PROPERTIES,
    },
    CatalogConfig: {
        "credentials": {"client_id": "floe", "client_secret": "${S23_SECRET}", "password": "${S23_SECRET}"}
    },
    CatalogCredentials: {"token": "${S23_SECRET}"},
    StorageConfig: {"bucket": "lake", "credentials": {"secret_access_key": "${S23_SECRET}"}},
    StorageCredentials: dict.fromkeys(("session_token", "account_key", "connection_string", "token"), "${S23_SECRET}"),
    TenancyConfig: {},
}
MODELS = pytest.mark.parametrize("model", FULL, ids=lambda model: model.__name__)


@pytest.fixture(autouse=True)
def secret_in_the_environment(monkeypatch):
    monkeypatch.setenv("S23_SECRET", CANARY)


@MODELS
def test_s23_no_model_shows_its_secrets(model):
    config = model.model_validate(FULL[model])
    assert CANARY not in repr(config)
    assert CANARY not in str(config)
    assert CANARY not in f"{config}"
    assert CANARY not in str(redact(config))


@MODELS
def test_s23_a_refused_value_is_not_repeated(model):
    refused = 0
    for field in model.model_fields:
        for wrong in ([CANARY], {CANARY: [CANARY]}, f"http://user:{CANARY}@host:99999/?#", CANARY + "\x00/.."):
            try:
                model.model_validate({**FULL[model], field: wrong})
            except ValidationError as err:
                refused += 1
                shown = "".join(traceback.format_exception(err))
                # The name of an unknown key is not secret; its value is.
                assert CANARY not in shown.replace(f".{CANARY}", ""), (field, wrong)
    assert refused > len(model.model_fields)


def test_s23_a_secret_may_not_be_written_where_a_reference_belongs():
    for name, annotation in StorageCredentials.model_fields.items():
        if "SecretReference" in str(annotation.annotation):
            with pytest.raises(ValidationError) as refused:
                StorageConfig.model_validate({"credentials": {name: CANARY}})
            assert CANARY not in str(refused.value)


@pytest.mark.parametrize("provider", list(CatalogProvider)[:3])
def test_s23_a_store_that_fails_does_not_tell(provider, caplog):
    config = IcebergCatalogConfig(
        name="s23",
        provider=provider,
        warehouse_bucket="lake",
        endpoint="http://127.0.0.1:9/account",
        region="us-east-1",
        access_key_id="account",
        secret_access_key="Y2FuYXJ5N2YzYTljMWU1Yg==",
        properties={"type": "sql", "uri": "sqlite://", "gcs.oauth2.token": CANARY} if provider == "gcs" else {},
    )
    caplog.set_level("DEBUG")
    assert set(catalog_properties(config).values()) & {CANARY, "Y2FuYXJ5N2YzYTljMWU1Yg=="}
    bootstrapper = IcebergCatalogBootstrapper(catalog_loader=SilentLoader())
    with pytest.raises(StorageError) as failed:
        bootstrapper.bootstrap_client("acme", config)
    shown = "".join(traceback.format_exception(failed.value)) + caplog.text
    assert CANARY not in shown
    assert "Y2FuYXJ5N2YzYTljMWU1Yg" not in shown


class SilentLoader:
    """Loads an empty catalog in memory."""

    def __call__(self, config):
        from pyiceberg.catalog.memory import InMemoryCatalog

        return InMemoryCatalog(config.name)


def test_s23_spark_hides_every_setting_that_holds_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("S23_STRING", f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={CANARY}")
    reference = "${S23_SECRET}"
    plugins = [
        (S3StoragePlugin(), {"bucket": "lake", "credentials": {"access_key_id": "k", "secret_access_key": reference}}),
        (GcsStoragePlugin(), {"bucket": "lake", "credentials": {"token": reference}}),
        (AzureStoragePlugin(), {"bucket": "lake", "credentials": {"account_name": "acc", "account_key": reference}}),
        (
            AzureStoragePlugin(),
            {"bucket": "lake", "credentials": {"account_name": "acc", "connection_string": "${S23_STRING}"}},
        ),
    ]
    conf = {}
    for plugin, section in plugins:
        plugin.bind(StorageConfig(**section), project_root=tmp_path)
        conf |= plugin.get_spark_conf("floe")
        assert CANARY not in repr(plugin)
        assert CANARY not in str(plugin.get_dbt_profile_config())
        assert CANARY not in str(plugin.get_dagster_io_manager_config())
        assert CANARY not in str(plugin.get_helm_values_override())
    held = {key for key, value in conf.items() if CANARY in value}
    assert len(held) >= 3
    assert not [key for key in held if not re.search(_REDACTED, key)]


def test_s23_plugins_do_not_show_their_connection(tmp_path):
    sql = SqlCatalogPlugin()
    catalog = sql.connect(
        CatalogConfig(warehouse=f"file://{tmp_path}/wh"), file_io=SECRET_PROPERTIES, project_root=tmp_path
    )
    assert CANARY not in repr(sql) + repr(catalog) + str(sql.health_check())
    sql.shutdown()
    assert CANARY not in repr(PolarisCatalogPlugin())


class Collector(BaseHTTPRequestHandler):
    """Takes spans and metrics, and plays a catalog that repeats whatever it was sent."""

    received: list[bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path in {"/v1/traces", "/v1/metrics"}:
            self.received.append(body)
            self._answer(200, b"")
        else:
            text = f"not welcome: {body.decode()} {self.headers.get('Authorization')} secret={CANARY} {CANARY}"
            self._answer(401, json.dumps({"error": {"message": text, "type": "E", "code": 401}}).encode())

    do_GET = do_POST  # noqa: N815 - the base class's name

    def _answer(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    handler = type("Handler", (Collector,), {"received": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    server.spans = handler.received
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def project(folder, collector, catalog="", **storage):
    credentials = {"access_key_id": "${S23_KEY}", "secret_access_key": "${S23_SECRET}"}
    section = {"type": "s3", "bucket": "lake", "region": "us-east-1", "credentials": credentials, **storage}
    (folder / "floe.yaml").write_text(
        f"schema_version: 1\nname: shop\nstorage: {json.dumps(section)}\n"
        f"observability: {{otlp_endpoint: 'http://127.0.0.1:{collector.server_port}/v1/traces'}}\n{catalog}"
    )


ASSET = """
import dagster as dg
import pyarrow as pa

@dg.asset(key_prefix="bronze", metadata={"write_mode": "overwrite"})
def orders() -> pa.Table:
    return pa.table({"id": [1]})
"""
SEVERAL = """
import json, sys
from floe_cli.app import main
codes = [main(arguments) for arguments in json.loads(sys.argv[1])]
sys.stderr.write("\\n" + json.dumps(codes))
"""


def floe(folder, *commands, **environ):
    """Run commands one after the other in a process of their own; return their exit codes and all they said."""
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return json.loads(done.stderr.splitlines()[-1]), done.stdout + done.stderr


def leaks(folder, secret):
    return [str(path) for path in Path(folder).rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_s23_a_catalog_that_repeats_secrets_is_not_repeated(tmp_path, collector):
    catalog = (
        f"catalog: {{type: polaris, uri: 'http://127.0.0.1:{collector.server_port}/api/catalog', warehouse: lake, "
        "retry: {max_attempts: 1}, credentials: {client_id: floe, client_secret: '${S23_SECRET}'}}\n"
        "orchestration: {module: s23_assets}\n"
    )
    project(tmp_path, collector, catalog, endpoint="http://127.0.0.1:9")
    (tmp_path / "s23_assets.py").write_text(ASSET)
    commands = (
        ["compile", "--debug"],
        ["tenants", "bootstrap", "acme", "--debug"],
        ["doctor", "--debug", "-o", "json"],
        ["run", "--debug"],
        ["run", "--tenant", "acme", "--debug"],
    )
    codes, shown = floe(tmp_path, *commands, S23_KEY="key", S23_SECRET=CANARY)
    assert codes[0] == 0, shown
    assert all(codes[1:]), shown
    assert CANARY not in shown
    # The files include everything that the Dagster UI shows of the failed run: events, errors and settings.
    assert list((tmp_path / ".floe" / "dagster").rglob("*.db"))
    assert not leaks(tmp_path, CANARY)
    assert collector.spans
    assert CANARY.encode() not in b"".join(collector.spans)


def test_s23_the_life_of_a_tenant_leaves_no_secret_behind(tmp_path, collector, minio):
    secret = minio["secret_access_key"]
    project(tmp_path, collector, endpoint=minio.url, prefix=f"s23/{tmp_path.name}")
    wrong = {"S23_KEY": minio["access_key_id"], "S23_SECRET": CANARY}
    codes, shown = floe(tmp_path, ["tenants", "bootstrap", "acme", "--debug"], **wrong)
    assert codes[0] != 0
    assert CANARY not in shown
    commands = (
        ["compile"],
        ["tenants", "bootstrap", "acme", "--debug"],
        ["tenants", "verify", "--debug", "-o", "json"],
        ["tenants", "offboard", "acme", "--yes", "--export", "out", "--debug"],
    )
    codes, text = floe(tmp_path, *commands, **{**wrong, "S23_SECRET": secret})
    assert codes == [0] * 4, text
    shown += text
    assert secret not in shown
    assert not leaks(tmp_path, secret)
    assert not leaks(tmp_path, CANARY)
    assert (tmp_path / "out/tenants/acme/events.parquet").is_file()
    spans = b"".join(collector.spans)
    assert b"tenancy.bootstrap" in spans
    assert secret.encode() not in spans
