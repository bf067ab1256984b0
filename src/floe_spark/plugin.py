"""The ``spark`` compute plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_core.errors import EngineSetupError, MissingDependencyError
from floe_core.plugins import BuiltInPlugin, ComputePlugin, HealthState, HealthStatus
from floe_spark.java.ivy import spark_home
from floe_spark.java.jars import check_jars
from floe_spark.java.runtime import find_java
from floe_spark.reasons import reason_in, without_sql_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from floe_core.schemas import ComputeConfig
    from floe_spark.plane.plane import SparkDataPlane


class SparkComputePlugin(BuiltInPlugin, ComputePlugin):
    """Apache Spark: a local driver, a cluster, or a Spark Connect server."""

    @property
    def name(self) -> str:
        """Name of the plugin."""
        return "spark"

    @property
    def description(self) -> str:
        """One-line description."""
        return "Apache Spark: local, on a cluster, or over Spark Connect"

    @property
    def sql_dialect(self) -> str:
        """Sqlglot's name of the engine's SQL dialect."""
        return "spark"

    def reason_of(self, kind: str, message: str) -> str | None:
        """Return the line of a PySpark error that states the reason; None for other errors."""
        # The rest is mostly Spark's query plan and stack traces.
        return without_sql_state(reason_in(message)) if kind.startswith("pyspark.") else None

    def health_check(self) -> HealthStatus:
        """Report whether PySpark, Java and the jars are available, without starting Spark."""
        try:
            home, java = spark_home(), find_java()
        except (MissingDependencyError, EngineSetupError) as err:
            return HealthStatus(HealthState.UNHEALTHY, str(err))
        details = {"spark_home": str(home), "java": f"{java.version} ({java.source})", "java_home": str(java.home)}
        broken = [status for status in check_jars() if not status.intact]
        if damaged := [str(status.path) for status in broken if status.path]:
            return HealthStatus(HealthState.UNHEALTHY, f"Damaged jars: {', '.join(damaged)}", details)
        if broken:
            names = ", ".join(status.coordinate for status in broken)
            return HealthStatus(HealthState.DEGRADED, f"Jars to be downloaded on first use: {names}", details)
        return HealthStatus(HealthState.HEALTHY, details=details)

    def data_plane(  # noqa: PLR0913 - keyword-only, as in the contract
        self,
        config: ComputeConfig,
        *,
        catalog_name: str,
        conf: Mapping[str, str],
        packages: Sequence[str] = (),
        project_root: Path,
        catalog: Any = None,  # noqa: ANN401, ARG002 - Spark opens its own catalog
    ) -> SparkDataPlane:
        """Return a data plane for the catalog; Spark starts on first use.

        Raises:
            MissingDependencyError: The extra ``spark`` is not installed.
        """
        try:
            from floe_spark.plane.plane import SparkDataPlane
            from floe_spark.session.settings import SparkSettings
        except ImportError as err:
            what = "The Spark engine"
            raise MissingDependencyError(what, extra="spark") from err
        settings = SparkSettings.from_config(config, project_root=project_root, packages=packages)
        return SparkDataPlane(settings, catalog_name=catalog_name, conf=conf)
