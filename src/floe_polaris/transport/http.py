"""HTTP with a deadline: every call is limited in time, retried where that is safe, and kept to one server."""

from __future__ import annotations

import io
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import requests
from pyiceberg.catalog.rest.auth import AuthManager, AuthManagerAdapter
from requests.adapters import HTTPAdapter

from floe_core.errors import CatalogConnectionError, FloeStorageError, RateLimitedError, TransientError
from floe_core.resilience.deadline import Deadline
from floe_core.retry import CircuitBreaker, RetryPolicy
from floe_core.telemetry import is_tracing, request_headers, traced
from floe_polaris.errors import answer_error, network_error, was_never_sent
from floe_polaris.transport.origin import origin_of, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_polaris.config import PolarisCatalogConfig

IDEMPOTENCY_HEADER = "Idempotency-Key"
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT"})
_CHUNK_BYTES = 64 * 1024
_UNAUTHORIZED = frozenset({401, 419})
_UNEXPLAINED = frozenset({400, 500, 503})
_POOLED_CONNECTIONS = 32
# A server that never answered is more likely a wrong address than one that restarts, and is given up earlier.
_FIRST_ATTEMPTS = 3


class Authenticator(AuthManager):
    """An AuthManager that can replace a token the server no longer accepts."""

    # The settings its credentials come from, for messages.
    settings: str = "catalog.credentials"

    def renew(self, rejected: str, *, since: float) -> bool:
        """Get another token after the server rejected one.

        Args:
            rejected: The header that was rejected.
            since: When the call began (``time.monotonic``); a token fetched after that is fresh and not replaced.

        Returns:
            Whether there is another token to try.
        """
        del rejected, since
        return False


@dataclass
class Call:
    """One logical call and what its attempts share."""

    method: str
    url: str
    options: dict[str, Any]
    deadline: Deadline
    repeatable: bool
    started: float = field(default_factory=time.monotonic)
    never_sent: bool = False

    @property
    def name(self) -> str:
        """What is asked for: method and address, without secrets."""
        return f"{self.method} {shown(self.url)}"

    def may_repeat(self, err: TransientError) -> bool:
        """Whether sending the request once more cannot do harm.

        A commit asserts what it replaces and a creation refuses what exists, so a server that asks to come back later
        may be asked again. After silence nobody knows what happened, and only harmless requests are repeated.
        """
        return self.repeatable or self.never_sent or isinstance(err, RateLimitedError)


class _StopError(Exception):
    """Carries a passing failure past the retry policy, because repeating the request could do harm."""

    def __init__(self, error: TransientError) -> None:
        super().__init__()
        self.error = error


