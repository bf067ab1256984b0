"""Tables whose owner has planted another table's files in them: no command deletes the other table's files.

The planted content is what anyone who may write or register a table can write: manifests, manifest lists, statistics, a
metadata log, a location and paths of the other table. The administrator who maintains the tables may delete anything,
so only floe protects the other table.
"""

from __future__ import annotations

import contextlib
import json

import pyarrow as pa
import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.typedef import Record

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import FloeStorageError, MaintenanceError
from floe_testing.embedded_tables import local_path

SCHEMA = pa.schema([("id", pa.int64())])
A_MONTH = 30 * 24
PLANTED, VICTIM = "tenants.acme.planted", "tenants.beta.orders"
pytestmark = pytest.mark.parametrize("site", ["embedded"], indirect=True)


def rows(*ids):
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids(manager, name):
    return sorted(manager.scan(name).column("id").to_pylist())


class Attack:
    """A neighbor's table, and metadata of the attacker's own that is to name files of it."""

    def __init__(self, site, manager):
        self.site, self.manager = site, manager
        for tenant in ("acme", "beta"):
            manager.create_namespace(f"tenants.{tenant}", {"location": f"{site.address.warehouse}/tenants/{tenant}"})
        victim = manager.create_table(VICTIM, SCHEMA)
        for number in range(2):
            manager.append(VICTIM, rows(number))
        self.victim = manager.load_table(VICTIM)
        self.place = victim.location()
        manager.create_table("tenants.acme.seed", SCHEMA)
        manager.append("tenants.acme.seed", rows(1))
        self.seed = manager.load_table("tenants.acme.seed")
        self.text = json.loads(site.read(self.seed.metadata_location))
        self.text["properties"] = {}
        self.own = f"{site.address.warehouse}/tenants/acme/planted"
        self.text["location"] = self.own
        self.text["metadata-log"] = []

    def data_file(self):
        return min(self.site.files_of(self.victim, ".parquet"))

    def plant_file(self, path, content=DataFileContent.DATA, status=ManifestEntryStatus.ADDED):
        """Let the table's only snapshot name a file."""
        manifest = f"{self.own}/metadata/planted-m0.avro"
        snapshot = self.text["snapshots"][-1]
        io = self.seed.io
        file = DataFile.from_args(
            content=content,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=1,
            file_size_in_bytes=1,
            equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
        )
        local_path(manifest).parent.mkdir(parents=True, exist_ok=True)
        with write_manifest(
            2, self.seed.spec(), self.seed.schema(), io.new_output(manifest), snapshot["snapshot-id"], "null"
        ) as writer:
            entry = ManifestEntry.from_args(
                status=status, snapshot_id=snapshot["snapshot-id"], data_file=file, sequence_number=1
            )
            writer.add_entry(entry)
        self.plant_manifest(writer.to_manifest_file())

    def plant_manifest(self, *manifests):
        """Let the table's only snapshot have these manifests."""
        snapshot = self.text["snapshots"][-1]
        location = f"{self.own}/metadata/snap-planted.avro"
        local_path(location).parent.mkdir(parents=True, exist_ok=True)
        with write_manifest_list(
            2, self.seed.io.new_output(location), snapshot["snapshot-id"], None, snapshot["sequence-number"], "null"
        ) as writer:
            writer.add_manifests(list(manifests))
        snapshot["manifest-list"] = location
        snapshot["summary"] = {"operation": "append"}

    def register(self):
        """Register what was planted; every file looks old enough for a sweep."""
        file = f"{self.own}/metadata/00001-planted.metadata.json"
        self.site.write(file, json.dumps(self.text).encode())
        for location in self.site.files_below(f"{self.site.address.warehouse}/tenants"):
            self.site.age(location, A_MONTH)
        self.manager.register_table(PLANTED, file)


def data_file(attack):
    attack.plant_file(attack.data_file())


def removed_file(attack):
    attack.plant_file(attack.data_file(), status=ManifestEntryStatus.DELETED)


def position_deletes(attack):
    attack.plant_file(attack.data_file(), DataFileContent.POSITION_DELETES)


def equality_deletes(attack):
    attack.plant_file(attack.data_file(), DataFileContent.EQUALITY_DELETES)


def manifest(attack):
    attack.plant_manifest(*attack.victim.current_snapshot().manifests(attack.victim.io))


def manifest_list(attack):
    victim = attack.victim.current_snapshot()
    attack.text["snapshots"][-1] |= {"manifest-list": victim.manifest_list, "summary": {"operation": "append"}}


def branch(attack):
    manifest_list(attack)
    snapshot = attack.text["snapshots"][-1]["snapshot-id"]
    attack.text["refs"] = {"old": {"snapshot-id": snapshot, "type": "branch", "max-ref-age-ms": 1}}
    attack.text["current-snapshot-id"] = -1


def statistics(attack):
    snapshot = attack.text["snapshots"][-1]["snapshot-id"]
    file = {"snapshot-id": snapshot, "statistics-path": attack.data_file(), "file-size-in-bytes": 1}
    attack.text["statistics"] = [file | {"file-footer-size-in-bytes": 1, "blob-metadata": []}]
    attack.text["partition-statistics"] = [file | {"statistics-path": attack.victim.current_snapshot().manifest_list}]


