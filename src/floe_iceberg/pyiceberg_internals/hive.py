"""PyIceberg's Hive catalog: its connection to the metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.hive import HiveCatalog, _HiveClient

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hive_metastore.ThriftHiveMetastore import Client
    from hive_metastore.ttypes import Table as HiveTable
    from thrift.transport import TTransport


class HiveConnectionHook(_HiveClient):
    """One connection to a metastore over a transport of the subclass's own; ``with`` opens it and gives the client.

    Why: PyIceberg's transport waits forever, and its class for a connection is not public.
    """

    def make_transport(self) -> TTransport.TTransportBase:
        """Return a transport that is not open yet; by default PyIceberg's. Called by the constructor, too."""
        return super()._init_thrift_transport()

    def _init_thrift_transport(self) -> TTransport.TTransportBase:
        return self.make_transport()


class HiveCatalogHook(HiveCatalog):
    """A Hive catalog with connections of the subclass's own."""

    def use_connections(self, connections: AbstractContextManager[Client]) -> None:
        """Take what ``with`` opens a connection on.

        Why: PyIceberg's own is one connection, which threads must not share.
        """
        self._client = connections  # type: ignore[assignment]

    def create_in_metastore(self, client: Client, table: HiveTable) -> None:
        """Create a table in the metastore; by default as PyIceberg does.

        Why: PyIceberg reports a missing database as an invalid object.
        """
        super()._create_hive_table(client, table)

    def _create_hive_table(self, open_client: Client, hive_table: HiveTable) -> None:
        self.create_in_metastore(open_client, hive_table)
