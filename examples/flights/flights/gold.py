"""Gold: statistics, recomputed from all flights and replaced as a whole."""

from dagster import AssetIn, asset
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

ON_TIME_MINUTES = 15
FLIGHTS = AssetIn(["silver", "flights"])
REPLACED = {"write_mode": "overwrite"}


@asset(
    key=["gold", "carrier_hours"],
    ins={"flights": FLIGHTS, "airlines": AssetIn(["bronze", "airlines"])},
    metadata=REPLACED,
)
def carrier_hours(flights: DataFrame, airlines: DataFrame) -> DataFrame:
    """Departure delay by carrier and hour of the day."""
    figures = flights.groupBy("carrier", "hour").agg(
        *volume(),
        mean("dep_delay"),
        F.percentile_approx("dep_delay", 0.9).alias("p90_dep_delay"),
    )
    return figures.join(airlines.withColumnRenamed("name", "airline"), "carrier", "left").orderBy("carrier", "hour")


@asset(
    key=["gold", "routes"],
    ins={"flights": FLIGHTS, "airports": AssetIn(["bronze", "airports"])},
    metadata=REPLACED,
)
def routes(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """Reliability of each route: the share of its flights that arrive on time; canceled flights count as late."""
    names = airports.select(F.col("faa").alias("dest"), F.col("name").alias("destination"))
    figures = flights.groupBy("origin", "dest").agg(*volume(), mean("arr_delay"), on_time())
    return figures.join(names, "dest", "left").orderBy("origin", "dest")


@asset(key=["gold", "daily"], ins={"flights": FLIGHTS}, metadata=REPLACED)
def daily(flights: DataFrame) -> DataFrame:
    """One row per day: volume, delays and weather."""
    weather = [mean("precip", 4), mean("wind_speed"), mean("visib")]
    return (
        flights.groupBy("flight_date")
        .agg(*volume(), mean("dep_delay"), mean("arr_delay"), on_time(), *weather)
        .orderBy("flight_date")
    )


def volume() -> list[Column]:
    """Count all flights and canceled flights."""
    return [F.count("*").alias("flights"), F.count_if("cancelled").alias("cancelled")]


def mean(name: str, digits: int = 2) -> Column:
    """Average a column, rounded so that the result does not depend on the order of summation."""
    return F.round(F.avg(name), digits).alias(name)


def on_time() -> Column:
    """Share of flights that arrived at most 15 minutes late."""
    arrived = F.coalesce(F.col("arr_delay") <= ON_TIME_MINUTES, F.lit(False)).cast("int")  # noqa: FBT003 - a value
    return F.round(F.avg(arrived), 4).alias("on_time")
