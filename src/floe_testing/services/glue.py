"""moto's Glue: the data catalog of AWS in memory, without its policies."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from floe_testing.services.host.runner import Launch, Service, answers, free_port

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

REGION = "us-east-1"


def keep_aws_to(monkeypatch: pytest.MonkeyPatch, *, secret: str) -> None:
    """Give credentials where AWS's tools look for them, and keep them from looking elsewhere."""
    for variable in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "floe-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)


class Glue(Service):
    """Glue's API at one address; it takes any credentials."""

    name = "glue"

    def missing(self) -> str | None:
        """The package moto has it."""
        return None if find_spec("moto") else "the package moto is not installed"

    def prepare(self, dev: Path) -> None:
        """Nothing to fetch."""

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start it on a free port; nothing is kept in ``folder``."""
        del dev, folder
        url = f"http://127.0.0.1:{(port := free_port())}"
        return Launch(
            command=[sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            ready=lambda: answers(f"{url}/moto-api/data.json"),
            properties={"url": url, "region": REGION},
        )
