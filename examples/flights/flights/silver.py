"""Silver: one row per flight, typed, with its plane and the weather at departure."""

from dagster import AssetIn, BackfillPolicy, asset
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from flights.bronze import DAYS

KEY = ["flight_date", "carrier", "flight", "origin"]
# Columns that earlier deliveries do not have.
NEWER_COLUMNS = ["air_time"]


@asset(
    key=["silver", "flights"],
    ins={
        "delivered": AssetIn(["bronze", "flights"]),
        "weather": AssetIn(["bronze", "weather"]),
        "planes": AssetIn(["bronze", "planes"]),
    },
    partitions_def=DAYS,
    backfill_policy=BackfillPolicy.single_run(),
    # Rows are upserted by the key in floe.yaml, so a second delivery corrects earlier rows.
    metadata={"write_mode": "upsert", "partition_column": "flight_date"},
)
def flights(delivered: DataFrame, weather: DataFrame, planes: DataFrame) -> DataFrame:
    """Flights with weather and plane, upserted and then published if their checks pass."""
    return with_plane(with_weather(typed(latest(delivered)), weather), planes)


def latest(delivered: DataFrame) -> DataFrame:
    """Keep one row per flight, from the latest delivery."""
    newest_first = Window.partitionBy(*KEY).orderBy(F.desc("delivery"))
    ranked = delivered.withColumn("rank", F.row_number().over(newest_first))
    return ranked.where("rank = 1").drop("rank")


def typed(delivered: DataFrame) -> DataFrame:
    """Cast text columns to their types."""
    hour = F.to_timestamp("time_hour")
    return delivered.select(
        "flight_date",
        "carrier",
        whole("flight"),
        "origin",
        "dest",
        "tailnum",
        F.timestamp_add("MINUTE", whole("minute"), hour).alias("scheduled"),
        whole("hour"),
        whole("dep_delay"),
        whole("arr_delay"),
        whole("distance"),
        F.col("dep_time").isNull().alias("cancelled"),
        *(whole(name) for name in NEWER_COLUMNS if name in delivered.columns),
    )


def with_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Add the weather at the airport in the hour of departure."""
    observed = weather.select(
        "origin",
        F.to_timestamp("time_hour").alias("observed"),
        *(F.col(name).cast("double").alias(name) for name in ("temp", "wind_speed", "precip", "visib")),
    )
    departing = flights.withColumn("observed", F.date_trunc("hour", "scheduled"))
    return departing.join(observed, ["origin", "observed"], "left").drop("observed")


def with_plane(flights: DataFrame, planes: DataFrame) -> DataFrame:
    """Add the plane if its tail number is known."""
    known = planes.select("tailnum", "manufacturer", "model", whole("seats"), whole("year").alias("built"))
    return flights.join(known, "tailnum", "left")


def whole(name: str) -> Column:
    """Cast a text column to an integer."""
    return F.col(name).cast("int").alias(name)
