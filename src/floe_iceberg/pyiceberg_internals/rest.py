"""Private API of PyIceberg's REST catalog: its HTTP session, and the tables in server responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.rest import RestCatalog

from floe_iceberg.pyiceberg_internals.catalogs import FileIOHook

if TYPE_CHECKING:
    import requests
    from pyiceberg.catalog.rest import Endpoint, TableResponse
    from pyiceberg.catalog.rest.auth import AuthManager
    from pyiceberg.table import StagedTable, Table, TableIdentifier
    from pyiceberg.typedef import Identifier


class RestCatalogHook(FileIOHook, RestCatalog):
    """Base class for REST catalogs with their own HTTP session and response handling.

    Why: PyIceberg's session has no configurable timeouts, retries or token renewal, and its errors do not say what to
    correct. ``RestCatalog.__init__`` calls ``open_session`` and ``fetch_config``.
    """

    def open_session(self) -> tuple[requests.Session, AuthManager | None]:
        """Return the HTTP session, without PyIceberg's headers, and the authentication of its requests."""
        raise NotImplementedError

    def set_headers(self, session: requests.Session) -> None:
        """Change the headers of a session after PyIceberg has set its headers."""

    def fetch_config(self) -> None:
        """Read the server's configuration; the default is PyIceberg's implementation."""
        super()._fetch_config()

    def table_of(self, identifier: Identifier, response: TableResponse) -> Table:
        """Return the table from a server response; the default is PyIceberg's implementation."""
        return super()._response_to_table(identifier, response)

    def staged_table_of(self, identifier: Identifier, response: TableResponse) -> StagedTable:
        """Return the staged table from a server response; the default is PyIceberg's implementation."""
        return super()._response_to_staged_table(identifier, response)

    @property
    def session(self) -> requests.Session:
        """The HTTP session, for requests that PyIceberg does not support."""
        return self._session

    @property
    def supported_endpoints(self) -> set[Endpoint]:
        """The endpoints that the server advertises."""
        return self._supported_endpoints

    def require_endpoint(self, endpoint: Endpoint) -> None:
        """Require that the server supports an endpoint.

        Raises:
            NotImplementedError: The server does not advertise the endpoint.
        """
        self._check_endpoint(endpoint)

    def path_of_namespace(self, namespace: Identifier) -> str:
        """Return the namespace part of a request path, with the separator that the server requires."""
        return self._encode_namespace_path(namespace)

    def path_of_table(self, identifier: TableIdentifier) -> dict[str, str]:
        """Return the namespace and table name parts of a request path."""
        return dict(self._split_identifier_for_path(identifier))

    def _create_session(self) -> requests.Session:
        session, authenticator = self.open_session()
        self._config_headers(session)
        self.set_headers(session)
        self._auth_manager = authenticator
        return session

    def _fetch_config(self) -> None:
        self.fetch_config()

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        return self.table_of(identifier_tuple, table_response)

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        return self.staged_table_of(identifier_tuple, table_response)
