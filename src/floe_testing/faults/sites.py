"""Test sites: tables on the embedded catalog in a folder, or on a REST catalog with an object store.

A test is written once for all sites. A site opens connections, accesses table files, and makes commits lose races.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.parse
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, S3FileSystem

from floe_core.schemas import AccessDelegation, TimeoutConfig
from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.embedded_tables import context_on, open_catalog
from floe_testing.faults.gateway import Exchange, FaultGateway, Reply, Rule
from floe_testing.faults.races import losing_races, losing_races_over_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from floe_iceberg.catalog.reconciling import ReconcilingCatalog
    from floe_iceberg.context import ManagerContext
    from floe_spark.plane.plane import SparkDataPlane
    from floe_spark.session.settings import SparkSettings

_SECRET = "FLOE_SITE_SECRET"  # noqa: S105 - name of an environment variable
_SCHEME = re.compile(r"^[a-z0-9]+://")
_LISTED = re.compile(rb"<Key>(?P<key>[^<]*)</Key><LastModified>(?P<moment>[^<]*)</LastModified>")


class Address(ABC):
    """Everything that a process needs to use a site; can be pickled and passed as a command-line argument."""

    namespace: str
    catalog_name = "test"

    @property
    @abstractmethod
    def warehouse(self) -> str:
        """Location of the tables."""

    @abstractmethod
    def open_catalog(self) -> Catalog:
        """Connect to the catalog like a separate process does."""

    @abstractmethod
    def spark_conf(self, catalog: Any) -> dict[str, str]:
        """Return the Spark configuration for a connected catalog."""

    @abstractmethod
    def open_files(self) -> FileSystem:
        """Open the file system of the tables."""

    @abstractmethod
    def project(self) -> dict[str, Any]:
        """Return the sections of a project that uses this site; a referenced secret is set in the environment."""

    def name(self, table: str) -> str:
        """Return the full name of a table in this site's namespace."""
        return f"{self.namespace}.{table}"

    def spark_name(self, table: str) -> str:
        """Return the full name of a table in Spark SQL."""
        return f"{self.catalog_name}.{self.name(table)}"

    def folder(self, table: str) -> str:
        """Return a location for a table in this site's namespace."""
        return f"{self.warehouse}/{self.namespace}/{table}"

    def text(self) -> str:
        """Serialize the address; ``address_of`` parses it."""
        return json.dumps({"kind": type(self).__name__, **asdict(cast("Any", self))})


@dataclass(frozen=True)
class EmbeddedAddress(Address):
    """The embedded catalog in a folder."""

    root: str
    namespace: str = "bronze"

    @property
    def warehouse(self) -> str:
        """A folder next to the catalog."""
        return f"file://{self.root}/warehouse"

    def open_catalog(self) -> Catalog:
        """Open the catalog like a project does."""
        return open_catalog(Path(self.root))

    def spark_conf(self, catalog: Any) -> dict[str, str]:
        """Return the configuration for the same database."""
        from floe_testing.spark import embedded_conf

        return embedded_conf(catalog)

    def open_files(self) -> FileSystem:
        """Open the local file system."""
        return LocalFileSystem()

    def project(self) -> dict[str, Any]:
        """Return sections with the database file and the folder."""
        uri, warehouse = f"{self.root}/catalog.db", self.warehouse
        return {"catalog": {"name": self.catalog_name, "type": "sql", "uri": uri, "warehouse": warehouse}}


