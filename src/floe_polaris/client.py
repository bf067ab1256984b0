"""The connected catalog: PyIceberg's REST catalog with deadlines, a shared token, and errors that suggest a fix."""

from __future__ import annotations

import json
import time
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import ValidationError
from pyiceberg import exceptions as pyiceberg_errors
from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.catalog.rest import Capability, Endpoints
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Namespace, TableIdentifier
from pyiceberg.table.update import AddSchemaUpdate

from floe_core.errors import (
    CapabilityError,
    CatalogConnectionError,
    CorruptFileError,
    TableNotFoundError,
    WarehouseNotFoundError,
)
from floe_core.observing.redaction import redact_text
from floe_core.retry import CircuitBreaker
from floe_core.schemas import AccessDelegation
from floe_core.telemetry import traced
from floe_iceberg.catalog.namespaces import NamespaceName, Namespaces, missing_parents, parse_namespace
from floe_iceberg.pyiceberg_internals.rest import RestCatalogHook
from floe_iceberg.read.integrity import unreadable
from floe_polaris.credentials.vending import VendedFileIO, are_credentials, credentials_in
from floe_polaris.errors import CatalogServerError, server_message, unreadable_metadata
from floe_polaris.spark import DELEGATION_HEADER
from floe_polaris.transport.auth import authenticator_for
from floe_polaris.transport.http import DeadlineSession
from floe_polaris.transport.origin import display_url, origin_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import requests
    from pyiceberg.catalog.rest import TableResponse
    from pyiceberg.catalog.rest.auth import AuthManager
    from pyiceberg.io import FileIO
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

    from floe_core.plugins import CatalogPlugin
    from floe_polaris.config import PolarisCatalogConfig

_SIGNER_URI = "s3.signer.uri"
_COMMIT_ERRORS = {
    400: pyiceberg_errors.BadRequestError,
    404: pyiceberg_errors.NoSuchTableError,
    409: pyiceberg_errors.CommitFailedException,
}
_NOT_FOUND = 404
# The path as Polaris advertises it.
_GENERIC_TABLES = "polaris/v1/{prefix}/namespaces/{namespace}/generic-tables"
_SMALL_OFFSET_SECONDS = 10
_KNOWN_OPERATIONS = frozenset({"read", "write", "list", "delete"})
_VENDED_OPERATIONS = frozenset({"read", "write"})


def breaker_for(config: PolarisCatalogConfig) -> CircuitBreaker:
    """Return a circuit breaker for the catalog; pass it to ``create_catalog`` to let several connections share it."""
    return CircuitBreaker(config.circuit_breaker, name=f"catalog at {display_url(config.uri)}")


def create_catalog(config: PolarisCatalogConfig, *, breaker: CircuitBreaker | None = None) -> PolarisCatalog:
    """Connect to a REST catalog.

    Args:
        config: Address, warehouse, credentials and limits.
        breaker: A breaker shared with other connections to the same catalog; a new one by default.

    Raises:
        CatalogAuthenticationError: The catalog rejected the credentials.
        WarehouseNotFoundError: The warehouse does not exist.
        CatalogTlsError: The server's certificate is not trusted.
        CatalogUnavailableError: The catalog is unreachable or unavailable.
        DeadlineExceededError: The catalog did not respond in time.
    """
    return PolarisCatalog(config, breaker=breaker)


