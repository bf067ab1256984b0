"""Orphan removal and purge on stores that PyIceberg accesses through fsspec."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from floe_iceberg import IcebergTableManager
from floe_iceberg.maintenance import orphans
from floe_iceberg.table.files.file_listing import FileIOListing

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(900),
    # gcsfs and adlfs pass large bodies to aiohttp in one piece.
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),
]

NAME = "bronze.events"
# Its folder's name begins like that of the other table.
SIBLING = "bronze.events1"


@pytest.fixture(params=["gcs", "azure"])
def manager(request, tmp_path, monkeypatch):
    properties = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    if request.param == "gcs":
        # gcsfs uses an API that emulators do not have.
        monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        server = request.getfixturevalue("fake_gcs")
        bucket = f"gs://{server['bucket']}"
        properties |= {"gcs.service.host": server.url, "gcs.oauth2.token": "anon", "gcs.project-id": server["project"]}
    else:
        server = request.getfixturevalue("azurite")
        bucket = f"abfss://{server['container']}@{server['account']}.dfs.core.windows.net"
        properties["adls.connection-string"] = server["connection_string"]
    warehouse = f"{bucket}/{uuid.uuid4().hex}"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=warehouse, **properties)
    with IcebergTableManager(catalog) as manager:
        manager.namespaces.create("bronze")
        for name in (NAME, SIBLING):
            manager.create_table(name, pa.schema([("id", pa.int64())]))
            manager.append(name, pa.table({"id": [1, 2]}))
        yield manager
    catalog.close()


def stray(table):
    location = f"{table.location()}/data/a b/100%25/stray.parquet"
    with table.io.new_output(location).create() as stream:
        stream.write(b"left by a killed writer")
    return location


def test_a_sweep_finds_orphans_by_their_age(manager, monkeypatch):
    table = manager.load_table(NAME)
    location = stray(table)
    assert manager.sweep_orphans(NAME, older_than_hours=24).files == ()
    # The age of objects in the emulators cannot be set.
    monkeypatch.setattr(orphans._Listed, "is_older_than", lambda file, limit: file.modified is not None)
    swept = manager.sweep_orphans(NAME, older_than_hours=24, dry_run=False)
    assert swept.files == (location,)
    assert not table.io.new_input(location).exists()
    assert manager.scan(NAME).num_rows == manager.scan(SIBLING).num_rows == 2


def test_a_purge_takes_every_file_of_the_table(manager):
    table = manager.load_table(NAME)
    stray(table)
    assert manager.drop_table(NAME, purge=True).deleted_files > 1
    assert list(FileIOListing(table.io, table.location()).list()) == []
    assert manager.scan(SIBLING).num_rows == 2
