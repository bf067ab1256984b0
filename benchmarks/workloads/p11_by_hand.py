"""The flights pipeline written with only PySpark and Iceberg: the same tables, writes and checks.

The transformations come from the example. Tables with checks are written to a branch, checked in one Spark job, and
published to main if they pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flights import gold, landing, silver
from pyspark.sql import functions as sf

from floe_iceberg.models import PRODUCTION_PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dagster import AssetsDefinition
    from pyspark.sql import DataFrame, SparkSession

BRANCH = "audit"
FEWEST_FLIGHTS = 300


def plain(asset: AssetsDefinition) -> Callable[..., DataFrame]:
    """Return the function of an asset, because calling it through Dagster takes a quarter of a second."""
    return asset.op.compute_fn.decorated_fn


class FlightsByHand:
    """The pipeline on one catalog."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        """Use a session."""
        self.spark = spark
        self.catalog = catalog

    def run(self, days: Sequence[str]) -> None:
        """Build all tables for the given days."""
        for namespace in ("bronze", "silver", "gold"):
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.catalog}.{namespace}")
        scope = sf.col("flight_date").between(sf.lit(days[0]).cast("date"), sf.lit(days[-1]).cast("date"))
        for name in ("weather", "planes", "airlines", "airports"):
            self.replace(f"bronze.{name}", self.spark.createDataFrame(landing.read_reference(name)))
        self.bronze_flights(days, scope)
        self.silver_flights(scope)
        flights, read = self.read("silver.flights"), self.read
        self.replace("gold.carrier_hours", plain(gold.carrier_hours)(flights, read("bronze.airlines")))
        self.replace("gold.routes", plain(gold.routes)(flights, read("bronze.airports")))
        self.gold_daily(plain(gold.daily)(flights))

    def bronze_flights(self, days: Sequence[str], scope: sf.Column) -> None:
        """Replace the days of the raw flights."""
        rows = self.spark.createDataFrame(landing.read_days(days))
        self.create("bronze.flights", rows, "days(flight_date)")
        columns = ("flight_date", "carrier", "flight", "origin")
        self.audited(
            "bronze.flights",
            lambda target: rows.writeTo(target).option("fanout-enabled", "false").overwrite(scope),
            [sf.count_if(sf.col(name).isNull()) == 0 for name in columns],
            scope,
        )

    def silver_flights(self, scope: sf.Column) -> None:
        """Upsert the days of the flights."""
        delivered = self.read("bronze.flights").where(scope)
        weather, planes = self.read("bronze.weather"), self.read("bronze.planes")
        rows = silver.with_plane(silver.with_weather(silver.typed(silver.latest(delivered)), weather), planes)
        self.create("silver.flights", rows, "months(flight_date)")
        # Spark 4.1 cannot plan a MERGE from a view over tables.
        rows.localCheckpoint().createOrReplaceTempView("new_flights")
        same = " AND ".join(f"t.{name} = s.{name}" for name in silver.KEY)
        key = [sf.col(name) for name in silver.KEY]
        self.audited(
            "silver.flights",
            lambda target: self.spark.sql(
                f"MERGE INTO {target} t USING new_flights s ON {same} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ),
            [
                sf.count("*") == sf.count_distinct(*key),
                sf.count_if(sf.col("dest").isNull()) == 0,
                sf.count_if(sf.col("scheduled").isNull()) == 0,
                sf.count_if(~sf.col("origin").isin("EWR", "JFK", "LGA")) == 0,
                sf.count_if(~sf.col("dep_delay").between(-120, 1440)) == 0,
                sf.count("*") >= FEWEST_FLIGHTS,
            ],
            scope,
        )

    def gold_daily(self, rows: DataFrame) -> None:
        """Replace the daily statistics."""
        self.create("gold.daily", rows)
        self.audited(
            "gold.daily",
            lambda target: rows.writeTo(target).overwrite(sf.lit(True)),  # noqa: FBT003 - a column
            [
                sf.count("*") == sf.count_distinct("flight_date"),
                sf.count_if(~sf.col("on_time").between(0, 1)) == 0,
            ],
            sf.lit(True),  # noqa: FBT003 - a column
        )

    def audited(
        self, table: str, write: Callable[[str], object], checks: Sequence[sf.Column], scope: sf.Column
    ) -> None:
        """Write to a branch, check its rows in one pass, and fast-forward main if they pass."""
        name = self.name(table)
        # CREATE BRANCH adds an empty snapshot if the table has none.
        self.spark.sql(f"ALTER TABLE {name} CREATE OR REPLACE BRANCH {BRANCH}")
        write(f"{name}.branch_{BRANCH}")
        held = self.spark.read.option("branch", BRANCH).table(name).where(scope)
        outcome = held.agg(*(check.alias(f"c{number}") for number, check in enumerate(checks))).head()
        if not all(outcome):
            message = f"checks of {table} failed: {outcome}"
            raise RuntimeError(message)
        self.spark.sql(f"CALL {self.catalog}.system.fast_forward('{table}', 'main', '{BRANCH}')")
        self.spark.sql(f"ALTER TABLE {name} DROP BRANCH {BRANCH}")

    def replace(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of a table."""
        self.create(table, rows)
        rows.writeTo(self.name(table)).overwrite(sf.lit(True))  # noqa: FBT003 - a column

    def create(self, table: str, rows: DataFrame, partitions: str = "") -> None:
        """Create a table for the rows if it does not exist."""
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields)
        partitioned = f"PARTITIONED BY ({partitions})" if partitions else ""
        properties = ", ".join(f"'{key}'='{value}'" for key, value in PRODUCTION_PROPERTIES.items())
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name(table)} ({columns}) USING iceberg {partitioned} "
            f"TBLPROPERTIES ({properties})"
        )

    def read(self, table: str) -> DataFrame:
        """Read a table."""
        return self.spark.table(self.name(table))

    def name(self, table: str) -> str:
        """Return a table's name in Spark."""
        return f"{self.catalog}.{table}"
