"""PyIceberg's private API behaves as floe expects; failures name the code to change after an upgrade."""

from __future__ import annotations

import importlib
import io
import json
import struct
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.rest import Capability
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableIdentifier
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import SetPropertiesUpdate, update_table_metadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from floe_testing.embedded_tables import open_catalog

# The location of each name in PyIceberg, and the code of floe that uses it.
PINS = {
    "pyiceberg.catalog:Catalog._load_file_io": "catalogs.file_io_of and catalogs.FileIOHook",
    "pyiceberg.catalog:MetastoreCatalog._get_default_warehouse_location": (
        "catalogs.default_table_location and catalogs.TableLocationHook"
    ),
    "pyiceberg.catalog.sql:SqlCatalog._init_catalog": "catalogs.create_sql_tables",
    "pyiceberg.table.update:_apply_table_update.register": "metadata.register_update and metadata.apply_update",
    "pyiceberg.table.update:_TableMetadataUpdateContext": "metadata.UpdateContext",
    "pyiceberg.table.update:_TableMetadataUpdateContext.add_update": "metadata.UpdateContext",
    "pyiceberg.table.update:_TableMetadataUpdateContext.has_changes": "metadata.UpdateContext",
    "pyiceberg.schema:Schema._lazy_id_to_field": "metadata.build_schema_indexes",
    "pyiceberg.manifest:_inherit_from_manifest": "avro.inherit_from_manifest",
    "pyiceberg.avro.file:AvroFile._read_header": "avro.read_header",
    "pyiceberg.avro.file:AvroOutputFile.compression_codec": "avro.write_encoded_block",
    "pyiceberg.avro.encoder:BinaryEncoder.write_int": "avro.write_encoded_block",
    "pyiceberg.avro.codecs:KNOWN_CODECS": "avro.register_codec",
    "pyiceberg.avro.reader:DoubleReader.read": "avro.read_doubles_with",
    "pyiceberg.io.pyarrow:_read_all_delete_files": "arrow.read_delete_files",
    "pyiceberg.io.pyarrow:_combine_positional_deletes": "arrow.surviving_positions",
    "pyiceberg.io.pyarrow:_get_column_projection_values": "arrow.projected_constants",
    "pyiceberg.io.pyarrow:ArrowScan._record_batches_from_scan_tasks_and_deletes": "arrow.ScanHook",
    "pyiceberg.io.pyarrow:ArrowProjectionVisitor._cast_if_needed": "arrow.ProjectionHook",
    "pyiceberg.catalog.rest:RestCatalog._create_session": "rest.RestCatalogHook.open_session",
    "pyiceberg.catalog.rest:RestCatalog._config_headers": "rest.RestCatalogHook.set_headers",
    "pyiceberg.catalog.rest:RestCatalog._fetch_config": "rest.RestCatalogHook.fetch_config",
    "pyiceberg.catalog.rest:RestCatalog._response_to_table": "rest.RestCatalogHook.table_of",
    "pyiceberg.catalog.rest:RestCatalog._response_to_staged_table": "rest.RestCatalogHook.staged_table_of",
    "pyiceberg.catalog.rest:RestCatalog._check_endpoint": "rest.RestCatalogHook.require_endpoint",
    "pyiceberg.catalog.rest:RestCatalog._encode_namespace_path": "rest.RestCatalogHook.path_of_namespace",
    "pyiceberg.catalog.rest:RestCatalog._split_identifier_for_path": "rest.RestCatalogHook.path_of_table",
    "pyiceberg.catalog.hive:_HiveClient._init_thrift_transport": "hive.HiveConnectionHook",
    "pyiceberg.catalog.hive:HiveCatalog._create_hive_table": "hive.HiveCatalogHook.create_in_metastore",
}


def broken(what: str, function: str) -> str:
    return f"PyIceberg no longer {what}: change {function} in floe_iceberg/pyiceberg_internals."


@pytest.mark.parametrize("name", PINS)
def test_the_name_is_there(name):
    module, _, path = name.partition(":")
    found = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
        assert found is not None, broken(f"has {name}", PINS[name])


PINS_OF_REST = "rest.RestCatalogHook"


SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))


@pytest.fixture
def stock(tmp_path):
    """PyIceberg's own SQL catalog, with the hooks that floe's catalogs use."""
    from floe_iceberg.pyiceberg_internals.catalogs import FileIOHook, TableLocationHook

    class Hooked(FileIOHook, TableLocationHook, SqlCatalog):
        def open_file_io(self, properties, location):
            opened.append(location)
            return super().open_file_io(properties, location)

        def place_table(self, namespace, table):
            return f"file://{tmp_path}/placed/{namespace}/{table}"

    opened = []
    catalog = Hooked("stock", uri=f"sqlite:///{tmp_path}/stock.db")
    catalog.opened = opened
    catalog.create_namespace("n")
    yield catalog
    catalog.close()


def test_a_catalog_opens_files_with_its_own_settings(stock):
    from floe_iceberg.pyiceberg_internals.catalogs import file_io_of

    table = stock.create_table("n.t", SCHEMA)
    assert table.metadata_location in stock.opened, broken("opens a table's files with _load_file_io", "FileIOHook")
    client = file_io_of(stock, table.metadata_location, {"a": "b"})
    assert client.properties["a"] == "b", broken("merges the given properties", "catalogs.file_io_of")


def test_a_catalog_places_new_tables(stock):
    from floe_iceberg.pyiceberg_internals.catalogs import default_table_location

    where = default_table_location(stock, "n", "t")
    created = stock.create_table("n.t", SCHEMA).location()
    assert created == where, broken("asks _get_default_warehouse_location", "catalogs.TableLocationHook")


def test_the_tables_of_a_sql_catalog_are_created(tmp_path):
    catalog = open_catalog(tmp_path)
    found = catalog.list_namespaces()
    assert found == [("bronze",)], broken("creates the tables with _init_catalog", "catalogs.create_sql_tables")


def test_an_update_of_another_library_is_applied():
    from floe_iceberg.pyiceberg_internals.metadata import apply_update, register_update

    class Ours(SetPropertiesUpdate):
        pass

    @register_update(Ours)
    def _(update, metadata, context):
        changed = apply_update(SetPropertiesUpdate(updates={"seen": "yes"}), metadata, context)
        assert context.has_changes(), broken("notes changes in the context", "metadata.apply_update")
        context.add_update(update)
        return changed

    base = new_table_metadata(SCHEMA, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///t", {})
    changed = update_table_metadata(base, (Ours(updates={}),))
    assert changed.properties == {"seen": "yes"}, broken("dispatches on an update's class", "metadata.register_update")


def test_the_indexes_of_a_schema_are_built_at_once():
    from floe_iceberg.pyiceberg_internals.metadata import build_schema_indexes

    schema = Schema(*SCHEMA.fields)
    build_schema_indexes(schema)
    before = set(vars(schema))
    schema.find_field(1), schema.find_field("NAME", case_sensitive=False), schema.accessor_for_field(1)
    schema.find_column_name(1), schema.column_names
    assert set(vars(schema)) == before, broken(
        "keeps its indexes as cached properties", "metadata.build_schema_indexes"
    )


@pytest.fixture
def written(tmp_path):
    """A table with one data file; gives the table."""
    catalog = open_catalog(tmp_path)
    table = catalog.create_table("bronze.t", SCHEMA)
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    return table


@pytest.mark.filterwarnings("ignore:Parquet writer option:UserWarning")
def test_an_entry_inherits_from_its_manifest(written):
    from floe_iceberg.pyiceberg_internals.avro import inherit_from_manifest

    [manifest] = written.current_snapshot().manifests(written.io)
    [entry] = manifest.fetch_manifest_entry(written.io)
    # Like an entry of a manifest that was just written.
    entry.sequence_number = entry.file_sequence_number = entry.snapshot_id = None
    inherited = inherit_from_manifest(entry, manifest)
    found = (inherited.sequence_number, inherited.file_sequence_number, inherited.snapshot_id)
    assert found == (1, 1, written.current_snapshot().snapshot_id), broken(
        "fills in what an entry inherits", "avro.inherit_from_manifest"
    )


@pytest.mark.filterwarnings("ignore:Parquet writer option:UserWarning")
def test_the_header_of_an_avro_file_is_read_by_itself(written):
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.file import AvroFile

    from floe_iceberg.pyiceberg_internals.avro import read_header

    file = AvroFile(written.io.new_input(written.current_snapshot().manifest_list))
    with file.input_file.open() as stream:
        file.decoder = new_decoder(stream.read())
    assert "avro.schema" in read_header(file).meta, broken("reads a header with _read_header", "avro.read_header")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_a_block_of_encoded_records_is_as_pyiceberg_writes_it(tmp_path, codec):
    from pyiceberg.avro.file import AvroFile, AvroOutputFile
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.typedef import Record

    from floe_iceberg.formats.avro_codecs import SnappyCodec
    from floe_iceberg.pyiceberg_internals.avro import encoded_record, register_codec, write_encoded_block

    register_codec("snappy", SnappyCodec)
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "x", DoubleType(), required=True))
    file, records = PyArrowFileIO().new_output(f"{tmp_path}/{codec}.avro"), [Record(1, 0.1), Record(2, 0.2)]
    with AvroOutputFile(file, schema, "r", metadata={"avro.codec": codec}) as output:
        output.write_block(records)
        write_encoded_block(output, 2, b"".join(encoded_record(output, record) for record in records))
    with AvroFile(file.to_input_file(), schema) as reader:
        found = [record[0] for record in reader]
    assert found == [1, 2, 1, 2], broken("writes blocks in this way", "avro.write_encoded_block")


