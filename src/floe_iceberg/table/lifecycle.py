"""Table lifecycle: create, load, list, rename, register and drop tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError, ValidationError
from pyiceberg.schema import Schema
from pyiceberg.serializers import FromInputFile

from floe_core.errors import CapabilityError, ConcurrencyConflictError, ConfigurationError
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.commit.own_files import require_collected
from floe_iceberg.context import identifier_of
from floe_iceberg.errors import namespace_not_found, unsupported_metadata
from floe_iceberg.models import NullKeys, PurgeResult
from floe_iceberg.names import is_usable, name_of
from floe_iceberg.pyiceberg_internals.catalogs import file_io_of
from floe_iceberg.read.capabilities import NEWEST_WRITABLE_VERSION
from floe_iceberg.read.integrity import load_table
from floe_iceberg.table.column_names import require_names
from floe_iceberg.table.history.keeping import keeping_of
from floe_iceberg.table.history.legal_hold import require_no_hold
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, NULL_KEYS_PROPERTY, keys_text
from floe_iceberg.table.purge import PurgePlan
from floe_iceberg.table.schema import declared_schema, iceberg_schema
from floe_iceberg.table.specs import check_spec, partition_spec, sort_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder

    from floe_core.schemas import TableConfig
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.models import TableIdentifier

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class TableDesign:
    """Definition of a new table.

    Attributes:
        schema: Arrow or Iceberg schema.
        partition_by: Spec, or terms such as ``day(ts)``.
        sort_by: Order, or terms such as ``ts desc``.
        properties: Table properties, on top of the manager's defaults.
        location: Location of the table; warehouse/namespace/table by default.
    """

    schema: pa.Schema | Schema
    partition_by: PartitionSpec | Sequence[str] | None = None
    sort_by: SortOrder | Sequence[str] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None


def create_table(
    context: ManagerContext, target: TableTarget, design: TableDesign, *, if_not_exists: bool = False
) -> Table:
    """Create a table.

    Raises:
        TableExistsError: The table already exists, and ``if_not_exists`` is False.
        NamespaceNotFoundError: The namespace does not exist.
        ConfigurationError: A partition or sort term does not fit the schema.
        InvalidDataError: Column names are empty, duplicate or differ only in case.
        CapabilityError: The client writes the metadata on this catalog and does not support the format version.
    """
    identifier = identifier_of(target)
    schema = iceberg_schema(design.schema)
    require_names(schema)
    with context.operation("iceberg.create_table", identifier) as operation:
        spec = check_spec(partition_spec(design.partition_by, schema), schema)
        order = sort_order(design.sort_by, schema)
        operation.set(partition_spec=str(spec))
        if if_not_exists and context.catalog.table_exists(identifier.parts):
            return context.load(identifier)
        properties = {**context.config.default_properties, **design.properties}
        _require_known_version(context, identifier, properties)
        try:
            table = context.catalog.create_table(
                identifier.parts,
                schema=schema,
                location=design.location,
                partition_spec=spec,
                sort_order=order,
                properties=properties,
            )
        except TableAlreadyExistsError:
            if not if_not_exists:
                raise
            table = context.load(identifier)
        operation.set(schema_id=table.metadata.current_schema_id)
        return table


def _require_known_version(context: ManagerContext, identifier: TableIdentifier, properties: Mapping[str, str]) -> None:
    version = str(properties.get("format-version", ""))
    if (
        version.isdigit()
        and int(version) > NEWEST_WRITABLE_VERSION
        and isinstance(_inner_catalog(context), MetastoreCatalog)
    ):
        msg = (
            f"Table '{identifier}' cannot be created with format version {version} on catalog '{context.catalog.name}'."
        )
        hint = "Create it with Spark SQL (manager.spark.sql), or on a REST catalog."
        raise CapabilityError(msg, hint=hint, table=str(identifier))


def create_from_config(
    context: ManagerContext, target: TableTarget, config: TableConfig, *, if_not_exists: bool = False
) -> Table:
    """Create a table as floe.yaml declares it.

    Raises:
        ConfigurationError: The declaration has no columns.
    """
    if not config.columns:
        msg = f"Table '{identifier_of(target)}' has no declared columns, so it can only be created from data."
        raise ConfigurationError(msg, hint="Declare its columns in floe.yaml.")
    schema = declared_schema(config.columns)
    keys = [schema.find_field(key) for key in config.keys]
    if keys and all(key.required for key in keys):
        schema = Schema(*schema.fields, identifier_field_ids=[key.field_id for key in keys])
    design = TableDesign(schema, config.partition_by, config.sort_by, declared_properties(config), config.location)
    return create_table(context, target, design, if_not_exists=if_not_exists)


def declared_properties(config: TableConfig) -> dict[str, str]:
    """Return the table properties for a declaration."""
    properties = {}
    if config.description:
        properties["comment"] = config.description
    if config.keys:
        properties[KEYS_PROPERTY] = keys_text(config.keys)
    if config.null_keys is NullKeys.MATCH:
        properties[NULL_KEYS_PROPERTY] = config.null_keys.value
    if config.retention.snapshot_days is not None:
        properties["history.expire.max-snapshot-age-ms"] = str(config.retention.snapshot_days * _DAY_MS)
    if config.retention.min_snapshots is not None:
        properties["history.expire.min-snapshots-to-keep"] = str(config.retention.min_snapshots)
    return {**properties, **config.properties}


def table_exists(context: ManagerContext, target: TableTarget) -> bool:
    """Whether a table exists."""
    with context.operation("iceberg.table_exists", target):
        return context.catalog.table_exists(identifier_of(target).parts)


def list_tables(context: ManagerContext, namespace: str | tuple[str, ...]) -> list[str]:
    """List the table names of a namespace, sorted; names that floe cannot address are omitted.

    Raises:
        NamespaceNotFoundError: The namespace does not exist.
    """
    parts = tuple(namespace.split(".")) if isinstance(namespace, str) else tuple(namespace)
    dotted = ".".join(parts)
    with Namespaces(context.catalog, tracer=context.tracer, logger=context.logger).operation("list_tables", parts):
        try:
            names = [identifier[-1] for identifier in context.catalog.list_tables(parts)]
        except NoSuchNamespaceError as err:
            raise namespace_not_found(context.catalog, dotted) from err
        if not names and not context.catalog.namespace_exists(parts):
            raise namespace_not_found(context.catalog, dotted)
        return sorted(name for name in names if is_usable(name))


def rename_table(context: ManagerContext, target: TableTarget, new_name: TableTarget) -> Table:
    """Rename a table; a bare name stays in the namespace.

    Raises:
        TableNotFoundError: The table does not exist.
        TableExistsError: The new name already exists.
    """
    source = identifier_of(target)
    if isinstance(new_name, str) and "." not in new_name:
        new_name = f"{source.namespace}.{new_name}"
    destination = identifier_of(new_name)
    with context.operation("iceberg.rename_table", source, new_name=str(destination)):
        context.load(source)
        # From here on, errors refer to the new name.
        with context.naming(destination):
            return context.catalog.rename_table(source.parts, destination.parts)


def register_table(context: ManagerContext, target: TableTarget, metadata_location: str) -> Table:
    """Register an existing table from its metadata file.

    Raises:
        ConfigurationError: The location has no table metadata.
        CapabilityError: PyIceberg does not support the metadata, such as a column of type variant.
        TableExistsError: A table of that name already exists.
    """
    identifier = identifier_of(target)
    with context.operation("iceberg.register_table", identifier, metadata_location=metadata_location):
        if isinstance(_inner_catalog(context), MetastoreCatalog):
            require_metadata(context, metadata_location, table=str(identifier))
        return context.catalog.register_table(identifier.parts, metadata_location)


def require_metadata(context: ManagerContext, location: str, *, table: str) -> None:
    """Require that a location contains table metadata.

    Raises:
        ConfigurationError: The location has no table metadata.
        CapabilityError: PyIceberg does not support the metadata.
    """
    # The SQL catalog accepts any text, but a table with an invalid location could not be loaded or dropped.
    try:
        io = file_io_of(context.catalog, location)
        FromInputFile.table_metadata(io.new_input(location))
    except (OSError, ValueError, ValidationError) as err:
        if unsupported := unsupported_metadata(err, table):
            raise unsupported from err
        msg = f"No table metadata found at {location}."
        raise ConfigurationError(msg, hint="Pass the full location of a …metadata.json file.") from err


def drop_table(
    context: ManagerContext, target: TableTarget, *, purge: bool = False, allow_below_retention: bool = False
) -> PurgeResult:
    """Drop a table; with ``purge``, also delete the files that its metadata references and all files in its folders.

    Files outside the table's own locations, and tables below its location, are kept.

    Args:
        context: The manager's context.
        target: The table.
        purge: Whether to delete its files.
        allow_below_retention: Whether a purge may delete files that the declared retention protects.

    Returns:
        The number of deleted files, and the referenced files that were kept.

    Raises:
        TableNotFoundError: The table does not exist.
        SharedFilesError: ``gc.enabled=false`` means that other tables share the files; nothing was dropped.
        LegalHoldError: The table, or a namespace it is in, is under legal hold; nothing was dropped.
        UnsafeRetentionError: A purge would delete files that the declared retention protects; nothing was dropped.
        CapabilityError: The catalog does not support purge, or only Spark can read the table; nothing was dropped.
        ConcurrencyConflictError: Another table got the name while the files were collected; nothing was dropped.
        StorageError: The table was dropped, but some files remain; the message has their number.
    """
    identifier = identifier_of(target)
    with context.operation("iceberg.drop_table", identifier, purge=purge) as operation:
        if not purge:
            context.catalog.drop_table(identifier.parts)
            return PurgeResult()
        try:
            table = load_table(context, identifier)
            require_collected(table.metadata, table=str(identifier), what="A purge")
            require_no_hold(context, table, what="A purge")
            if not allow_below_retention:
                keeping_of(context, table).require_end(table)
            # Collected before the drop: afterwards nothing references the files.
            plan = PurgePlan(context, table)
        except CapabilityError as err:
            raise unlisted_files(str(identifier), err) from err
        _require_unreplaced(context, table)
        on_server = not isinstance(_inner_catalog(context), MetastoreCatalog)
        if on_server and plan.server_may_purge:
            _purge_on_server(context, identifier)
            result = plan.delete_leftovers(context)
        else:
            # A server deletes every referenced file, so the client purges tables with foreign files.
            context.catalog.drop_table(identifier.parts)
            result = plan.delete(context)
        operation.set(deleted_files=result.deleted_files, kept_foreign_files=len(result.foreign_files))
        return result


def _require_unreplaced(context: ManagerContext, table: Table) -> None:
    """Require that the name still belongs to the table: it may have been renamed, and still need its files."""
    name = name_of(table)
    if load_table(context, table).metadata.table_uuid != table.metadata.table_uuid:
        msg = f"Another table got the name '{name}' during the purge. Nothing was dropped."
        raise ConcurrencyConflictError(msg, hint="To purge the new table, try again.", table=name)


def unlisted_files(table: str, err: CapabilityError) -> CapabilityError:
    """Return the error for a purge of a table whose files only Spark can list."""
    msg = f"Table '{table}' cannot be purged in process. {err.message}"
    hint = "Drop it without purge and delete its folder, or purge it with Spark SQL: DROP TABLE … PURGE."
    return CapabilityError(msg, hint=hint, table=table)


def _purge_on_server(context: ManagerContext, identifier: TableIdentifier) -> None:
    try:
        context.catalog.purge_table(identifier.parts)
    except NotImplementedError as err:
        msg = f"The catalog '{context.catalog.name}' does not support purging tables."
        hint = "Drop the table without purge, then delete the files."
        raise CapabilityError(msg, hint=hint, table=str(identifier)) from err


def _inner_catalog(context: ManagerContext) -> object:
    catalog = context.catalog
    return catalog.inner if isinstance(catalog, ReconcilingCatalog) else catalog
