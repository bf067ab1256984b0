"""Local servers for tests and development: catalogs, object stores, an OIDC issuer and databases."""

from floe_testing.services.glue import Glue
from floe_testing.services.hive_metastore import HiveMetastore
from floe_testing.services.host.runner import Server, Service, ServiceError, ServiceRun
from floe_testing.services.iceberg_rest import IcebergRest
from floe_testing.services.minio import Minio
from floe_testing.services.nessie import Nessie
from floe_testing.services.oidc import Oidc
from floe_testing.services.postgres import Postgres

__all__ = [
    "Glue",
    "HiveMetastore",
    "IcebergRest",
    "Minio",
    "Nessie",
    "Oidc",
    "Postgres",
    "Server",
    "Service",
    "ServiceError",
    "ServiceRun",
]
