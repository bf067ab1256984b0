"""Spark configuration, derived from ``floe.yaml``."""

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
# Settings that floe relies on in every session; they can change at runtime.
_SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # One task per 10,000 rows, the default, makes Arrow input four times slower.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
}


@dataclass(frozen=True)
class SparkSettings:
    """Settings of a Spark session.

    Attributes:
        master: Spark master, or a Spark Connect address.
        project_root: The project's root directory, which contains its state directory.
        driver_memory: Heap size of a driver started by floe.
        user_conf: The user's configuration, which overrides floe's.
        packages: Maven packages in addition to floe's base packages.
        jars_dir: Directory with the jars, for machines without network access.
        idle_timeout_minutes: Minutes without a client after which the local server stops; 0 for never.
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
        """Create settings from the ``compute`` section, with references expanded.

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
        """Whether driver and executors run in one process on this machine."""
        return self.master.startswith("local")

    @property
    def state_dir(self) -> Path:
        """Directory of the project's Spark state."""
        return self.project_root / STATE_FOLDER / "spark"

    @property
    def fingerprint(self) -> str:
        """Digest of the settings that cannot change in a running driver, except packages."""
        content = [self.master, self.driver_memory, sorted(self.user_conf.items())]
        return hashlib.sha256(json.dumps([*content, str(self.jars_dir)]).encode()).hexdigest()[:16]

    def session_conf(self) -> dict[str, str]:
        """Return the configuration that can be set on any session at runtime."""
        return {
            **_SESSION_CONF,
            **{key: value for key, value in self.user_conf.items() if key.startswith("spark.sql.")},
        }

    def driver_conf(self, jars: ResolvedJars) -> dict[str, str]:
        """Return the configuration of a driver started by floe, including any secrets in the user's configuration."""
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
                # Spark's default of 200 partitions is meant for clusters.
                "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            }
        return conf | dict(self.user_conf)

    def resolve(self) -> tuple[JavaRuntime, ResolvedJars]:
        """Find Java and the jars; download missing jars.

        Raises:
            EngineSetupError: Java or a jar is not available.
        """
        java = find_java()
        return java, resolve_jars(self.packages, jars_dir=self.jars_dir, java=java)


def launch_environment(java: JavaRuntime, *, local: bool) -> dict[str, str]:
    """Return the environment variables for Spark's launcher."""
    import sys

    environment = {"JAVA_HOME": str(java.launcher_home()), "PYSPARK_PYTHON": sys.executable}
    if local:
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    return environment
