"""Private API of PyIceberg's Hive catalog: its connection to the metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.hive import HiveCatalog, _HiveClient

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hive_metastore.ThriftHiveMetastore import Client
    from hive_metastore.ttypes import Table as HiveTable
    from thrift.transport import TTransport


class HiveConnectionHook(_HiveClient):
    """One metastore connection over a transport from the subclass; ``with`` opens it and returns the client.

    Why: PyIceberg's transport has no timeout, and its connection class is not public.
    """

    def make_transport(self) -> TTransport.TTransportBase:
        """Return an unopened transport; the default is PyIceberg's. The constructor also calls this."""
        return super()._init_thrift_transport()

    def _init_thrift_transport(self) -> TTransport.TTransportBase:
        return self.make_transport()


class HiveCatalogHook(HiveCatalog):
    """Base class for Hive catalogs that manage their own connections."""

    def use_connections(self, connections: AbstractContextManager[Client]) -> None:
        """Set the context manager that opens connections.

        Why: PyIceberg uses a single connection, which threads must not share.
        """
        self._client = connections  # type: ignore[assignment]

    def create_in_metastore(self, client: Client, table: HiveTable) -> None:
        """Create a table in the metastore; the default is PyIceberg's implementation.

        Why: PyIceberg reports a missing database as an invalid object.
        """
        super()._create_hive_table(client, table)

    def _create_hive_table(self, open_client: Client, hive_table: HiveTable) -> None:
        self.create_in_metastore(open_client, hive_table)
