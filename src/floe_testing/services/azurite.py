"""Runs Azurite, Microsoft's emulator of Azure Blob Storage, in memory."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from floe_testing.services.host.runner import Launch, Service, ServiceError, answers, free_port

if TYPE_CHECKING:
    from pathlib import Path

# Version 3.36 needs a newer Node.js than Debian has.
PACKAGE = "azurite@3.35.0"
CONTAINER = "lake"
ACCOUNT = "devstoreaccount1"
# The well-known key of every Azurite, published by Microsoft.
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_INSTALL_SECONDS = 600


class Azurite(Service):
    """The blob API on a local port, with the container ``lake``; it has no dfs endpoint."""

    name = "azurite"

    def missing(self) -> str | None:
        """Check for Node.js and npm."""
        lacking = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
        return f"Node.js ({', '.join(lacking)}) is not on PATH" if lacking else None

    def prepare(self, dev: Path) -> None:
        """Install the server once, in ``dev/azurite``."""
        if _program(dev).exists():
            return
        folder = dev / "azurite"
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(  # noqa: S603 - a command built by floe
            [shutil.which("npm") or "npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE],
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            msg = f"npm install {PACKAGE} failed: {done.stderr[-1500:]}"
            raise ServiceError(msg)

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the server on a free port; it stores nothing in ``folder``."""
        del folder
        port = free_port()
        url = f"http://127.0.0.1:{port}/{ACCOUNT}"
        string = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={url}"
        command = [str(_program(dev)), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
        command += ["--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence"]
        return Launch(
            command=command,
            ready=lambda: answers(url),
            properties={
                "url": url,
                "container": CONTAINER,
                "account": ACCOUNT,
                "account_key": ACCOUNT_KEY,
                "connection_string": string,
            },
            after=lambda: _create_container(string),
        )


def _program(dev: Path) -> Path:
    return dev / "azurite" / "node_modules" / ".bin" / "azurite-blob"


def _create_container(connection_string: str) -> None:
    from azure.storage.blob import BlobServiceClient

    with BlobServiceClient.from_connection_string(connection_string) as client:
        client.create_container(CONTAINER)
