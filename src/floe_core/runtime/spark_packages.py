"""Maven coordinates of the jars that Spark needs, in the versions that floe is tested with."""

from __future__ import annotations

_ICEBERG_VERSION = "1.12.0"

ICEBERG_RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{_ICEBERG_VERSION}"
ICEBERG_AWS_BUNDLE = f"org.apache.iceberg:iceberg-aws-bundle:{_ICEBERG_VERSION}"
ICEBERG_AZURE_BUNDLE = f"org.apache.iceberg:iceberg-azure-bundle:{_ICEBERG_VERSION}"
# The latest published version; it works with newer Iceberg runtimes.
ICEBERG_GCP_BUNDLE = "org.apache.iceberg:iceberg-gcp-bundle:1.11.0"
POSTGRESQL_JDBC = "org.postgresql:postgresql:42.7.13"
SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.53.4.0"