class PolarisCatalog(RestCatalogHook):
    """A connected REST catalog; usable wherever PyIceberg accepts a catalog.

    Attributes:
        config: Address, warehouse, credentials and limits.
        clock_offset_ms: How far the server's clock is ahead of this machine's clock; negative if it is behind.
    """

    def __init__(self, config: PolarisCatalogConfig, *, breaker: CircuitBreaker | None = None) -> None:
        """Connect; see ``create_catalog``."""
        self.config = config
        self.clock_offset_ms = 0
        self._breaker = breaker or breaker_for(config)
        token_breaker = CircuitBreaker(
            config.circuit_breaker, name=f"token endpoint at {display_url(config.token_uri)}"
        )
        self._authenticator = authenticator_for(config, breaker=token_breaker)
        self._idempotency_keys = False
        properties = {**config.properties, "uri": config.uri}
        if config.warehouse:
            properties["warehouse"] = config.warehouse
        with traced("polaris.connect", catalog=config.name, uri=display_url(config.uri), warehouse=config.warehouse):
            super().__init__(config.name, **properties)

    def __repr__(self) -> str:
        """Show the catalog's name and address, but not its properties, which contain secrets."""
        return f"PolarisCatalog(name={self.name!r}, uri={display_url(self.config.uri)!r})"

    @property
    def catalog_plugin(self) -> CatalogPlugin:
        """The plugin with this catalog's capabilities and its Spark configuration."""
        from floe_polaris.plugin import RestCatalogPlugin

        return RestCatalogPlugin().adopt(self)

    @property
    def namespaces(self) -> Namespaces:
        """The catalog's namespaces, with idempotent creation and deletion of empty namespaces only."""
        return Namespaces(self)

    def create_namespace(self, namespace: NamespaceName, properties: Properties | None = None) -> None:
        """Create a namespace and its missing parents.

        Raises:
            NamespaceAlreadyExistsError: The namespace exists; ``namespaces.create`` treats that as success.
        """
        parts = parse_namespace(namespace)
        given = dict(properties or {})
        with traced("polaris.create_namespace", namespace=".".join(parts), properties=sorted(given)):
            for parent in missing_parents(self, parts):
                self._create_parent(parent)
            super().create_namespace(parts, given)

    def _create_parent(self, parts: tuple[str, ...]) -> None:
        try:
            super().create_namespace(parts)
        except pyiceberg_errors.NamespaceAlreadyExistsError:
            # Another writer created it between the check and the creation.
            return

    def delete_namespace(self, namespace: NamespaceName) -> None:
        """Delete an empty namespace.

        Raises:
            NamespaceNotEmptyError: The namespace is not empty; the message lists its contents.
        """
        self.namespaces.delete(namespace)

    def update_namespace_properties(
        self, namespace: NamespaceName, removals: set[str] | None = None, updates: Properties | None = None
    ) -> PropertiesUpdateSummary:
        """Set and remove properties of a namespace in two separate calls.

        Polaris applies the updates of a combined call but rejects its removals. Both calls are safe to repeat.
        """
        given = dict(updates or {})
        if not removals or not given:
            done: PropertiesUpdateSummary = super().update_namespace_properties(namespace, removals, given)
            return done
        updated = super().update_namespace_properties(namespace, None, given)
        removed = super().update_namespace_properties(namespace, removals, {})
        return PropertiesUpdateSummary(removed=removed.removed, updated=updated.updated, missing=removed.missing)

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Register a table from its metadata file, and load it, because the response does not contain credentials.

        Raises:
            TableAlreadyExistsError: A table of that name already exists.
        """
        registered: Table = super().register_table(identifier, metadata_location, overwrite)
        return registered if self.config.access_delegation is AccessDelegation.NONE else self.load_table(identifier)

    def list_tables(self, namespace: NamespaceName) -> list[Identifier]:
        """List the tables of a namespace.

        Raises:
            NoSuchNamespaceError: The namespace does not exist.
        """
        found: list[Identifier] = super().list_tables(namespace)
        if not found and not self.namespace_exists(namespace):
            # Nessie returns an empty list for a missing namespace.
            msg = f"Namespace does not exist: {namespace}"
            raise pyiceberg_errors.NoSuchNamespaceError(msg)
        return found

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table.

        Raises:
            NoSuchTableError: The table does not exist.
            CorruptFileError: The table is registered, but its metadata file is missing.
        """
        table = ".".join(self.identifier_to_tuple(identifier))
        try:
            found: Table = super().load_table(identifier)
        except CorruptFileError as err:
            raise CorruptFileError(err.message, path=err.path, hint=err.hint, table=table) from err
        except (pyiceberg_errors.NoSuchTableError, pyiceberg_errors.BadRequestError) as err:
            # Servers respond with 404 or 400, the same as for a table that never existed.
            if (path := unreadable_metadata(str(err))) is None:
                raise
            raise unreadable(path, table=table, err=FileNotFoundError(path)) from err
        return found

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Return whether a table is registered, even if its metadata cannot be read."""
        try:
            found: bool = super().table_exists(identifier)
        except CorruptFileError:
            return True
        except pyiceberg_errors.BadRequestError:
            # If the file is not valid metadata, the server only reports the first problem in it.
            name = self.identifier_to_tuple(identifier)
            return name in self.list_tables(name[:-1])
        return found

    def vend_credentials(self, table_path: str, operations: Sequence[str] = ("read", "write")) -> dict[str, str]:
        """Return short-lived storage credentials for one table.

        Args:
            table_path: Table, as ``namespace.table``.
            operations: The intended operations. The REST protocol cannot request fewer privileges than the principal
                has, so both ``read`` and ``write`` are required; ``write`` includes ``list`` and ``delete``.

        Raises:
            CapabilityError: The catalog does not vend credentials or cannot limit them, or delegation is disabled.
            TableNotFoundError: The table does not exist.
        """
        _require_operations({operation.lower() for operation in operations})
        if self.config.access_delegation is AccessDelegation.NONE:
            msg = "Access delegation is disabled, so the catalog does not vend storage credentials."
            raise CapabilityError(msg, hint="Set catalog.access_delegation to vended-credentials.")
        identifier = self.identifier_to_tuple(table_path)
        with traced("polaris.vend_credentials", table=table_path, operations=",".join(operations)):
            try:
                vended = self._vend(identifier)
            except pyiceberg_errors.NoSuchTableError as err:
                msg = f"Table '{table_path}' not found in catalog '{self.name}'."
                raise TableNotFoundError(msg, table=table_path) from err
        if not are_credentials(vended):
            msg = f"Catalog '{self.name}' does not vend storage credentials for '{table_path}'."
            hint = "Configure a storage role (STS) for the catalog, or set the credentials in the storage section."
            raise CapabilityError(msg, hint=hint, table=table_path)
        return vended

    def list_generic_tables(self, namespace: NamespaceName) -> list[str]:
        """List a namespace's Polaris generic tables (other formats); empty if the server does not support them.

        Raises:
            NoSuchNamespaceError: The namespace does not exist.
        """
        if not any(endpoint.path.strip("/") == _GENERIC_TABLES for endpoint in self.supported_endpoints):
            return []
        names: list[str] = []
        token: str | None = None
        while True:
            parameters = {"pageToken": token} if token else {}
            response = self.session.get(self._generic_tables(namespace), params=parameters)
            if response.status_code == _NOT_FOUND:
                raise pyiceberg_errors.NoSuchNamespaceError(server_message(response) or str(namespace))
            _require_ok(response)
            content = json.loads(response.text)
            names += [item["name"] for item in content.get("identifiers") or ()]
            token = content.get("next-page-token")
            if not token:
                return sorted(names)

    def drop_generic_table(self, namespace: NamespaceName, name: str) -> None:
        """Drop a generic table; a missing table is not an error."""
        response = self.session.delete(f"{self._generic_tables(namespace)}/{quote(name, safe='')}")
        if response.status_code != _NOT_FOUND:
            _require_ok(response)

    def _generic_tables(self, namespace: NamespaceName) -> str:
        # Not validated, because the server may have names that floe rejects.
        place = self.path_of_namespace(self.identifier_to_tuple(namespace))
        path = _GENERIC_TABLES.format(prefix=self.properties.get("prefix", ""), namespace=place)
        return f"{self.uri.rstrip('/')}/{path}"

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table.

        Raises:
            CommitFailedException: A requirement is no longer met; another writer committed first.
            NoSuchTableError: The table does not exist.
            CatalogConnectionError: The outcome is unknown; ``ReconcilingCatalog`` determines it.
        """
        self.require_endpoint(Capability.V1_UPDATE_TABLE)
        *namespace, name = table.name()
        identifier = TableIdentifier(namespace=Namespace(namespace), name=name)
        request = CommitTableRequest(identifier=identifier, requirements=requirements, updates=updates)
        url = self.url(Endpoints.update_table, prefixed=True, **self.path_of_table(identifier))
        response = self.session.post(url, data=_commit_body(request, table.metadata.last_column_id))
        if not response.ok:
            message = server_message(response) or f"status {response.status_code}"
            raise _COMMIT_ERRORS.get(response.status_code, pyiceberg_errors.RESTError)(message)
        return CommitTableResponse.model_validate_json(response.text)

    def _vend(self, identifier: Identifier) -> dict[str, str]:
        """Request credentials from the credentials endpoint if the server has one, otherwise by loading the table."""
        if Capability.V1_LOAD_CREDENTIALS in self.supported_endpoints:
            location = self.load_table(identifier).metadata_location
            return credentials_in(self.load_credentials(identifier, location))
        # Properties that differ from ours were vended by the server with the table.
        properties = self.load_table(identifier).io.properties
        return credentials_in({key: value for key, value in properties.items() if self.properties.get(key) != value})

    def open_session(self) -> tuple[requests.Session, AuthManager | None]:
        """Return a session with deadlines, retries and the shared token."""
        session = DeadlineSession(
            self.config, url=self.config.uri, breaker=self._breaker, authenticator=self._authenticator
        )
        session.idempotency_keys = self._idempotency_keys
        session.on_response = self._on_response
        return session, self._authenticator

    def set_headers(self, session: requests.Session) -> None:
        """Set the header that tells the server whether to vend credentials."""
        if self.config.access_delegation is AccessDelegation.NONE:
            session.headers.pop(DELEGATION_HEADER, None)
        else:
            session.headers[DELEGATION_HEADER] = self.config.access_delegation.value

    def _on_response(self, response: requests.Response) -> None:
        self._record_clock_offset(response)
        self._detect_idempotency_keys(response)

    def _record_clock_offset(self, response: requests.Response) -> None:
        """Derive the server's clock offset from the response's date."""
        try:
            responded_at = parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
        except (TypeError, ValueError):
            return
        offset = responded_at - time.time()
        # The date has whole seconds and includes network latency; only offsets of about a minute matter to a table.
        self.clock_offset_ms = int(offset * 1000) if abs(offset) > _SMALL_OFFSET_SECONDS else 0

    def _detect_idempotency_keys(self, response: requests.Response) -> None:
        """Detect from the server's configuration whether it supports idempotency keys."""
        if self._idempotency_keys or not response.ok or not response.url.partition("?")[0].endswith("/v1/config"):
            return
        try:
            content = json.loads(response.text)
        except ValueError:
            return
        self._idempotency_keys = isinstance(content, dict) and bool(content.get("idempotency-key-lifetime"))

    def fetch_config(self) -> None:
        """Read the server's configuration.

        Raises:
            CatalogConnectionError: The server is not an Iceberg REST catalog, or redirects to another server.
            WarehouseNotFoundError: The server does not have this warehouse.
        """
        place = display_url(self.config.uri)
        try:
            super().fetch_config()
        except ValidationError as err:
            msg = f"{place} did not respond like an Iceberg REST catalog."
            raise CatalogConnectionError(msg, hint="Check catalog.uri; for Polaris it ends in /api/catalog.") from err
        except (pyiceberg_errors.RESTError, CatalogServerError) as err:
            message = redact_text(str(err))
            if not _mentions_warehouse(message, self.config.warehouse):
                msg = f"{place} did not respond like an Iceberg REST catalog: {message}"
                raise CatalogConnectionError(
                    msg, hint="Check catalog.uri; for Polaris it ends in /api/catalog."
                ) from err
            msg = f"Warehouse '{self.config.warehouse}' not found in the catalog at {place}."
            raise WarehouseNotFoundError(msg, hint="Correct catalog.warehouse, or create it in the catalog.") from err
        if origin_of(self.uri) != self.config.origin:
            msg = (
                f"The catalog at {place} redirects to {display_url(self.uri)}, to which floe does not send credentials."
            )
            raise CatalogConnectionError(msg, hint="If you trust that address, set catalog.uri to it.")

    def open_file_io(self, properties: Properties, location: str | None) -> FileIO:
        """Return a FileIO.

        Raises:
            CatalogConnectionError: The signing server is not the catalog's server, so it must not receive the token.
        """
        signer = str(properties.get(_SIGNER_URI) or self.properties.get(_SIGNER_URI) or self.config.uri)
        if origin_of(signer) != self.config.origin:
            msg = (
                f"The catalog requires requests signed by {display_url(signer)}, to which floe does not send the token."
            )
            raise CatalogConnectionError(msg, hint="Use a signer on the catalog's own server.")
        return super().open_file_io(properties, location)

    def table_of(self, identifier: Identifier, response: TableResponse) -> Table:
        """Return the table in a response; the table's properties do not configure the client."""
        table = super().table_of(identifier, _without_properties(response))
        table.metadata = response.metadata
        table.io = self._with_renewal(table.io, identifier, response)
        return table

    def staged_table_of(self, identifier: Identifier, response: TableResponse) -> StagedTable:
        """Return the staged table in a response; the table's properties do not configure the client."""
        table = super().staged_table_of(identifier, _without_properties(response))
        table.metadata = response.metadata
        table.io = self._with_renewal(table.io, identifier, response)
        return table

    def _with_renewal(self, io: FileIO, identifier: Identifier, response: TableResponse) -> FileIO:
        """Return a FileIO that renews vended credentials, if PyArrow uses any; otherwise return it unchanged."""
        vended = [response.config, *(credential.config for credential in response.storage_credentials)]
        if type(io) is not PyArrowFileIO or not any(are_credentials(properties) for properties in vended):
            return io
        return VendedFileIO(io.properties, partial(self._vend, identifier))


