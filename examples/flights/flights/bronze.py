"""Bronze: all deliveries, unchanged, as text."""

from dagster import AssetExecutionContext, BackfillPolicy, DailyPartitionsDefinition, ResourceParam, asset
from pyspark.sql import DataFrame, SparkSession

from flights import landing
from floe_dagster import partition_keys_of, tenant_of

DAYS = DailyPartitionsDefinition(start_date="2013-01-01", end_date="2014-01-01")
REPLACED = {"write_mode": "overwrite"}


@asset(
    key=["bronze", "flights"],
    partitions_def=DAYS,
    backfill_policy=BackfillPolicy.single_run(),  # a range of days is a single write
    metadata={"partition_column": "flight_date"},
)
def raw_flights(context: AssetExecutionContext, spark: ResourceParam[SparkSession]) -> DataFrame:
    """All deliveries of flights; each run replaces the days it writes. A tenant has only its own airport's flights."""
    return spark.createDataFrame(landing.read_days(partition_keys_of(context), origin=tenant_of(context)))


@asset(key=["bronze", "weather"], metadata=REPLACED)
def weather(context: AssetExecutionContext, spark: ResourceParam[SparkSession]) -> DataFrame:
    """Hourly weather at the three airports, or at a tenant's airport."""
    return spark.createDataFrame(landing.read_reference("weather", origin=tenant_of(context)))


@asset(key=["bronze", "planes"], metadata=REPLACED)
def planes(spark: ResourceParam[SparkSession]) -> DataFrame:
    """Planes by tail number."""
    return spark.createDataFrame(landing.read_reference("planes"))


@asset(key=["bronze", "airlines"], metadata=REPLACED)
def airlines(spark: ResourceParam[SparkSession]) -> DataFrame:
    """Airlines by carrier code."""
    return spark.createDataFrame(landing.read_reference("airlines"))


@asset(key=["bronze", "airports"], metadata=REPLACED)
def airports(spark: ResourceParam[SparkSession]) -> DataFrame:
    """Airports by FAA code."""
    return spark.createDataFrame(landing.read_reference("airports"))
