"""Runs a Hive metastore from PySpark's jars, with an embedded Derby database."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from xml.sax.saxutils import escape

from floe_spark.java.ivy import spark_home
from floe_spark.java.runtime import find_java
from floe_testing.services.host.runner import Launch, Service, free_port
from floe_testing.services.host.tools import lacks_java

_SOURCE = Path(__file__).parent / "HiveMetastoreServer.java"
# Hive uses reflection on packages that newer Java versions do not open by default.
_OPENED = ("java.net", "java.lang", "java.util", "java.util.concurrent", "java.nio")
_LOGGING = """rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


class HiveMetastore(Service):
    """A metastore with its database in a folder; the catalog decides where table files are stored."""

    name = "hive-metastore"

    def missing(self) -> str | None:
        """Check for Java and PySpark, which contains the jars."""
        return lacks_java()

    def prepare(self, dev: Path) -> None:
        """Do nothing: there is nothing to fetch."""

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the server on a free loopback port, with its database in ``folder``."""
        del dev
        port = free_port()
        configuration = folder / "conf"
        configuration.mkdir(parents=True, exist_ok=True)
        (configuration / "hive-site.xml").write_text(_site(folder), encoding="utf-8")
        (configuration / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
        return Launch(
            command=[
                str(find_java().executable),
                "-Xmx512m",
                f"-Djava.io.tmpdir={folder}",
                f"-Dderby.stream.error.file={folder / 'derby.log'}",
                *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
                "-cp",
                os.pathsep.join([str(configuration), str(spark_home() / "jars" / "*")]),
                "org.codehaus.janino.SimpleCompiler",
                str(_SOURCE),
                "HiveMetastoreServer",
                str(port),
            ],
            ready=lambda: _answers(port),
            properties={"url": f"thrift://127.0.0.1:{port}", "warehouse": (folder / "warehouse").as_uri()},
        )


def _site(folder: Path) -> str:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'derby'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "hive.metastore.warehouse.dir": str(folder / "hive"),
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.async.log.enabled": "false",
        # Iceberg reorders and retypes columns; see docs/catalogs.md.
        "hive.metastore.disallow.incompatible.col.type.changes": "false",
    }
    rows = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{rows}</configuration>"


def _answers(port: int) -> bool:
    from thrift.Thrift import TException

    from floe_iceberg.pyiceberg_internals.hive import HiveConnectionHook

    with contextlib.suppress(OSError, TException):
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            pass
        with HiveConnectionHook(f"thrift://127.0.0.1:{port}") as client:
            return bool(client.get_all_databases())
    return False
