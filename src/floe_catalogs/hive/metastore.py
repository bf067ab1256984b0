"""PyIceberg's Hive catalog with deadlines, one connection per call, and failover between metastores."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hive_metastore.ttypes import InvalidObjectException, InvalidOperationException
from pyiceberg.catalog import LOCATION, Catalog, MetastoreCatalog
from pyiceberg.catalog.hive import (
    HIVE_KERBEROS_AUTH,
    HIVE_KERBEROS_SERVICE_NAME,
    HIVE_KERBEROS_SERVICE_NAME_DEFAULT,
)
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.utils.properties import property_as_bool
from thrift.Thrift import TApplicationException, TException
from thrift.transport import TSocket, TTransport

from floe_catalogs.flat_namespaces import FlatNamespaces
from floe_catalogs.retried import RetriedReads
from floe_core.errors import CapabilityError, CatalogConnectionError, CatalogUnavailableError, DeadlineExceededError
from floe_iceberg.names import name_of
from floe_iceberg.pyiceberg_internals.hive import HiveCatalogHook, HiveConnectionHook

if TYPE_CHECKING:
    from types import TracebackType

    from hive_metastore.ThriftHiveMetastore import Client
    from hive_metastore.ttypes import Table as HiveTable
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

    from floe_core.errors import FloeStorageError
    from floe_core.schemas import TimeoutConfig

_DEFAULT_PORT = 9083
_COLUMNS_HINT = (
    "If a column type is rejected, set hive.metastore.disallow.incompatible.col.type.changes=false in the "
    "metastore's hive-site.xml: Iceberg reorders columns and changes their types."
)


class _BoundedClient(HiveConnectionHook):
    """One connection with deadlines."""

    def __init__(self, uri: str, timeouts: TimeoutConfig, properties: Properties) -> None:
        self._address = urlsplit(uri)
        self._timeouts = timeouts
        self._kerberos = property_as_bool(properties, HIVE_KERBEROS_AUTH, default=False)
        self._service = properties.get(HIVE_KERBEROS_SERVICE_NAME, HIVE_KERBEROS_SERVICE_NAME_DEFAULT)
        super().__init__(uri, properties.get("ugi"), self._kerberos, self._service)

    def make_transport(self) -> TTransport.TTransportBase:
        """Return a transport whose socket enforces the connect timeout."""
        address = self._address
        self._socket = TSocket.TSocket(address.hostname, address.port or _DEFAULT_PORT)
        self._socket.setTimeout(self._timeouts.connect_seconds * 1000)
        if self._kerberos:
            return TTransport.TSaslClientTransport(self._socket, host=address.hostname, service=self._service)
        return TTransport.TBufferedTransport(self._socket)

    def __enter__(self) -> Client:
        client = super().__enter__()
        self._socket.setTimeout(self._timeouts.read_seconds * 1000)
        return client


class HiveConnections:
    """Opens one connection per use, to the first metastore that accepts it; threads never share a connection."""

    def __init__(self, timeouts: TimeoutConfig, properties: Properties) -> None:
        """Store the settings; no connection is opened yet."""
        self._timeouts = timeouts
        self._properties = properties
        self._addresses = properties["uri"].split(",")
        self._open = threading.local()

    def __enter__(self) -> Client:
        """Open a connection.

        Raises:
            CatalogUnavailableError: No metastore accepts the connection.
        """
        last_error: TException | None = None
        for address in self._addresses:
            connection = _BoundedClient(address, self._timeouts, self._properties)
            try:
                client = connection.__enter__()
            except TTransport.TTransportException as err:
                last_error = err
                continue
            self._stack.append(connection)
            return client
        raise self._translation(last_error) from last_error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection and translate transport errors; the metastore's own errors propagate unchanged."""
        self._stack.pop().__exit__(kind, error, trace)
        if isinstance(error, TTransport.TTransportException | TApplicationException):
            raise self._translation(error) from error

    @property
    def _stack(self) -> list[_BoundedClient]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        stack: list[_BoundedClient] = self._open.stack
        return stack

    def _translation(self, error: TException | None) -> FloeStorageError:
        address = self._properties["uri"]
        if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
            msg = f"The Hive metastore {address} does not support a required call: {error}."
            return CatalogConnectionError(msg, hint="Use Hive 2.3 or 3, or put a REST catalog in front of it.")
        timed_out = TTransport.TTransportException.TIMED_OUT
        if isinstance(error, TTransport.TTransportException) and error.type == timed_out:
            msg = f"The Hive metastore {address} did not respond within {self._timeouts.read_seconds:g} s."
            return DeadlineExceededError(
                msg, hint="Raise catalog.timeouts.read_seconds, or check the load on the metastore."
            )
        msg = f"The Hive metastore {address} is not available."
        return CatalogUnavailableError(
            msg, hint="Check that it is running and that catalog.uri is correct, then try again."
        )


class SharedHiveCatalog(FlatNamespaces, HiveCatalogHook):
    """A Hive catalog with the same database locations as Iceberg's Hive catalog for Spark."""

    def __init__(self, name: str, timeouts: TimeoutConfig, **properties: str) -> None:
        """Store the settings; no connection is opened yet."""
        super().__init__(name, **properties)
        self.use_connections(HiveConnections(timeouts, self.properties))

    def __repr__(self) -> str:
        """Show the catalog's name and address, but not its properties, which contain secrets."""
        return f"{type(self).__name__}(name={self.name!r}, uri={self.properties['uri']!r})"

    def create_namespace(self, namespace: str | Identifier, properties: Properties | None = None) -> None:
        """Create a database, in the warehouse unless a location is given."""
        database = self.identifier_to_database(namespace)
        # Without a location, the metastore would choose a folder below its own default.
        placed = {LOCATION: f"{self.properties['warehouse']}/{database}.db", **(properties or {})}
        super().create_namespace(namespace, placed)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """List the Iceberg tables of a database.

        Raises:
            NoSuchNamespaceError: The database does not exist.
        """
        found = super().list_tables(namespace)
        if not found and not self.namespace_exists(namespace):
            msg = f"Database does not exist: {Catalog.namespace_to_string(namespace)}"
            raise NoSuchNamespaceError(msg)
        return found

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop a table and delete the files that its metadata references."""
        MetastoreCatalog.purge_table(self, identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table.

        Raises:
            CommitFailedException: Another writer committed first or holds the table's lock.
            CapabilityError: The metastore rejected the change.
        """
        try:
            return super().commit_table(table, requirements, updates)
        except InvalidOperationException as err:
            msg = f"The Hive metastore {self.properties['uri']} rejected the change: {err.message}"
            raise CapabilityError(msg, hint=_COLUMNS_HINT, table=name_of(table)) from err

    def create_in_metastore(self, client: Client, table: HiveTable) -> None:
        """Create a table in the metastore.

        Raises:
            NoSuchNamespaceError: The database does not exist.
        """
        try:
            super().create_in_metastore(client, table)
        except InvalidObjectException as err:
            if self.namespace_exists(table.dbName):
                raise
            msg = f"Database does not exist: {table.dbName}"
            raise NoSuchNamespaceError(msg) from err


class RetriedHiveCatalog(RetriedReads, SharedHiveCatalog):
    """The shared catalog with retried reads; changes are not retried."""
