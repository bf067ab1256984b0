"""Runs a SQL query over frames, so that a SQL model reads the same rows as a Python asset."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["DataFrame", "query_frames"]


def query_frames(
    session: SparkSession, frames: Mapping[str, DataFrame], text: Callable[[Mapping[str, str]], str]
) -> DataFrame:
    """Run a query whose tables are frames.

    Args:
        session: Session for a query without frames.
        frames: Frame by table name.
        text: Builds the query from the view name of each table.
    """
    views = {table: f"floe_model_{uuid.uuid4().hex}" for table in frames}
    for table, frame in frames.items():
        frame.createTempView(views[table])
        session = frame.sparkSession
    try:
        # A writer uses the parsed plan of a query; a projection resolves the views before they are dropped.
        result = session.sql(text(views)).select("*")
    finally:
        # Spark Connect analyzes a plan again on every execution, so its views are kept until the session ends.
        for table, frame in frames.items():
            if not isinstance(frame, ConnectDataFrame):
                session.catalog.dropTempView(views[table])
    return result
