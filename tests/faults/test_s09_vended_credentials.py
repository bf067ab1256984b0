"""S09: vended storage credentials are limited to one table and renewed during a write."""

from __future__ import annotations

import time
import uuid

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from floe_core.errors import StorageAuthenticationError
from floe_core.schemas import AccessDelegation
from floe_iceberg import Engine, IcebergTableManager
from floe_testing.faults.gateway import FaultGateway
from floe_testing.stand_ins.vending import CredentialVendor

SCHEMA = pa.schema([pa.field("id", pa.int64())])


@pytest.fixture
def front(minio):
    """Give a gateway before the object store."""
    with FaultGateway(minio.url) as gateway:
        yield gateway


@pytest.fixture
def vending(minio, gateway, front):
    def desk(seconds):
        return CredentialVendor(minio, catalog=gateway, front=front, seconds=seconds)

    return desk


@pytest.fixture
def manager(connect, namespace):
    """Give a manager that has no storage credentials of its own."""
    manager = IcebergTableManager(connect(properties={}, access_delegation="vended-credentials"))
    manager.create_namespace(namespace)
    return manager


def batches(count, pause):
    for number in range(count):
        time.sleep(pause)
        yield pa.record_batch([pa.array([number], pa.int64())], schema=SCHEMA)


@pytest.mark.req("FR-005")
def test_vended_credentials_are_all_a_write_needs(vending, manager, namespace):
    desk = vending(900)
    manager.create_table(f"{namespace}.orders", SCHEMA)
    manager.append(f"{namespace}.orders", pa.table({"id": [1, 2]}))
    assert manager.scan(f"{namespace}.orders").num_rows == 2
    assert desk.vended >= 2


@pytest.mark.req("FR-004", "FR-005")
@pytest.mark.parametrize("announced", [True, False], ids=["expiry announced", "expiry kept secret"])
def test_s09_credentials_that_end_during_an_upload_are_replaced(vending, manager, namespace, announced):
    desk = vending(4)
    desk.announce_expiry = announced
    name = f"{namespace}.orders"
    manager.create_table(name, SCHEMA)
    manager.append(name, pa.RecordBatchReader.from_batches(SCHEMA, batches(12, 0.5)))
    assert sorted(manager.scan(name)["id"].to_pylist()) == list(range(12))
    assert len(manager.list_snapshots(name)) == 1
    assert desk.vended >= 3


@pytest.mark.live
@pytest.mark.spark
@pytest.mark.req("FR-004", "FR-005")
def test_s09_spark_asks_for_new_credentials_where_the_catalog_says(vending, connect, namespace, spark_over):
    desk = vending(6)
    desk.name_endpoint = True
    catalog = connect(
        name=f"rest_{uuid.uuid4().hex[:8]}", properties={}, access_delegation=AccessDelegation.VENDED_CREDENTIALS
    )
    plane = spark_over(catalog)
    manager = IcebergTableManager(catalog, compute=plane)
    manager.create_namespace(namespace)
    name = f"{namespace}.orders"
    manager.create_table(name, SCHEMA)

    def slowly(batches):
        for batch in batches:
            time.sleep(10)
            yield batch

    frame = plane.session.range(0, 10, numPartitions=1).mapInArrow(slowly, "id long")
    manager.append(name, frame, engine=Engine.SPARK)
    assert sorted(manager.scan(name)["id"].to_pylist()) == list(range(10))
    assert desk.renewed >= 1


def test_s09_credentials_that_are_refused_for_good_are_a_storage_error(vending, manager, namespace):
    name = f"{namespace}.orders"
    vending(900)
    manager.create_table(name, SCHEMA)
    table = manager.load_table(name)
    table.io.properties["s3.secret-access-key"] = "canary-wrong"
    table.io._renew = lambda: {**table.io.properties}
    with (
        pytest.raises(OSError, match="SIGNATURE_DOES_NOT_MATCH"),
        table.io.new_output(f"{table.location()}/x").create(overwrite=True) as out,
    ):
        out.write(b"content")


@pytest.mark.req("FR-005", "TN-01")
def test_credentials_of_one_table_are_refused_for_another(vending, manager, namespace, minio):
    vending(900)
    for name in ("orders", "orders10"):
        manager.create_table(f"{namespace}.{name}", SCHEMA)
        manager.append(f"{namespace}.{name}", pa.table({"id": [1]}))
    vended = manager.catalog.inner.vend_credentials(f"{namespace}.orders", ["READ", "WRITE"])
    store = S3FileSystem(
        endpoint_override=minio.url,
        region=minio["region"],
        access_key=vended["s3.access-key-id"],
        secret_key=vended["s3.secret-access-key"],
        session_token=vended["s3.session-token"],
    )
    own = manager.load_table(f"{namespace}.orders").location().removeprefix("s3://")
    other = manager.load_table(f"{namespace}.orders10").location().removeprefix("s3://")
    files = store.get_file_info(FileSelector(f"{own}/metadata", recursive=True))
    assert files
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        store.get_file_info(FileSelector(f"{other}/metadata", recursive=True))
    with pytest.raises(OSError, match="ACCESS_DENIED"), store.open_output_stream(f"{other}/intruder") as out:
        out.write(b"x")
    path = next(iter(manager.load_table(f"{namespace}.orders10").inspect.files()["file_path"].to_pylist()))
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        store.open_input_file(path.removeprefix("s3://"))


def test_when_the_catalog_stops_vending_the_error_says_so(vending, gateway, manager, namespace):
    name = f"{namespace}.orders"
    vending(1)
    manager.create_table(name, SCHEMA)
    table = manager.load_table(name)
    gateway.clear()
    time.sleep(1.1)
    with pytest.raises(StorageAuthenticationError, match="no longer vends storage credentials"):
        table.io.new_output(f"{table.location()}/x").exists()