def test_doubles_are_read_with_the_given_function():
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.reader import DoubleReader

    from floe_iceberg.formats.avro_doubles import read_full_doubles

    read_full_doubles()
    found = DoubleReader().read(new_decoder(struct.pack("<d", 0.1)))
    assert found == 0.1, broken("reads doubles with DoubleReader.read", "avro.read_doubles_with")


def test_deleted_positions_are_left_out():
    from floe_iceberg.pyiceberg_internals.arrow import surviving_positions

    deletes = [pa.chunked_array([[11, 13]])]
    found = surviving_positions(deletes, 10, 14).to_pylist()
    assert found == [0, 2], broken("counts from the start of a batch", "arrow.surviving_positions")


@pytest.mark.filterwarnings("ignore:Parquet writer option:UserWarning")
def test_a_plan_without_deletes_has_none(written):
    from floe_iceberg.pyiceberg_internals.arrow import read_delete_files

    found = read_delete_files(written.io, list(written.scan().plan_files()))
    assert found == {}, broken("returns the deletes of each data file", "arrow.read_delete_files")


def test_a_column_that_a_file_lacks_has_the_value_of_its_partition():
    from pyiceberg.manifest import DataFile
    from pyiceberg.typedef import Record

    from floe_iceberg.pyiceberg_internals.arrow import projected_constants

    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    file = DataFile.from_args(partition=Record("a"), _table_format_version=2)
    found = projected_constants(file, SCHEMA, SCHEMA, spec, {1})
    assert found == {2: "a"}, broken("gives the values of the partition", "arrow.projected_constants")


@pytest.mark.filterwarnings("ignore:Parquet writer option:UserWarning")
def test_a_scan_reads_each_file_with_the_hook(written):
    from pyiceberg.expressions import AlwaysTrue

    from floe_iceberg.pyiceberg_internals.arrow import ScanHook

    class Counted(ScanHook):
        def task_batches(self, task, deletes):
            assert deletes is None
            yield pa.record_batch({"id": [7], "name": ["h"]})

    scan = Counted(written.metadata, written.io, SCHEMA, AlwaysTrue())
    found = scan.to_table(written.scan().plan_files())["id"].to_pylist()
    assert found == [7], broken("reads files with _record_batches_from_scan_tasks_and_deletes", "arrow.ScanHook")