@dataclass(frozen=True)
class RestAddress(Address):
    """A REST catalog, and the properties of its object store."""

    uri: str
    root: str
    namespace: str
    properties: dict[str, str]

    @property
    def warehouse(self) -> str:
        """The server's warehouse location."""
        return self.root

    def open_catalog(self) -> Catalog:
        """Connect to the catalog, and create the namespace if it does not exist."""
        config = PolarisCatalogConfig(
            name=self.catalog_name,
            uri=self.uri,
            warehouse="lake",
            access_delegation=AccessDelegation.NONE,
            properties=self.properties,
            # A rival that runs during a commit may have to start an engine first.
            timeouts=TimeoutConfig(read_seconds=200.0, total_seconds=400.0),
        )
        catalog = create_catalog(config)
        catalog.namespaces.create(self.namespace)
        return catalog

    def spark_conf(self, catalog: Any) -> dict[str, str]:
        """Return the configuration for the same server and store."""
        return dict(catalog.catalog_plugin.get_spark_conf(self.catalog_name, {}))

    def open_files(self) -> FileSystem:
        """Connect to the object store."""
        return S3FileSystem(
            endpoint_override=self.properties["s3.endpoint"],
            region=self.properties["s3.region"],
            access_key=self.properties["s3.access-key-id"],
            secret_key=self.properties["s3.secret-access-key"],
        )

    def project(self) -> dict[str, Any]:
        """Return sections with the server and the bucket."""
        os.environ[_SECRET] = self.properties["s3.secret-access-key"]
        bucket, _, prefix = _path(self.warehouse).partition("/")
        keys = {"access_key_id": self.properties["s3.access-key-id"], "secret_access_key": f"${{{_SECRET}}}"}
        storage = {"type": "s3", "bucket": bucket, "prefix": prefix, "credentials": keys}
        return {
            "catalog": {
                "name": self.catalog_name,
                "type": "rest",
                "uri": self.uri,
                "warehouse": "lake",
                "access_delegation": "none",
            },
            "storage": {**storage, "endpoint": self.properties["s3.endpoint"], "region": self.properties["s3.region"]},
        }


def address_of(text: str) -> Address:
    """Parse an address serialized by another process."""
    fields = json.loads(text)
    kind: Callable[..., Address] = {"EmbeddedAddress": EmbeddedAddress, "RestAddress": RestAddress}[fields.pop("kind")]
    return kind(**fields)


class Site(ABC):
    """Access to a site for one test; must be closed."""

    def __init__(self, address: Address) -> None:
        """Use an address."""
        self.address = address
        self._files = address.open_files()
        self._opened = ExitStack()

    def close(self) -> None:
        """Close all connections."""
        self._opened.close()

    def name(self, table: str) -> str:
        """Return the full name of a table in the test's namespace."""
        return self.address.name(table)

    def spark_name(self, table: str) -> str:
        """Return the full name of a table in Spark SQL."""
        return self.address.spark_name(table)

    def folder(self, table: str) -> str:
        """Return a location for a table in the test's namespace."""
        return self.address.folder(table)

    def open_catalog(self) -> Catalog:
        """Open a new connection, like another process would."""
        catalog = self.address.open_catalog()
        self._opened.callback(catalog.close)
        return catalog

    def open_manager(self, *, compute: Any = None, **settings: Any) -> IcebergTableManager:
        """Open a manager with a separate connection."""
        config = IcebergTableManagerConfig(**settings)
        return IcebergTableManager(self.open_catalog(), compute=compute, config=config)

    def open_plane(self, settings: SparkSettings) -> SparkDataPlane:
        """Open a Spark data plane on the site's tables."""
        from floe_spark.plane.plane import SparkDataPlane

        conf = self.address.spark_conf(self.open_catalog())
        plane = SparkDataPlane(settings, catalog_name=self.address.catalog_name, conf=conf)
        self._opened.callback(plane.close)
        return plane

    def open_context(self, **settings: Any) -> ManagerContext:
        """Open a manager context with a separate connection."""
        return context_on(self.open_catalog(), config=IcebergTableManagerConfig(**settings))

    def files_of(self, table: Table, suffix: str = "") -> list[str]:
        """List the locations of the files in a table's folder."""
        return self.files_below(table.location(), suffix)

    def files_below(self, location: str, suffix: str = "") -> list[str]:
        """List the locations of the files below a location."""
        folder = location.rstrip("/")
        path = _path(folder)
        found = self._files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        return sorted(
            folder + info.path[len(path) :]
            for info in found
            if info.type == FileType.File and info.path.endswith(suffix)
        )

    def sizes(self, location: str) -> dict[str, int]:
        """Return the size of each file below a location."""
        return {file: self._files.get_file_info(_path(file)).size for file in self.files_below(location)}

    def exists(self, location: str) -> bool:
        """Whether a file exists."""
        return bool(self._files.get_file_info(_path(location)).type == FileType.File)

    def read(self, location: str) -> bytes:
        """Return the content of a file."""
        with self._files.open_input_file(_path(location)) as stream:
            return bytes(stream.read())

    def write(self, location: str, content: bytes) -> str:
        """Create or overwrite a file; return its location."""
        path = _path(location)
        self._files.create_dir(path.rpartition("/")[0])
        with self._files.open_output_stream(path) as stream:
            stream.write(content)
        return location

    def remove(self, location: str) -> None:
        """Delete a file."""
        self._files.delete_file(_path(location))

    @abstractmethod
    def age(self, location: str, hours: float) -> str:
        """Make a file appear to have been written some hours ago; return its location."""

    @abstractmethod
    def losing_races(
        self, manager: IcebergTableManager | ManagerContext, *rivals: Callable[[], object]
    ) -> AbstractContextManager[list[Callable[[], object]]]:
        """Let a rival commit right before each of the manager's next commits, so that the manager's commits conflict.

        Provides the list of rivals that have not run yet; a rival that does nothing causes no conflict.
        """

    @abstractmethod
    def overtaken(
        self, manager: IcebergTableManager | ManagerContext, rival: Callable[[], object]
    ) -> AbstractContextManager[object]:
        """Let a rival commit after the manager has prepared its next commit and before it reaches the catalog."""


