"""Runs moto's emulation of AWS Glue, in memory and without IAM policies."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from floe_testing.services.host.runner import Launch, Service, answers, free_port

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

REGION = "us-east-1"


def isolate_aws(monkeypatch: pytest.MonkeyPatch, *, secret: str) -> None:
    """Set AWS credentials in the environment, and disable all other sources of AWS configuration."""
    for variable in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "floe-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)


class Glue(Service):
    """The Glue API on a local port; it accepts any credentials."""

    name = "glue"

    def missing(self) -> str | None:
        """Check for the package moto."""
        return None if find_spec("moto") else "the package moto is not installed"

    def prepare(self, dev: Path) -> None:
        """Do nothing: there is nothing to fetch."""

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the server on a free port; it stores nothing in ``folder``."""
        del dev, folder
        url = f"http://127.0.0.1:{(port := free_port())}"
        return Launch(
            command=[sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            ready=lambda: answers(f"{url}/moto-api/data.json"),
            properties={"url": url, "region": REGION},
        )
