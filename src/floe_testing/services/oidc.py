"""Runs an OIDC issuer with client credentials and JWKS."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from floe_testing.services.host.runner import Launch, Service, answers, free_port

if TYPE_CHECKING:
    from pathlib import Path

CLIENT_ID = "floe"
CLIENT_SECRET = "floe-oidc-secret"  # noqa: S105 - for a temporary server on the loopback interface


class Oidc(Service):
    """The issuer of tokens that Nessie accepts; the token lifetime is configurable."""

    name = "oidc"

    def __init__(self, *, lifetime_seconds: int = 3600) -> None:
        """Set the token lifetime."""
        self._lifetime = lifetime_seconds

    def missing(self) -> str | None:
        """Check for PyJWT, which signs the tokens."""
        return None if importlib.util.find_spec("jwt") else "the package pyjwt is not installed"

    def prepare(self, dev: Path) -> None:
        """Do nothing: there is nothing to fetch."""

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the issuer on a free port."""
        del dev, folder
        url = f"http://127.0.0.1:{(port := free_port())}"
        module = "floe_testing.services.oidc_issuer"
        return Launch(
            command=[sys.executable, "-m", module, str(port), str(self._lifetime), CLIENT_ID, CLIENT_SECRET],
            ready=lambda: answers(f"{url}/.well-known/openid-configuration"),
            properties={
                "url": url,
                "token_endpoint": f"{url}/token",
                "client_id": CLIENT_ID,
                "client_secret": CLIENT_SECRET,
            },
        )