class DeadlineSession(requests.Session):
    """A session for one server, whose every call ends within its limits.

    Redirects are not followed, and no other server is ever asked: both would hand credentials over.
    """

    def __init__(
        self,
        config: PolarisCatalogConfig,
        *,
        url: str,
        breaker: CircuitBreaker,
        authenticator: Authenticator | None = None,
    ) -> None:
        """Speak to the server of ``url``, with the authenticator's credentials or none."""
        super().__init__()
        self.idempotency_keys = False
        self.repeatable_posts = False
        self.on_answer: Callable[[requests.Response], None] | None = None
        self._origin = origin_of(url)
        self._timeouts = config.timeouts
        self._policy = RetryPolicy(config.retry)
        first = min(config.retry.max_attempts, _FIRST_ATTEMPTS)
        self._first_policy = RetryPolicy(config.retry.model_copy(update={"max_attempts": first}))
        self._breaker = breaker
        self._authenticator = authenticator
        # Without an auth of its own, requests would look for a login in ~/.netrc.
        self.auth = AuthManagerAdapter(authenticator) if authenticator else lambda request: request
        self._ca_bundle = config.ca_bundle
        self.headers.update(config.realm_headers(url))
        for scheme in ("http://", "https://"):
            self.mount(scheme, HTTPAdapter(max_retries=0, pool_maxsize=_POOLED_CONNECTIONS))

    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]  # noqa: ANN401
        """Send a request, again where that is safe, and return the answer.

        Raises:
            CatalogUnavailableError: No answer after the last attempt.
            DeadlineExceededError: The time is up.
            CircuitOpenError: The server failed too often and is left alone for now.
            CatalogAuthenticationError: The server does not accept the credentials.
            CatalogAuthorizationError: The server knows the caller and refuses.
            CatalogConnectionError: The address belongs to another server, or the server redirects.
        """
        self._refuse_other_servers(url)
        method = method.upper()
        keyed = self.idempotency_keys and method not in _REPEATABLE
        if keyed:
            options["headers"] = {**(options.get("headers") or {}), IDEMPOTENCY_HEADER: _time_ordered_uuid()}
        repeatable = keyed or method in _REPEATABLE or (method == "POST" and self.repeatable_posts)
        call = Call(method, url, options, Deadline(self._timeouts.total_seconds), repeatable)
        if not is_tracing():
            return self._answered(call)
        with traced("polaris.request", within=True, method=method, uri=shown(url)) as operation:
            # A catalog that traces too goes on with this trace.
            options["headers"] = {**(options.get("headers") or {}), **request_headers()}
            response = self._answered(call)
            operation.set(status=response.status_code)
            return response

    def _answered(self, call: Call) -> requests.Response:
        try:
            if self._breaker.answered:
                # It may be restarting: a call that outlasts that is no failure, and one that does not is one failure.
                return self._breaker.call(self._persist, call)
            return self._first_policy.named(call.name, kind=call.method).call_within(
                call.deadline, self._attempt, call, self._guarded_exchange
            )
        except _StopError as stop:
            raise stop.error from stop.error.__cause__

    def _persist(self, call: Call) -> requests.Response:
        try:
            return self._policy.named(call.name, kind=call.method).call_within(
                call.deadline, self._attempt, call, self._exchange
            )
        except _StopError as stop:
            # The breaker judges the failure itself.
            raise stop.error from stop.error.__cause__

    def _guarded_exchange(self, call: Call) -> requests.Response:
        return self._breaker.call(self._exchange, call)

    def _refuse_other_servers(self, url: str) -> None:
        if origin_of(url) != self._origin:
            msg = f"Credentials for {self._origin} are not sent to {shown(url)}."
            raise CatalogConnectionError(msg, hint="Set catalog.uri, or catalog.credentials.token_endpoint, to it.")

    def _attempt(self, call: Call, exchange: Callable[[Call], requests.Response]) -> requests.Response:
        call.never_sent = False
        try:
            if self._authenticator is not None:
                # Token endpoint and catalog fail apart: each has its own retries and its own breaker.
                self._authenticator.auth_header()
        except TransientError as err:
            raise _StopError(err) from err
        try:
            return exchange(call)
        except TransientError as err:
            if call.may_repeat(err):
                raise
            raise _StopError(err) from err

    def _exchange(self, call: Call) -> requests.Response:
        response = self._send(call)
        if call.method == "HEAD" and response.status_code in _UNEXPLAINED and "/tables/" in call.url:
            # An answer without a body does not say whether the server is ill or one table is broken.
            response = self._send(replace(call, method="GET"))
        authenticator = self._authenticator
        if authenticator is None:
            # Whoever asks for a token judges the refusal itself.
            refused = response.status_code in {*_UNAUTHORIZED, 403}
            error = None if refused else answer_error(response, credentials="catalog.credentials")
        else:
            rejected = str(response.request.headers.get("Authorization", ""))
            if response.status_code in _UNAUTHORIZED and authenticator.renew(rejected, since=call.started):
                response = self._send(call)
            error = answer_error(response, credentials=authenticator.settings)
        if error is not None:
            raise error
        if self.on_answer is not None:
            self.on_answer(response)
        return response

    def _send(self, call: Call) -> requests.Response:
        call.deadline.check(f"waiting for {shown(call.url)}")
        left = call.deadline.remaining()
        options = {
            **call.options,
            "allow_redirects": False,
            "stream": True,
            "timeout": (min(self._timeouts.connect_seconds, left), min(self._timeouts.read_seconds, left)),
        }
        if self._ca_bundle:
            # Given with the request, it comes before the variable REQUESTS_CA_BUNDLE.
            options["verify"] = self._ca_bundle
        try:
            response = super().request(call.method, call.url, **options)
            _read_within(response, call.deadline)
        except FloeStorageError:
            raise
        except requests.RequestException as err:
            call.never_sent = was_never_sent(err)
            raise network_error(err, call.url, self._timeouts) from err
        return response


def _read_within(response: requests.Response, deadline: Deadline) -> None:
    """Read the whole answer; a server that sends it byte by byte does not outlast the deadline."""
    body = io.BytesIO()
    try:
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            body.write(chunk)
            deadline.check(f"reading the answer of {shown(response.url)}")
    except FloeStorageError:
        response.close()
        raise
    except OSError as err:
        response.close()
        raise requests.exceptions.ConnectionError(err) from err
    except Exception as err:
        # urllib3 has errors of its own that no library of ours should have to know.
        response.close()
        raise requests.exceptions.ChunkedEncodingError(err) from err
    # The connection goes back to its pool now: the response takes its content from what was read.
    response.raw.release_conn()
    body.seek(0)
    response.raw = body


def _time_ordered_uuid() -> str:
    """Return a UUID of version 7, which the REST specification asks for."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | (uuid.uuid4().int & ((1 << 80) - 1))
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    return str(uuid.UUID(int=(value & ~(0x3 << 62)) | (0x2 << 62)))
