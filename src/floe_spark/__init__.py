"""Spark as floe's data plane.

Importing this package does not import PySpark; accessing ``SparkDataPlane`` does.
"""

from typing import TYPE_CHECKING, Any

from floe_spark.java.jars import JarStatus, check_jars, resolve_jars
from floe_spark.java.runtime import JavaRuntime, find_java
from floe_spark.plugin import SparkComputePlugin
from floe_spark.server.connect_server import ServerInfo, server_status, start_server, stop_server
from floe_spark.session.settings import SparkSettings

if TYPE_CHECKING:
    from floe_spark.plane.plane import SparkDataPlane

__all__ = [
    "JarStatus",
    "JavaRuntime",
    "ServerInfo",
    "SparkComputePlugin",
    "SparkDataPlane",
    "SparkSettings",
    "check_jars",
    "find_java",
    "resolve_jars",
    "server_status",
    "start_server",
    "stop_server",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute can be anything
    """Import objects that need PySpark on first access."""
    if name == "SparkDataPlane":
        from floe_spark.plane.plane import SparkDataPlane

        return SparkDataPlane
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
