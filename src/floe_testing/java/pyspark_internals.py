"""All uses of PySpark's private API.

``tests/unit/testing/test_pyspark_internals.py`` has a test for each use, which tells what an upgrade has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


def jvm_of(session: SparkSession) -> Any:
    """Return the JVM view of a classic session, such as ``jvm_of(spark).org.apache.iceberg``."""
    return cast("Any", session._jvm)  # noqa: SLF001 - PySpark has no public way to Java


def java_session_of(session: SparkSession) -> Any:
    """Return the Java object of a classic session."""
    return session._jsparkSession  # noqa: SLF001 - as above


def array_of_ints(session: SparkSession, values: Sequence[int]) -> Any:
    """Return a Java ``int[]``."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - as above
    array = gateway.new_array(gateway.jvm.int, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array
