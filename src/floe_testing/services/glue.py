"""moto's Glue: the data catalog of AWS in memory, without its policies."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from floe_testing.services.runner import Launch, Service, answers, free_port

if TYPE_CHECKING:
    from pathlib import Path

REGION = "us-east-1"


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
