"""An OpenID Connect issuer for client credentials.

Run as ``python -m floe_testing.services.oidc_issuer PORT LIFETIME CLIENT SECRET``. It serves a discovery document, its
keys, and ``/token``. For tests only: it has a single client, and generates its keys on startup.
"""

from __future__ import annotations

import base64
import json
import sys
import time
import urllib.parse
import uuid
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

KEY_ID = "floe-test"


class Issuer:
    """Issues signed tokens to one client."""

    def __init__(self, url: str, *, client_id: str, client_secret: str, lifetime: int) -> None:
        """Generate a key."""
        self.url = url
        self._client = (client_id, client_secret)
        self._lifetime = lifetime
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def discovery(self) -> dict[str, Any]:
        """Return the discovery document."""
        return {
            "issuer": self.url,
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": ["token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def keys(self) -> dict[str, Any]:
        """Return the public key that verifies the tokens."""
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**public, "kid": KEY_ID, "use": "sig", "alg": "RS256"}]}

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """Handle a token request with form or basic authentication."""
        if form.get("grant_type") != "client_credentials":
            return 400, {"error": "unsupported_grant_type"}
        offered = (form.get("client_id", ""), form.get("client_secret", ""))
        if authorization.startswith("Basic "):
            name, _, secret = base64.b64decode(authorization[6:]).decode().partition(":")
            offered = (name, secret)
        if offered != self._client:
            return 401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"}
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": offered[0],
            "aud": "nessie",
            "iat": now,
            "exp": now + self._lifetime,
            "jti": uuid.uuid4().hex,
            "scope": form.get("scope", ""),
        }
        token = jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": KEY_ID})
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self._lifetime}


class Handler(BaseHTTPRequestHandler):
    """Maps paths to the issuer's responses."""

    protocol_version = "HTTP/1.1"

    def __init__(self, issuer: Issuer, *args: Any) -> None:
        """Handle one connection."""
        self.issuer = issuer
        super().__init__(*args)

    def do_GET(self) -> None:
        """Serve the discovery document and the keys."""
        if self.path == "/.well-known/openid-configuration":
            self._answer(200, self.issuer.discovery())
        elif self.path == "/jwks":
            self._answer(200, self.issuer.keys())
        else:
            self._answer(404, {"error": "not_found"})

    def do_POST(self) -> None:
        """Issue a token."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = dict(urllib.parse.parse_qsl(body))
        self._answer(*self.issuer.token(form, self.headers.get("Authorization", "")))

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Suppress access logs."""


def main(arguments: list[str]) -> None:
    """Serve until terminated."""
    port, lifetime, client_id, client_secret = arguments
    issuer = Issuer(
        f"http://127.0.0.1:{port}", client_id=client_id, client_secret=client_secret, lifetime=int(lifetime)
    )
    ThreadingHTTPServer(("127.0.0.1", int(port)), partial(Handler, issuer)).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
