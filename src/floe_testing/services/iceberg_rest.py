"""Runs Iceberg's reference REST catalog, which has every capability and no authentication."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from floe_spark.java.ivy import spark_home
from floe_spark.java.runtime import find_java
from floe_testing.services.host.runner import Launch, Service, answers, free_port
from floe_testing.services.host.tools import fetch_jars, lacks_java, read_pins

if TYPE_CHECKING:
    from floe_testing.services.host.runner import Server

_HERE = Path(__file__).parent
_PINS = _HERE / "iceberg_rest.lock"
_SOURCE = _HERE / "IcebergRestServer.java"
# PySpark contains Hadoop, and a compiler that does not need a JDK.
_FROM_SPARK = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "janino-*.jar", "commons-compiler-*.jar")


class IcebergRest(Service):
    """The reference server, with its warehouse on MinIO or in a folder."""

    name = "iceberg-rest"

    def __init__(self, store: Server | None = None) -> None:
        """Store tables in the object store, or else in the server's folder."""
        self._store = store

    def missing(self) -> str | None:
        """Check for Java and PySpark, whose jars the server uses."""
        return lacks_java()

    def prepare(self, dev: Path) -> None:
        """Fetch the server's jars (100 MB)."""
        del dev
        fetch_jars(read_pins(_PINS))

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the server on a free loopback port, with a SQLite file in ``folder``."""
        del dev
        url = f"http://127.0.0.1:{(port := free_port())}"
        bundled = [path for pattern in _FROM_SPARK for path in sorted((spark_home() / "jars").glob(pattern))]
        classpath = os.pathsep.join(map(str, [*fetch_jars(read_pins(_PINS)), *bundled]))
        properties = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
            "jdbc.schema-version": "V1",
            # Otherwise, tables can be created in namespaces that do not exist.
            "jdbc.strict-mode": "true",
            # SQLite supports one writer at a time; others wait.
            "jdbc.busy_timeout": "30000",
            **self._storage(folder),
        }
        return Launch(
            command=[
                str(find_java().executable),
                "-Xmx512m",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp",
                classpath,
                "org.codehaus.janino.SimpleCompiler",
                str(_SOURCE),
                "IcebergRestServer",
                str(port),
                *(f"{key}={value}" for key, value in properties.items()),
            ],
            ready=lambda: answers(f"{url}/v1/config"),
            properties={"url": url, "warehouse": properties["warehouse"]},
        )

    def _storage(self, folder: Path) -> dict[str, str]:
        if self._store is None:
            (folder / "warehouse").mkdir(parents=True, exist_ok=True)
            return {"warehouse": (folder / "warehouse").as_uri()}
        return {
            "warehouse": f"s3://{self._store['bucket']}/reference",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": self._store["region"],
            "s3.endpoint": self._store.url,
            "s3.path-style-access": "true",
            "s3.access-key-id": self._store["access_key_id"],
            "s3.secret-access-key": self._store["secret_access_key"],
        }
