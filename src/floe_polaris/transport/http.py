"""HTTP with deadlines: every call has a time limit, is retried if that is safe, and only contacts one server."""

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
from floe_polaris.errors import network_error, response_error, was_never_sent
from floe_polaris.transport.origin import display_url, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_polaris.config import PolarisCatalogConfig

IDEMPOTENCY_HEADER = "Idempotency-Key"
_REPEATABLE = frozenset({"GET", "HEAD", "OPTIONS", "PUT"})
_CHUNK_BYTES = 64 * 1024
_UNAUTHORIZED = frozenset({401, 419})
_AMBIGUOUS_STATUSES = frozenset({400, 500, 503})
_POOLED_CONNECTIONS = 32
# A server that has never answered is more likely a wrong address than a restarting server, so floe gives up earlier.
_FIRST_ATTEMPTS = 3


class Authenticator(AuthManager):
    """An AuthManager that can replace a rejected token."""

    # The settings of the credentials, for messages.
    settings: str = "catalog.credentials"

    def renew(self, rejected: str, *, since: float) -> bool:
        """Get another token after the server rejected one.

        Args:
            rejected: The header that was rejected.
            since: When the call started (``time.monotonic``); a token fetched after that is fresh and is not replaced.

        Returns:
            Whether there is another token to try.
        """
        del rejected, since
        return False


@dataclass
class Call:
    """One logical call and the state shared by its attempts."""

    method: str
    url: str
    options: dict[str, Any]
    deadline: Deadline
    repeatable: bool
    started: float = field(default_factory=time.monotonic)
    never_sent: bool = False

    @property
    def name(self) -> str:
        """Method and address, without secrets."""
        return f"{self.method} {display_url(self.url)}"

    def may_repeat(self, err: TransientError) -> bool:
        """Whether it is safe to send the request again.

        A rate-limited request may be repeated, because a commit asserts what it replaces, and a creation fails if the
        object exists. Without a response the outcome is unknown, so only repeatable requests are sent again.
        """
        return self.repeatable or self.never_sent or isinstance(err, RateLimitedError)


class _StopError(Exception):
    """Carries a transient error past the retry policy if repeating the request is not safe."""

    def __init__(self, error: TransientError) -> None:
        super().__init__()
        self.error = error


