"""Registration of tables by their metadata file."""

from __future__ import annotations

import pyarrow as pa

from floe_testing.faults.gateway import FaultGateway
from floe_testing.stand_ins.vending import CredentialVendor


def test_a_registered_table_comes_with_the_credentials_that_its_files_need(gateway, connect, minio, namespace):
    with FaultGateway(minio.url) as front:
        # As on Polaris, the response to a registration contains no credentials.
        CredentialVendor(minio, catalog=gateway, front=front)
        catalog = connect(access_delegation="vended-credentials", properties={})
        catalog.create_namespace(namespace)
        table = catalog.create_table(f"{namespace}.orders", pa.schema([pa.field("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2, 3]}))
        catalog.drop_table(f"{namespace}.orders")
        again = catalog.register_table(f"{namespace}.again", table.metadata_location)
        assert again.scan().to_arrow().num_rows == 3
        again.append(pa.table({"id": [4]}))
        assert catalog.load_table(f"{namespace}.again").scan().to_arrow().num_rows == 4