@contextmanager
def open_site(address: Address) -> Iterator[Site]:
    """Open the site at an address; a REST site has fault gateways in front of the server and the store."""
    with ExitStack() as stack:
        if isinstance(address, RestAddress):
            catalog = stack.enter_context(FaultGateway(address.uri))
            store = stack.enter_context(FaultGateway(address.properties["s3.endpoint"]))
            site: Site = RestSite(address, catalog, store)
        else:
            site = EmbeddedSite(address)
        stack.callback(site.close)
        yield site


class EmbeddedSite(Site):
    """A site on the embedded catalog in a folder."""

    def age(self, location: str, hours: float) -> str:
        """Set the file's modification time."""
        when = time.time() - hours * 3600
        os.utime(_path(location), (when, when))
        return location

    def losing_races(
        self, manager: IcebergTableManager | ManagerContext, *rivals: Callable[[], object]
    ) -> AbstractContextManager[list[Callable[[], object]]]:
        """Run rivals between a commit's read of its row and the update of that row."""
        inner: Any = cast("ReconcilingCatalog", manager.catalog).inner
        return losing_races(inner.engine, *rivals)

    @contextmanager
    def overtaken(self, manager: IcebergTableManager | ManagerContext, rival: Callable[[], object]) -> Iterator[None]:
        """Run the rival before the commit reads its row."""
        catalog: Any = cast("ReconcilingCatalog", manager.catalog).inner
        commit = catalog.commit_table

        def late(*arguments: object) -> object:
            del catalog.commit_table
            rival()
            return commit(*arguments)

        catalog.commit_table = late
        yield


class RestSite(Site):
    """A site on Iceberg's reference server and an object store, each behind a gateway."""

    def __init__(self, address: RestAddress, catalog: FaultGateway, store: FaultGateway) -> None:
        """Use a namespace of the reference server.

        Args:
            address: The server, the object store, and a unique namespace.
            catalog: Gateway in front of the server.
            store: Gateway in front of the object store.
        """
        behind = {**address.properties, "s3.endpoint": store.url}
        super().__init__(replace(address, uri=catalog.url, properties=behind))
        self.gateway = catalog
        self.store = store
        self._ages: dict[str, float] = {}

    def age(self, location: str, hours: float) -> str:
        """Return an earlier time in listings, because the modification time of an object cannot be set."""
        if not self._ages:
            self.store.add(Rule("GET", "^/[^/]+/?$", None, rewrite=self._aged))
        self._ages[_path(location).partition("/")[2]] = hours
        return location

    def _aged(self, _exchange: Exchange, reply: Reply) -> Reply:
        def earlier(found: re.Match[bytes]) -> bytes:
            hours = self._ages.get(urllib.parse.unquote(found["key"].decode()))
            if hours is None:
                return found[0]
            when = (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            return found[0].replace(found["moment"], when.encode())

        return Reply(reply.status, reply.headers, _LISTED.sub(earlier, reply.body))

    def losing_races(
        self,
        manager: IcebergTableManager | ManagerContext,
        *rivals: Callable[[], object],
    ) -> AbstractContextManager[list[Callable[[], object]]]:
        """Run rivals while a commit is on its way to the server."""
        return losing_races_over_rest(self.gateway, *rivals)

    def overtaken(
        self, manager: IcebergTableManager | ManagerContext, rival: Callable[[], object]
    ) -> AbstractContextManager[object]:
        """Run the rival while the commit is on its way; the server processes the commit afterwards."""
        return self.losing_races(manager, rival)


def _path(location: str) -> str:
    """Return a location as a path in the store's file system."""
    return _SCHEME.sub("", location)