class DeadlineSession(requests.Session):
    """A session for one server that limits the duration of every call.

    It follows no redirects and sends no requests to other servers, because both would expose credentials.
    """

    def __init__(
        self,
        config: PolarisCatalogConfig,
        *,
        url: str,
        breaker: CircuitBreaker,
        authenticator: Authenticator | None = None,
    ) -> None:
        """Connect to the server of ``url``, with the authenticator's credentials if there is one."""
        super().__init__()
        self.idempotency_keys = False
        self.repeatable_posts = False
        self.on_response: Callable[[requests.Response], None] | None = None
        self._origin = origin_of(url)
        self._timeouts = config.timeouts
        self._policy = RetryPolicy(config.retry)
        first = min(config.retry.max_attempts, _FIRST_ATTEMPTS)
        self._first_policy = RetryPolicy(config.retry.model_copy(update={"max_attempts": first}))
        self._breaker = breaker
        self._authenticator = authenticator
        # Without an auth object, requests would use credentials from ~/.netrc.
        self.auth = AuthManagerAdapter(authenticator) if authenticator else lambda request: request
        self._ca_bundle = config.ca_bundle
        self.headers.update(config.realm_headers(url))
        for scheme in ("http://", "https://"):
            self.mount(scheme, HTTPAdapter(max_retries=0, pool_maxsize=_POOLED_CONNECTIONS))

    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]  # noqa: ANN401
        """Send a request, with retries if that is safe, and return the response.

        Raises:
            CatalogUnavailableError: No response after the last attempt.
            DeadlineExceededError: The deadline has passed.
            CircuitOpenError: The server failed too often; the circuit breaker blocks calls for now.
            CatalogAuthenticationError: The server rejected the credentials.
            CatalogAuthorizationError: The principal lacks the privilege.
            CatalogConnectionError: The address belongs to another server, or the server redirects.
        """
        self._require_same_server(url)
        method = method.upper()
        keyed = self.idempotency_keys and method not in _REPEATABLE
        if keyed:
            options["headers"] = {**(options.get("headers") or {}), IDEMPOTENCY_HEADER: _time_ordered_uuid()}
        repeatable = keyed or method in _REPEATABLE or (method == "POST" and self.repeatable_posts)
        call = Call(method, url, options, Deadline(self._timeouts.total_seconds), repeatable)
        if not is_tracing():
            return self._send_with_retries(call)
        with traced("polaris.request", within=True, method=method, uri=display_url(url)) as operation:
            # Lets a catalog with tracing continue this trace.
            options["headers"] = {**(options.get("headers") or {}), **request_headers()}
            response = self._send_with_retries(call)
            operation.set(status=response.status_code)
            return response

    def _send_with_retries(self, call: Call) -> requests.Response:
        try:
            if self._breaker.answered:
                # It may be restarting. The breaker counts a call with all its retries as one success or one failure.
                return self._breaker.call(self._call_with_retries, call)
            return self._first_policy.named(call.name, kind=call.method).call_within(
                call.deadline, self._attempt, call, self._guarded_exchange
            )
        except _StopError as stop:
            raise stop.error from stop.error.__cause__

    def _call_with_retries(self, call: Call) -> requests.Response:
        try:
            return self._policy.named(call.name, kind=call.method).call_within(
                call.deadline, self._attempt, call, self._exchange
            )
        except _StopError as stop:
            # The breaker must see the failure itself.
            raise stop.error from stop.error.__cause__

    def _guarded_exchange(self, call: Call) -> requests.Response:
        return self._breaker.call(self._exchange, call)

    def _require_same_server(self, url: str) -> None:
        if origin_of(url) != self._origin:
            msg = f"floe does not send the credentials for {self._origin} to {display_url(url)}."
            raise CatalogConnectionError(
                msg, hint="Set catalog.uri or catalog.credentials.token_endpoint to that address."
            )

    def _attempt(self, call: Call, exchange: Callable[[Call], requests.Response]) -> requests.Response:
        call.never_sent = False
        try:
            if self._authenticator is not None:
                # The token endpoint and the catalog fail independently: each has its own retries and breaker.
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
        if call.method == "HEAD" and response.status_code in _AMBIGUOUS_STATUSES and "/tables/" in call.url:
            # A response without a body does not show whether the server failed or one table is damaged.
            response = self._send(replace(call, method="GET"))
        authenticator = self._authenticator
        if authenticator is None:
            # The caller requests a token and handles the rejection itself.
            rejected_login = response.status_code in {*_UNAUTHORIZED, 403}
            error = None if rejected_login else response_error(response, credentials="catalog.credentials")
        else:
            rejected = str(response.request.headers.get("Authorization", ""))
            if response.status_code in _UNAUTHORIZED and authenticator.renew(rejected, since=call.started):
                response = self._send(call)
            error = response_error(response, credentials=authenticator.settings)
        if error is not None:
            raise error
        if self.on_response is not None:
            self.on_response(response)
        return response

    def _send(self, call: Call) -> requests.Response:
        call.deadline.check(f"waiting for {display_url(call.url)}")
        remaining = call.deadline.remaining()
        options = {
            **call.options,
            "allow_redirects": False,
            "stream": True,
            "timeout": (min(self._timeouts.connect_seconds, remaining), min(self._timeouts.read_seconds, remaining)),
        }
        if self._ca_bundle:
            # Passed with the request, it takes precedence over the variable REQUESTS_CA_BUNDLE.
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
    """Read the whole response; the deadline also applies to a server that sends it byte by byte."""
    body = io.BytesIO()
    try:
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            body.write(chunk)
            deadline.check(f"reading the response of {display_url(response.url)}")
    except FloeStorageError:
        response.close()
        raise
    except OSError as err:
        response.close()
        raise requests.exceptions.ConnectionError(err) from err
    except Exception as err:
        # Translates urllib3's own errors, which callers should not need to know.
        response.close()
        raise requests.exceptions.ChunkedEncodingError(err) from err
    # The connection can return to its pool now: the response's content comes from the buffer.
    response.raw.release_conn()
    body.seek(0)
    response.raw = body


def _time_ordered_uuid() -> str:
    """Return a version 7 UUID, as the REST specification requires."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | (uuid.uuid4().int & ((1 << 80) - 1))
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    return str(uuid.UUID(int=(value & ~(0x3 << 62)) | (0x2 << 62)))
