"""Tokens: fetched with OAuth2 client credentials, renewed before they expire, shared by all threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from floe_core.errors import CatalogAuthenticationError, CatalogConnectionError, TransientError
from floe_core.observing.metrics import count_token_refresh
from floe_core.observing.redaction import remember_secret
from floe_core.telemetry import get_logger, traced
from floe_polaris.errors import server_message
from floe_polaris.transport.http import Authenticator, DeadlineSession
from floe_polaris.transport.origin import display_url

if TYPE_CHECKING:
    import requests

    from floe_core.retry import CircuitBreaker
    from floe_polaris.config import PolarisCatalogConfig

_log = get_logger("floe.polaris")

# A token is renewed this long before it expires, or when a fifth of its lifetime is left, whichever is later.
_RENEW_BEFORE_SECONDS = 60.0
_RENEW_BEFORE_SHARE = 0.2
# If renewal fails while the token is still valid, it is retried after this long.
_RENEW_AGAIN_SECONDS = 5.0
_OK = 200


@dataclass(frozen=True)
class Token:
    """A bearer token; its text is used only in the request header."""

    header: str
    fetched_at: float
    renew_at: float
    expires_at: float

    def __repr__(self) -> str:
        """Return a mask instead of the token."""
        return "Token(**********)"


class NoCredentials(Authenticator):
    """For catalogs without authentication."""

    settings = "catalog.credentials (none are set)"

    def auth_header(self) -> str | None:
        """Return None: no header is sent."""
        return None


class BearerToken(Authenticator):
    """An existing token, which cannot be renewed when it expires."""

    settings = "catalog.credentials.token"

    def __init__(self, token: str) -> None:
        """Store the token."""
        self._header = f"Bearer {token}"

    def auth_header(self) -> str:
        """Return the header for every request."""
        return self._header

    def __repr__(self) -> str:
        """Return a mask instead of the token."""
        return "BearerToken(**********)"


class ClientCredentials(Authenticator):
    """OAuth2 client credentials: one token for all threads, renewed before it expires or when it is rejected."""

    settings = "catalog.credentials.client_id and catalog.credentials.client_secret"

    def __init__(self, config: PolarisCatalogConfig, session: DeadlineSession) -> None:
        """Fetch tokens through a session that connects only to the token endpoint."""
        self._config = config
        self._session = session
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._fetch: Future[Token] | None = None

    def __repr__(self) -> str:
        """Return the client id, without secrets."""
        return f"ClientCredentials(client_id={self._config.client_id!r})"

    def auth_header(self) -> str:
        """Return the header with a valid token.

        Raises:
            CatalogAuthenticationError: The token endpoint rejected the client.
            CatalogConnectionError: The token endpoint is unreachable.
        """
        token, now = self._token, time.monotonic()
        if token is not None and (now < token.renew_at or not self._config.token_refresh_enabled):
            return token.header
        try:
            return self._renewed(token).header
        except TransientError:
            # An unreachable token endpoint is not an error while the token is still valid.
            if token is None or now >= token.expires_at:
                raise
            self._token = replace(token, renew_at=min(token.expires_at, now + _RENEW_AGAIN_SECONDS))
            return token.header

    def seconds_valid(self) -> float | None:
        """Return for how many seconds the token is still valid; None without a token or an expiry."""
        token = self._token
        if token is None or token.expires_at == float("inf"):
            return None
        return max(0.0, token.expires_at - time.monotonic())

    def renew(self, rejected: str, *, since: float) -> bool:
        """Fetch another token after a rejection, unless the rejected token was fresh."""
        token = self._token
        if not self._config.token_refresh_enabled or token is None:
            return False
        if token.header != rejected:
            # Another thread has already replaced it.
            return True
        if token.fetched_at >= since:
            return False
        self._renewed(token)
        return True

    def _renewed(self, old: Token | None) -> Token:
        """Replace the token ``old``; concurrent threads wait for the same result."""
        with self._lock:
            if self._token is not None and self._token is not old:
                return self._token
            running = self._fetch
            if running is None:
                future = self._fetch = Future()
        if running is not None:
            return running.result()
        try:
            token = self._request()
            count_token_refresh("ok")
        except BaseException as err:
            count_token_refresh("failed")
            with self._lock:
                self._fetch = None
            future.set_exception(err)
            raise
        with self._lock:
            self._token, self._fetch = token, None
        future.set_result(token)
        return token

    def _request(self) -> Token:
        config = self._config
        secret = config.client_secret.get_secret_value() if config.client_secret else ""
        form = {
            "grant_type": "client_credentials",
            "client_id": config.client_id,
            "client_secret": secret,
            "scope": config.scope,
        }
        with traced("polaris.authenticate", scope=config.scope, client_id=config.client_id) as operation:
            response = self._session.post(config.token_uri, data=form)
            now = time.monotonic()
            if response.status_code != _OK:
                raise self._rejection(response)
            content = self._content(response)
            lifetime = _seconds(content.get("expires_in"))
            operation.set(expires_in_seconds=lifetime)
        return Token(
            header=f"Bearer {content['access_token']}",
            fetched_at=now,
            renew_at=now + lifetime - min(_RENEW_BEFORE_SECONDS, lifetime * _RENEW_BEFORE_SHARE)
            if lifetime
            else float("inf"),
            expires_at=now + lifetime if lifetime else float("inf"),
        )

    def _content(self, response: requests.Response) -> dict[str, Any]:
        try:
            content = response.json()
        except ValueError:
            content = None
        if not isinstance(content, dict) or not isinstance(content.get("access_token"), str):
            msg = f"{display_url(self._config.token_uri)} did not respond like a token endpoint."
            raise CatalogConnectionError(msg, hint="Check catalog.credentials.token_endpoint.")
        return content

    def _rejection(self, response: requests.Response) -> CatalogAuthenticationError | CatalogConnectionError:
        message = server_message(response)
        # The server's message about a login and the client id go only to the log.
        _log.warning(
            "polaris.authenticate.refused",
            status=response.status_code,
            client_id=self._config.client_id,
            said=message,
        )
        if "realm" in message.lower():
            realm = f"the realm '{self._config.realm}'" if self._config.realm else "its default realm"
            msg = f"The server does not recognize {realm}."
            return CatalogAuthenticationError(msg, hint="Check catalog.realm in floe.yaml.")
        if response.status_code in {404, 405}:
            msg = f"No token endpoint found at {display_url(self._config.token_uri)}."
            return CatalogConnectionError(msg, hint="Set catalog.credentials.token_endpoint, or correct catalog.uri.")
        if "scope" in message.lower():
            msg = f"The token endpoint does not grant the scope '{self._config.scope}'."
            return CatalogAuthenticationError(msg, hint="Check catalog.credentials.scope in floe.yaml.")
        msg = "Authentication failed."
        return CatalogAuthenticationError(msg, hint=f"Check {self.settings} in floe.yaml.")


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def authenticator_for(config: PolarisCatalogConfig, *, breaker: CircuitBreaker) -> Authenticator:
    """Return the authenticator of a configuration; its secrets are masked in logs and messages from then on."""
    for secret in (config.token, config.client_secret):
        if secret is not None:
            # floe did not resolve the secrets of a configuration created in Python, so they are not registered yet.
            remember_secret(secret.get_secret_value())
    if config.token is not None:
        return BearerToken(config.token.get_secret_value())
    if config.client_id is None:
        return NoCredentials()
    session = DeadlineSession(config, url=config.token_uri, breaker=breaker)
    # Fetching a token twice is harmless.
    session.repeatable_posts = True
    return ClientCredentials(config, session)