def metadata_log(attack):
    moment = attack.text["last-updated-ms"]
    log = [entry.metadata_file for entry in attack.victim.metadata.metadata_log]
    attack.text["metadata-log"] = [
        {"metadata-file": file, "timestamp-ms": moment} for file in [*log, attack.victim.metadata_location]
    ]
    attack.text["properties"] |= {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }


def up_and_over(attack):
    attack.plant_file(attack.data_file().replace("/tenants/beta/", "/tenants/acme/planted/../../beta/"))


def data_path(attack):
    data_file(attack)
    attack.text["properties"]["write.data.path"] = f"{attack.place}/data"


def object_storage_path(attack):
    data_file(attack)
    attack.text["properties"]["write.object-storage.path"] = f"{attack.place}/data"


def neighbors_room(attack):
    data_file(attack)
    attack.text["properties"]["write.data.path"] = f"{attack.site.address.warehouse}/tenants/beta"


def metadata_path(attack):
    manifest_list(attack)
    attack.text["properties"]["write.metadata.path"] = f"{attack.place}/metadata"


def location(attack):
    data_file(attack)
    attack.text["location"] = attack.place


def location_inside(attack):
    data_file(attack)
    attack.text["location"] = f"{attack.place}/data"


def location_above(attack):
    data_file(attack)
    attack.text["location"] = f"{attack.site.address.warehouse}/tenants"


def location_of_all(attack):
    data_file(attack)
    attack.text["location"] = attack.site.address.warehouse


def link(attack):
    local_path(attack.own).mkdir(parents=True)
    (local_path(attack.own) / "data").symlink_to(local_path(attack.place) / "data")
    attack.plant_file(attack.data_file().replace(attack.place, attack.own))


def whole_copy(attack):
    """The neighbor's own metadata, registered a second time."""
    attack.text = json.loads(attack.site.read(attack.victim.metadata_location))


PLANTS = [
    data_file, removed_file, position_deletes, equality_deletes, manifest, manifest_list, branch, statistics,
    metadata_log, up_and_over, data_path, object_storage_path, neighbors_room, metadata_path, location, location_inside,
    location_above, location_of_all, link, whole_copy,
]  # fmt: skip


# The cleanup of old metadata in a commit reports nothing, and removed entries have no effect.
SILENT = {removed_file, metadata_log}
COMMANDS = {
    "sweep": lambda m: m.sweep_orphans(PLANTED, dry_run=False),
    "overwrite": lambda m: m.overwrite(PLANTED, rows(7)),
    "compact": lambda m: m.compact_table(PLANTED),
    "expire": lambda m: m.expire_snapshots(PLANTED, older_than_days=0, retain_last=1),
    "purge": lambda m: m.drop_table(PLANTED, purge=True),
}


def contents(site):
    room = local_path(f"{site.address.warehouse}/tenants/beta")
    return {path: path.read_bytes() for path in room.rglob("*") if path.is_file()}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_no_command_touches_a_neighbors_files(site, manager, plant):
    attack = Attack(site, manager)
    plant(attack)
    attack.register()
    before, told = contents(site), []
    for name in ("sweep", "overwrite", "compact", "expire", "sweep", "purge"):
        try:
            told += getattr(COMMANDS[name](manager), "foreign_files", ())
        except FloeStorageError as err:
            told.append(str(err))
        assert {path: text for path, text in contents(site).items() if path in before} == before, name
    assert not manager.table_exists(PLANTED)
    assert ids(manager, VICTIM) == [0, 1]
    assert plant in SILENT or any(name in text for text in told for name in ("/beta/", "/planted/data/")), told


def test_a_catalog_plugin_purges_own_files_only(site, manager):
    attack = Attack(site, manager)
    data_path(attack)
    attack.register()
    before = contents(site)
    plugin = SqlCatalogPlugin()
    plugin._catalog = manager.catalog.inner
    plugin.drop_table(PLANTED, purge=True)
    assert contents(site) == before
    assert site.files_below(attack.own) == []


@pytest.mark.spark
@pytest.mark.parametrize("plant", [data_path, location_inside, link], ids=lambda plant: plant.__name__)
def test_spark_touches_no_neighbors_files(site, plane, plant):
    """Its procedures would delete whatever the manifests name, and whatever lies below the location."""
    manager = site.open_manager(compute=plane)
    attack = Attack(site, manager)
    plant(attack)
    attack.register()
    before = contents(site)
    manager.overwrite(PLANTED, rows(7))
    with contextlib.suppress(MaintenanceError):
        manager.sweep_orphans(PLANTED, dry_run=False, engine="spark")
    assert manager.expire_snapshots(PLANTED, older_than_days=0, retain_last=1, engine="spark").foreign_files
    assert {path: text for path, text in contents(site).items() if path in before} == before
    assert ids(manager, VICTIM) == [0, 1]
