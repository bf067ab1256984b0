"""How a Spark session is configured, worked out from ``floe.yaml``."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.secrets import expand
from floe_spark.java.jars import ResolvedJars, resolve_jars
from floe_spark.java.runtime import JavaRuntime, find_java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from floe_core.schemas import ComputeConfig

LOOPBACK = "127.0.0.1"
STATE_FOLDER = ".floe"
LOG_CONFIGURATION = Path(__file__).parent / "log4j2.properties"

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_REDACTED = (
    "(?i)secret|passw(or)?d|token|access[.-]?key|credential|account[.-]?key|private[.-]?key|connection[.-]?string"
    "|authorization|header"
)
# What floe relies on in every session, changeable while Spark runs.
_SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # One task per 10,000 rows, the default, makes Arrow input four times slower.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
}


@dataclass(frozen=True)
class SparkSettings:
    """What a session is opened with.

    Attributes:
        master: Spark master, or a Spark Connect address.
        project_root: Where the project's state lies.
        driver_memory: Heap of a driver that floe starts.
        user_conf: The user's own configuration, which wins over floe's.
        packages: Maven packages beyond floe's base.
        jars_dir: Folder with the jars, for machines without a network.
        idle_timeout_minutes: How long a warm server stays without a client; 0 for ever.
    """

    master: str
    project_root: Path
    driver_memory: str = "2g"
    user_conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = ()
    jars_dir: Path | None = None
    idle_timeout_minutes: float = 0.0

    @classmethod
    def from_config(cls, config: ComputeConfig, *, project_root: Path, packages: Sequence[str] = ()) -> SparkSettings:
        """Take the ``compute`` section, with references replaced by their values.

        Raises:
            SecretReferenceError: A referenced variable is not set.
        """
        return cls(
            master=expand(config.master),
            project_root=project_root,
            driver_memory=config.driver_memory,
            user_conf={key: expand(value) for key, value in config.conf.items()},
            packages=tuple(dict.fromkeys((*packages, *config.packages))),
            jars_dir=project_root / expand(config.jars_dir) if config.jars_dir else None,
            idle_timeout_minutes=config.idle_timeout_minutes,
        )

    @property
    def remote(self) -> bool:
        """Whether the master is a Spark Connect server."""
        return self.master.startswith("sc://")

    @property
    def local(self) -> bool:
        """Whether driver and executors are one process on this machine."""
        return self.master.startswith("local")

    @property
    def state_dir(self) -> Path:
        """Where this project's Spark state lies."""
        return self.project_root / STATE_FOLDER / "spark"

    @property
    def fingerprint(self) -> str:
        """Digest of what a running driver cannot change any more, packages aside."""
        content = [self.master, self.driver_memory, sorted(self.user_conf.items())]
        return hashlib.sha256(json.dumps([*content, str(self.jars_dir)]).encode()).hexdigest()[:16]

    def session_conf(self) -> dict[str, str]:
        """Return the configuration that any session takes while Spark runs."""
        return {
            **_SESSION_CONF,
            **{key: value for key, value in self.user_conf.items() if key.startswith("spark.sql.")},
        }

    def driver_conf(self, jars: ResolvedJars) -> dict[str, str]:
        """Return the configuration of a driver that floe starts; holds the user's secrets if their conf does."""
        conf = {
            "spark.driver.memory": self.driver_memory,
            "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={LOG_CONFIGURATION.as_uri()}",
            "spark.jars": ",".join(path.as_uri() for path in jars.paths),
            "spark.redaction.regex": _REDACTED,
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.extensions": _EXTENSIONS,
            "spark.sql.warehouse.dir": (self.state_dir / "warehouse").absolute().as_uri(),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **_SESSION_CONF,
        }
        if jars.packages:
            conf["spark.jars.packages"] = ",".join(jars.packages)
        if self.local:
            conf |= {
                "spark.driver.bindAddress": LOOPBACK,
                "spark.driver.host": LOOPBACK,
                # Two hundred partitions, the default, are for clusters.
                "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            }
        return conf | dict(self.user_conf)

    def resolve(self) -> tuple[JavaRuntime, ResolvedJars]:
        """Find Java and the jars, fetching what is missing.

        Raises:
            EngineSetupError: Java or a jar is not to be had.
        """
        java = find_java()
        return java, resolve_jars(self.packages, jars_dir=self.jars_dir, java=java)


def launch_environment(java: JavaRuntime, *, local: bool) -> dict[str, str]:
    """Return the variables that Spark's launcher is run with."""
    import sys

    environment = {"JAVA_HOME": str(java.launcher_home()), "PYSPARK_PYTHON": sys.executable}
    if local:
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    return environment
