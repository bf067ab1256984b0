"""A Glue client with deadlines and floe's errors, and PyIceberg's Glue catalog on top of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
from botocore import exceptions as aws
from botocore.config import Config
from pyiceberg.catalog.glue import GlueCatalog

from floe_catalogs.flat_namespaces import FlatNamespaces
from floe_core.errors import (
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    CatalogTlsError,
    CatalogUnavailableError,
    ConfigProblem,
    ConfigurationError,
    DeadlineExceededError,
    FloeStorageError,
    RateLimitedError,
)
from floe_core.observing.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from floe_core.schemas import CatalogConfig

_CREDENTIALS_HINT = (
    "Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run with a role; see docs/catalogs.md."
)
_INVALID_CREDENTIALS = {
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}
_THROTTLED = {"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"}
_SERVER_ERROR = 500


class SharedGlueCatalog(FlatNamespaces, GlueCatalog):
    """A Glue catalog that rejects nested namespaces with one of floe's errors."""

    def __repr__(self) -> str:
        """Show the catalog's name, but not its properties, which contain secrets."""
        return f"{type(self).__name__}(name={self.name!r})"


class TranslatingGlueClient:
    """Delegates calls to boto3's Glue client and translates outages and rejected requests into floe's errors.

    Errors that PyIceberg handles itself, such as a missing table, are raised unchanged.
    """

    def __init__(self, client: Any, config: CatalogConfig) -> None:  # noqa: ANN401 - boto3 creates the classes of its clients at run time
        """Wrap a client."""
        self._client = client
        self._config = config

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the client
        """Return an attribute of the client; the errors of a method are translated."""
        member = getattr(self._client, name)
        if name in {"exceptions", "meta"}:
            return member

        def call(**arguments: Any) -> Any:  # noqa: ANN401 - passed through unchanged
            try:
                return member(**arguments)
            except (aws.BotoCoreError, aws.ClientError) as err:
                translation = _translation(err, self._config)
                if translation is None:
                    raise
                raise translation from err

        return call


def glue_client(config: CatalogConfig, properties: Mapping[str, str]) -> TranslatingGlueClient:
    """Return a Glue client with the catalog section's deadlines and retries.

    Raises:
        ConfigurationError: No region is configured, either in the catalog options or for the AWS SDK.
    """
    # Pass the configured keys as a set: boto3 would otherwise fill in a missing one from the environment.
    session = boto3.Session(
        profile_name=_first(properties, "glue.profile-name", "client.profile-name"),
        region_name=_first(properties, "glue.region", "client.region"),
        aws_access_key_id=_first(properties, "glue.access-key-id", "client.access-key-id"),
        aws_secret_access_key=_first(properties, "glue.secret-access-key", "client.secret-access-key"),
        aws_session_token=_first(properties, "glue.session-token", "client.session-token"),
    )
    settings = Config(
        connect_timeout=config.timeouts.connect_seconds,
        read_timeout=config.timeouts.read_seconds,
        retries={"total_max_attempts": config.retry.max_attempts, "mode": "standard"},
    )
    try:
        client = session.client("glue", endpoint_url=properties.get("glue.endpoint"), config=settings)
    except aws.NoRegionError as err:
        problem = ConfigProblem(
            "the glue catalog needs a region", path="catalog.options", fix="Set client.region, such as eu-west-1."
        )
        msg = "No region is configured for the Glue catalog."
        raise ConfigurationError(msg, problems=[problem]) from err
    if catalog_id := properties.get("glue.id"):
        client.meta.events.register("provide-client-params.glue", partial(_add_catalog_id, catalog_id))
    return TranslatingGlueClient(client, config)


def _add_catalog_id(catalog_id: str, params: dict[str, Any], **_: object) -> None:
    """Add the catalog id to a call; Glue defaults to the caller's account."""
    params.setdefault("CatalogId", catalog_id)


def _first(properties: Mapping[str, str], *names: str) -> str | None:
    return next((properties[name] for name in names if properties.get(name)), None)


def _translation(err: Exception, config: CatalogConfig) -> FloeStorageError | None:
    place = f"The Glue catalog{f' {config.uri}' if config.uri else ''}"
    match err:
        case aws.ClientError():
            return _rejection(err, place)
        case aws.NoCredentialsError() | aws.PartialCredentialsError() | aws.CredentialRetrievalError():
            msg = f"No AWS credentials found for {place[0].lower()}{place[1:]}."
            return CatalogAuthenticationError(msg, hint=_CREDENTIALS_HINT)
        case aws.SSLError():
            msg = f"The certificate of {place[0].lower()}{place[1:]} is not trusted."
            return CatalogTlsError(msg, hint="Set AWS_CA_BUNDLE to the file of the certificate authority.")
        case aws.ReadTimeoutError():
            msg = f"{place} did not respond within {config.timeouts.read_seconds:g} s."
            return DeadlineExceededError(msg, hint="Raise catalog.timeouts.read_seconds, or try again later.")
        case aws.HTTPClientError() | aws.EndpointConnectionError():
            msg = f"{place} is not available."
            return CatalogUnavailableError(msg, hint="Check catalog.uri, the region and the network, then try again.")
        case _:
            return None


def _rejection(err: aws.ClientError, place: str) -> FloeStorageError | None:
    code = err.response.get("Error", {}).get("Code", "")
    status = err.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _INVALID_CREDENTIALS:
        return CatalogAuthenticationError(f"{place} rejected the AWS credentials.", hint=_CREDENTIALS_HINT)
    if code in {"AccessDenied", "AccessDeniedException"}:
        msg = f"{place} denied access to {err.operation_name}."
        return CatalogAuthorizationError(msg, hint=f"Grant glue:{err.operation_name} to this identity.")
    if code in _THROTTLED:
        return RateLimitedError(f"{place} is throttling requests.", hint="Try again later.")
    if status >= _SERVER_ERROR:
        msg = f"{place} failed: {redact_text(str(err))}"
        return CatalogUnavailableError(msg, hint="Try again later.")
    if code == "InvalidInputException":
        msg = f"{place} rejected the request: {redact_text(str(err))}"
        return CatalogConnectionError(msg, hint="Use only lowercase letters, digits and underscores in names.")
    return None
