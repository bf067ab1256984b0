"""A query over frames: what a SQL model reads is handed in, so that it sees the same rows as a Python asset would."""

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
        session: Runs it, when no frame brings a session.
        frames: What the query reads, by table.
        text: Makes the query out of the name that each table has in it.
    """
    views = {table: f"floe_model_{uuid.uuid4().hex}" for table in frames}
    for table, frame in frames.items():
        frame.createTempView(views[table])
        session = frame.sparkSession
    try:
        # A writer takes the plan of a query as it was parsed; a projection over it keeps what the views stood for.
        result = session.sql(text(views)).select("*")
    finally:
        # Spark Connect looks at a plan anew whenever it is run, so that its views live as long as the session.
        for table, frame in frames.items():
            if not isinstance(frame, ConnectDataFrame):
                session.catalog.dropTempView(views[table])
    return result
