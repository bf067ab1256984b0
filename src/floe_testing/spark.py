"""Spark fixtures: one session per process, a new embedded catalog per test.

``FLOE_TEST_SPARK`` selects the engine: ``local`` (the default), ``standalone`` (a dedicated master and two workers) or
``connect`` (a Spark Connect server). PySpark allows only one of them per process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from floe_core.dataplane import OPERATION_ID_PROPERTY, ReadRequest, WriteKind, WriteRequest
from floe_core.runtime.spark_packages import ICEBERG_AWS_BUNDLE
from floe_spark.java.ivy import spark_home
from floe_spark.java.runtime import find_java
from floe_spark.server.connect_server import start_server, stop_server
from floe_spark.session.settings import LOOPBACK, SparkSettings, launch_environment
from floe_testing.services.host.runner import free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from floe_spark.plane.plane import SparkDataPlane
    from floe_spark.server.connect_server import ServerInfo

    PlaneFactory = Callable[[SqlCatalog], SparkDataPlane]

ENGINE_VARIABLE = "FLOE_TEST_SPARK"
CATALOG_NAME = "floe"
_START_SECONDS = 60.0


def pytest_configure(config: pytest.Config) -> None:
    """Ignore sockets that Py4J leaves to the garbage collector."""
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")


@dataclass(frozen=True)
class SparkTables:
    """A catalog in PyIceberg, and a data plane with the same tables."""

    catalog: SqlCatalog
    plane: SparkDataPlane
    root: Path

    def create(self, name: str, schema: Any, **options: Any) -> Table:
        """Create a table, and its namespace if it does not exist."""
        self.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        return self.catalog.create_table(name, schema, **options)

    def write(self, kind: WriteKind, table: str, data: object = None, *, operation: str = "", **options: Any) -> None:
        """Write through the plane, with an operation id if given."""
        properties = {OPERATION_ID_PROPERTY: operation} if operation else {}
        self.plane.write(WriteRequest(table, kind, data=data, snapshot_properties=properties, **options))

    def read(self, table: str, **request: Any) -> list[dict[str, Any]]:
        """Read rows through the plane, in a stable order."""
        return sorted(self.plane.read_arrow(ReadRequest(table, **request)).to_pylist(), key=repr)


def embedded_catalog(root: Path, name: str = CATALOG_NAME) -> SqlCatalog:
    """Open an embedded catalog in a folder."""
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog(name, uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/warehouse")


def embedded_conf(catalog: SqlCatalog) -> dict[str, str]:
    """Return the Spark configuration of an embedded catalog."""
    prefix = f"spark.sql.catalog.{catalog.name}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": "jdbc:" + catalog.properties["uri"].replace("sqlite:///", "sqlite:"),
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": catalog.properties["warehouse"],
    }


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Run a master and two workers; yield the master's address."""
    port, pages = free_port(), free_port()
    address = f"spark://{LOOPBACK}:{port}"
    with contextlib.ExitStack() as stack:
        package = "org.apache.spark.deploy"
        master = [f"{package}.master.Master", "--host", LOOPBACK, "--port", str(port), "--webui-port", str(pages)]
        stack.enter_context(_spark_process(master, folder / "master.log"))
        wait_until(lambda: _listens(port), seconds=_START_SECONDS, what="the Spark master")
        for number in (1, 2):
            worker = [f"{package}.worker.Worker", "--host", LOOPBACK, "--cores", "1", "--memory", "1G"]
            worker += ["--webui-port", str(free_port()), "--work-dir", str(folder / f"work-{number}"), address]
            stack.enter_context(_spark_process(worker, folder / f"worker-{number}.log"))
        yield address


@contextlib.contextmanager
def running_server(settings: SparkSettings) -> Iterator[ServerInfo]:
    """Run a Spark Connect server until the block ends; it would otherwise outlive this process."""
    try:
        yield start_server(settings)
    finally:
        stop_server(settings.state_dir)


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[ServerInfo]:
    """Provide a Spark Connect server for a project in ``tmp_path``."""
    conf = {"spark.sql.shuffle.partitions": "2"}
    with running_server(SparkSettings("local[2]", tmp_path, driver_memory="1g", user_conf=conf)) as server:
        yield server


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSettings]:
    """Provide the settings of the engine under test; a server is started if needed."""
    root = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.shuffle.partitions": "2",
        # Compiling plans takes longer than it saves for a few rows.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    # Includes the jars of every store, because all tests in this process share the driver.
    local = SparkSettings(
        "local[2]",
        root,
        driver_memory="1g",
        user_conf=conf,
        packages=(ICEBERG_AWS_BUNDLE,),
    )
    match os.environ.get(ENGINE_VARIABLE, "local"):
        case "standalone":
            cluster = {
                "spark.driver.host": LOOPBACK,
                "spark.driver.bindAddress": LOOPBACK,
                "spark.executor.memory": "600m",
                # The same option as for drivers in tests/conftest.py.
                "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            }
            with standalone_cluster(root) as address:
                yield replace(local, master=address, user_conf={**conf, **cluster})
        case "connect":
            with running_server(local) as server:
                yield replace(local, master=server.url)
        case _:
            yield local


@pytest.fixture(scope="session")
def spark_engine(spark_settings: SparkSettings) -> Iterator[Any]:
    """Keep Spark running for the whole session."""
    from floe_spark.session.sessions import open_engine

    engine = open_engine(spark_settings)
    yield engine
    engine.release()


@pytest.fixture(autouse=True)
def _share_spark(request: pytest.FixtureRequest) -> None:
    """Start the shared Spark first, so that a marked test does not start and stop one itself."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark_engine")


@pytest.fixture(scope="session")
def spark_plane_for(
    spark_engine: Any,  # noqa: ARG001 - keeps Spark running; a process has only one
    spark_settings: SparkSettings,
) -> PlaneFactory:
    """Provide planes for the tests' own catalogs; they share the session's Spark."""
    from floe_spark.plane.plane import SparkDataPlane

    def plane_for(catalog: SqlCatalog) -> SparkDataPlane:
        return SparkDataPlane(spark_settings, catalog_name=catalog.name, conf=embedded_conf(catalog))

    return plane_for


@pytest.fixture
def spark_tables(spark_plane_for: PlaneFactory, tmp_path: Path) -> Iterator[SparkTables]:
    """Provide a new embedded catalog that PyIceberg and Spark can access."""
    catalog = embedded_catalog(tmp_path)
    plane = spark_plane_for(catalog)
    yield SparkTables(catalog, plane, tmp_path)
    plane.close()
    catalog.close()


@pytest.fixture
def spark_plane(spark_tables: SparkTables) -> SparkDataPlane:
    """Provide a data plane for a new embedded catalog."""
    return spark_tables.plane


@pytest.fixture
def spark_session(spark_plane: SparkDataPlane) -> SparkSession:
    """Provide the session with access to the new catalog."""
    return spark_plane.session


@contextlib.contextmanager
def _spark_process(arguments: list[str], log: Path) -> Iterator[None]:
    command = [str(spark_home() / "bin" / "spark-class"), *arguments]
    environment = os.environ | launch_environment(find_java(), local=True) | {"SPARK_HOME": str(spark_home())}
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return False