def test_a_projection_casts_with_the_hook():
    from pyiceberg.io.pyarrow import ArrowAccessor
    from pyiceberg.schema import visit_with_partner

    from floe_iceberg.pyiceberg_internals.arrow import ProjectionHook

    class Counted(ProjectionHook):
        def cast(self, field, values):
            seen.append(field.name)
            return super().cast(field, values)

    seen = []
    visit_with_partner(SCHEMA, pa.record_batch({"id": [1], "name": ["a"]}), Counted(SCHEMA), ArrowAccessor(SCHEMA))
    assert seen == ["id", "name"], broken("casts columns with _cast_if_needed", "arrow.ProjectionHook")


class Server(requests.adapters.BaseAdapter):
    """A REST server in this process: its configuration and one table."""

    def __init__(self, metadata):
        super().__init__()
        self.metadata = metadata
        self.seen = []

    def send(self, request, **_):
        self.seen.append(request)
        content = {"defaults": {}, "overrides": {}, "endpoints": [str(Capability.V1_LOAD_TABLE)]}
        if not request.path_url.endswith("/config"):
            content = {
                "metadata-location": "file:///t/metadata/0.json",
                "metadata": json.loads(self.metadata.model_dump_json()),
                "config": {},
            }
        response = requests.Response()
        response.status_code, response.raw, response.request = 200, io.BytesIO(json.dumps(content).encode()), request
        response.url = request.url
        return response

    def close(self):
        pass


def test_a_rest_catalog_uses_the_session_and_the_hooks():
    from floe_iceberg.pyiceberg_internals.rest import RestCatalogHook

    metadata = new_table_metadata(SCHEMA, PartitionSpec(), UNSORTED_SORT_ORDER, "file:///t", {})
    server, called = Server(metadata), []

    class Hooked(RestCatalogHook):
        def open_session(self):
            session = requests.Session()
            session.mount("http://", server)
            return session, None

        def set_headers(self, session):
            session.headers["X-Ours"] = "yes"

        def fetch_config(self):
            called.append("fetch_config")
            super().fetch_config()

        def table_of(self, identifier, response):
            called.append("table_of")
            return super().table_of(identifier, response)

    catalog = Hooked("rest", uri="http://server")
    assert called == ["fetch_config"], broken("reads the configuration with _fetch_config", PINS_OF_REST)
    assert all(request.headers["X-Ours"] == "yes" for request in server.seen), broken(
        "opens sessions with _create_session", PINS_OF_REST
    )
    assert all("PyIceberg" in request.headers["User-Agent"] for request in server.seen), broken(
        "sets its headers with _config_headers", PINS_OF_REST
    )
    table = catalog.load_table("a.t")
    assert called[-1] == "table_of", broken("reads a table with _response_to_table", PINS_OF_REST)
    assert table.metadata.table_uuid == metadata.table_uuid
    assert catalog.supported_endpoints == {Capability.V1_LOAD_TABLE}, broken(
        "keeps the endpoints in _supported_endpoints", PINS_OF_REST
    )
    assert catalog.session.headers["X-Ours"] == "yes", broken("keeps its session in _session", PINS_OF_REST)
    with pytest.raises(NotImplementedError):
        catalog.require_endpoint(Capability.V1_UPDATE_TABLE)
    assert catalog.path_of_namespace(("a/b", "c")) == "a%2Fb\x1fc", broken(
        "joins levels with the unit separator", PINS_OF_REST
    )
    path = catalog.path_of_table(TableIdentifier(namespace=["a"], name="t/u"))
    assert path == {"namespace": "a", "table": "t%2Fu"}, broken("quotes names", PINS_OF_REST)


def test_a_hive_catalog_uses_the_given_connections():
    from floe_iceberg.pyiceberg_internals.hive import HiveCatalogHook, HiveConnectionHook

    class Connection(HiveConnectionHook):
        def make_transport(self):
            made.append("transport")
            return super().make_transport()

    made = []
    Connection("thrift://127.0.0.1:1")
    assert made == ["transport"], broken("makes its transport when it is constructed", "hive.HiveConnectionHook")

    connections = MagicMock()
    connections.__enter__.return_value.get_all_databases.return_value = ["bronze"]
    catalog = HiveCatalogHook("hive", uri="thrift://127.0.0.1:1")
    catalog.use_connections(connections)
    found = catalog.list_namespaces()
    assert found == [("bronze",)], broken("keeps its connection in _client", "hive.HiveCatalogHook.use_connections")
