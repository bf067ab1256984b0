"""Gold: the figures people ask for, computed anew from all flights and replaced as a whole."""

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
    """How reliable each route is: the share of its flights that arrive on time, cancelled ones counted as late."""
    names = airports.select(F.col("faa").alias("dest"), F.col("name").alias("destination"))
    figures = flights.groupBy("origin", "dest").agg(*volume(), mean("arr_delay"), on_time())
    return figures.join(names, "dest", "left").orderBy("origin", "dest")


@asset(key=["gold", "daily"], ins={"flights": FLIGHTS}, metadata=REPLACED)
def daily(flights: DataFrame) -> DataFrame:
    """One row a day: volume, delays, and the weather they came with."""
    weather = [mean("precip", 4), mean("wind_speed"), mean("visib")]
    return (
        flights.groupBy("flight_date")
        .agg(*volume(), mean("dep_delay"), mean("arr_delay"), on_time(), *weather)
        .orderBy("flight_date")
    )


def volume() -> list[Column]:
    """Count flights, and those that never left."""
    return [F.count("*").alias("flights"), F.count_if("cancelled").alias("cancelled")]


def mean(name: str, digits: int = 2) -> Column:
    """Average a column, rounded so that the same flights give the same figure."""
    return F.round(F.avg(name), digits).alias(name)


def on_time() -> Column:
    """Share of flights that arrived at most a quarter of an hour late."""
    arrived = F.coalesce(F.col("arr_delay") <= ON_TIME_MINUTES, F.lit(False)).cast("int")  # noqa: FBT003 - a value
    return F.round(F.avg(arrived), 4).alias("on_time")
