"""Runs fake-gcs-server, an in-memory emulator of Google Cloud Storage."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

from floe_testing.services.host.runner import Launch, Service, answers, free_port
from floe_testing.services.host.tools import go_binary, go_install, lacks_go

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "github.com/fsouza/fake-gcs-server@v1.56.1"
BUCKET = "lake"
PROJECT = "floe-test"


class FakeGcs(Service):
    """Google's JSON API on a local port, with the bucket ``lake``."""

    name = "fake-gcs"

    def missing(self) -> str | None:
        """Check for Go, which builds the server."""
        return lacks_go()

    def prepare(self, dev: Path) -> None:
        """Build the server once, which takes about a minute on two cores."""
        go_install(dev, "fake-gcs-server", PACKAGE)

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the server on a free port; it stores nothing in ``folder``."""
        del folder
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command = [str(go_binary(dev, "fake-gcs-server")), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
        command += ["-external-url", url, "-public-host", f"127.0.0.1:{port}", "-backend", "memory"]
        return Launch(
            command=command,
            ready=lambda: answers(f"{url}/_internal/healthcheck"),
            properties={"url": url, "bucket": BUCKET, "project": PROJECT},
            after=lambda: _create_bucket(url),
        )


def _create_bucket(url: str) -> None:
    request = urllib.request.Request(  # noqa: S310 - address of the local server
        f"{url}/storage/v1/b?project={PROJECT}",
        data=json.dumps({"name": BUCKET}).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10).close()