def _require_operations(wanted: set[str]) -> None:
    """Reject a narrower set of operations: vended credentials always include all of the principal's privileges."""
    if unknown := sorted(wanted - _KNOWN_OPERATIONS):
        msg = f"Unknown operations for storage credentials: {', '.join(unknown)}."
        raise CapabilityError(msg, hint=f"Known operations: {', '.join(sorted(_KNOWN_OPERATIONS))}.")
    if beyond := sorted(_VENDED_OPERATIONS - wanted):
        only = ", ".join(sorted(wanted)) or "nothing"
        msg = f"The catalog cannot limit storage credentials to {only}; they may also allow {' and '.join(beyond)}."
        hint = "Request read and write, and connect as a principal with only the privileges it needs."
        raise CapabilityError(msg, hint=hint)


def _without_properties(response: TableResponse) -> TableResponse:
    """Return a response without table properties; the server's own client settings are in its ``config``.

    PyIceberg lets a table's properties override the catalog's, and an untrusted party may have written them.
    """
    metadata = response.metadata.model_copy(update={"properties": {}})
    return response.model_copy(update={"metadata": metadata})


def _require_ok(response: requests.Response) -> None:
    if not response.ok:
        message = server_message(response) or f"status {response.status_code}"
        raise pyiceberg_errors.RESTError(message)


def _commit_body(request: CommitTableRequest, last_column_id: int) -> bytes:
    """Return a commit as JSON, with a field that PyIceberg omits but servers such as Nessie 0.99 require."""
    content = json.loads(request.model_dump_json())
    for update in content["updates"]:
        if update["action"] == "add-schema":
            known = AddSchemaUpdate.model_validate(update).schema_.highest_field_id
            update.setdefault("last-column-id", max(last_column_id, known))
    return json.dumps(content).encode()


def _mentions_warehouse(message: str, warehouse: str | None) -> bool:
    return warehouse is not None and (warehouse in message or "warehouse" in message.lower())
