"""The PySpark arm of P10: one procedure on a Spark Connect server."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession


def main(url: str, catalog: str, warehouse: str, table: str) -> None:
    """Count the orphan files of a table."""
    # The SQL catalog stores tables under its name.
    name = "floe"
    settings = {
        f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{name}.type": "jdbc",
        f"spark.sql.catalog.{name}.uri": catalog,
        f"spark.sql.catalog.{name}.jdbc.schema-version": "V1",
        f"spark.sql.catalog.{name}.warehouse": warehouse,
    }
    builder = SparkSession.builder.remote(url)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.create()
    moment = datetime.now(UTC) - timedelta(days=4)
    rows = spark.sql(
        f"CALL {name}.system.remove_orphan_files(table => '{table}', "
        f"older_than => TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}', dry_run => true)"
    ).collect()
    print(len(rows), flush=True)
    # Exit without closing the session, which is not part of the measurement.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
