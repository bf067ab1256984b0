"""The IO manager, which stores assets in Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dagster import InputContext, OutputContext
from pydantic import Field, PrivateAttr

from floe_core.errors import ConfigurationError
from floe_core.failed_writes import failing_as_writes
from floe_core.observing.redaction import MASK
from floe_dagster.assets.keys import (
    FULL_REFRESH_TAG,
    audit_branch,
    operation_id,
    step_name,
    table_of,
    table_of_input,
    table_of_output,
)
from floe_dagster.assets.partitions import ColumnChoice, bind_partitions
from floe_dagster.assets.settings import settings_from, settings_of_output
from floe_dagster.dagster_internals import LaunchHook
from floe_dagster.io.contexts import RunOfOutput, scope_of, step_of, type_of_input
from floe_dagster.io.increments import Increment, everything, increment_since
from floe_dagster.io.inputs import load, load_nothing, selection_of
from floe_dagster.io.launches import schema_of_launch
from floe_dagster.io.metadata import materialization_metadata, nothing_written
from floe_dagster.io.outputs import Defaults, Materialization, write
from floe_dagster.io.tables_source import TablesSource
from floe_dagster.io.withheld import PROPERTIES_FIELD, SECRET_FIELDS, Withheld, require_no_credentials, value_of
from floe_dagster.runs.dead_runs import RUN_ID_PROPERTY, process_tags
from floe_dagster.tenants import Scope, own_partitions
from floe_iceberg.models import WriteMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import AssetKey, AssetSpec, InitResourceContext

    from floe_dagster.assets.row_ranges import RowSelection
    from floe_dagster.gate.results import CheckResults
    from floe_iceberg.manager import IcebergTableManager

_SECRETS = frozenset({*SECRET_FIELDS, PROPERTIES_FIELD})
_MODES = ("default_write_mode", "write_mode")


class IcebergIOManager(LaunchHook):
    """Writes assets to Iceberg tables and reads them back.

    Asset keys map to tables: ``["customers"]`` to ``{default_namespace}.customers``, ``["bronze", "raw"]`` to
    ``bronze.raw``, and ``["gold", "metrics", "daily"]`` to ``gold.metrics_daily``. Outputs and inputs are PySpark,
    pandas or Polars frames, PyArrow tables or readers. By default, a partitioned asset replaces the partition it writes
    and other assets append; their metadata or ``write_mode`` can change that. A retried step never writes twice.

    Secrets can be an ``EnvVar``, a ``SecretStr`` or text; the fields that Dagster's UI shows never contain their value.
    """

    catalog_uri: str | None = Field(default=None, description="Address of the REST catalog.")
    warehouse: str | None = Field(default=None, description="Warehouse name.")
    client_id: str | None = Field(default=None, description="OAuth2 client id.")
    client_secret: str | None = Field(default=None, description="OAuth2 client secret: an EnvVar, or a SecretStr.")
    token: str | None = Field(default=None, description="Existing bearer token: an EnvVar, or a SecretStr.")
    default_namespace: str = Field(default="public", description="Namespace of assets whose key has one part.")
    write_mode: WriteMode = Field(default=WriteMode.APPEND, description="Write mode of assets that do not set one.")
    default_write_mode: WriteMode | None = Field(
        default=None, description="Same as write_mode; takes precedence over it."
    )
    schema_evolution_enabled: bool = Field(default=True, description="Whether the schema of tables follows the data.")
    auto_create_tables: bool = Field(default=True, description="Whether the first write creates a missing table.")
    partition_column: str | None = Field(
        default=None, description="Column that partition keys refer to, for assets that do not set one."
    )
    partition_columns: dict[str, str] = Field(
        default_factory=dict, description="Columns by dimension, for assets with several partition dimensions."
    )
    column_projection_enabled: bool = Field(
        default=True, description="Whether inputs load only the columns that they specify."
    )
    catalog_properties: dict[str, str] = Field(
        default_factory=dict, description="Storage and client properties of PyIceberg."
    )

    _source: TablesSource | None = PrivateAttr(default=None)
    _owned: bool = PrivateAttr(default=False)
    _increments: dict[tuple[str, str], dict[str, Increment]] = PrivateAttr(default_factory=dict)
    _withheld: Withheld = PrivateAttr(default_factory=Withheld)
    _chosen_mode: WriteMode | None = PrivateAttr(default=None)

    def __init__(
        self,
        *,
        table_manager: IcebergTableManager | None = None,
        default_write_mode: WriteMode | None = None,
        source: TablesSource | None = None,
        partition_column: str | Mapping[str, str] | None = None,
        **settings: Any,  # noqa: ANN401 - the fields above
    ) -> None:
        """Use a table manager, a lazy source of one, or a REST catalog.

        Args:
            table_manager: The table manager.
            default_write_mode: Same as ``write_mode``; takes precedence over it.
            source: Opens the tables when they are first needed.
            partition_column: Column that partition keys refer to, or a dict of columns by dimension.
            **settings: The fields of this class.

        Raises:
            ConfigurationError: The address contains a secret.
        """
        if default_write_mode is not None:
            settings |= {"write_mode": default_write_mode, "default_write_mode": default_write_mode}
        if isinstance(partition_column, Mapping):
            settings["partition_columns"] = dict(partition_column)
        elif partition_column is not None:
            settings["partition_column"] = partition_column
        require_no_credentials(settings.get("catalog_uri"))
        shown, withheld = Withheld.taken_from(settings)
        super().__init__(**shown)
        self._withheld = withheld
        self._chosen_mode = self.write_mode if settings.get("write_mode") is not None else None
        self._source = TablesSource.of(table_manager) if table_manager is not None else source

    def __repr__(self) -> str:
        """Show the settings without secrets."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        shown = [f"{name}={MASK if name in _SECRETS and value else repr(value)}" for name, value in values.items()]
        return f"IcebergIOManager({', '.join(shown)})"

    __str__ = __repr__

    def launch_schema(self, schema: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Dagster does not export its type
        """Return Dagster's schema with the values of this IO manager as defaults."""
        return schema_of_launch(schema, given, unset=_MODES)

    def copy_for_run(self, values: Mapping[str, Any]) -> IcebergIOManager:
        """Return a copy for one run that shares the live objects of this IO manager, which are not fields."""
        given = dict(values)
        at_launch = [mode for name in _MODES if (mode := given.pop(name, None)) is not None]
        if at_launch:
            given["default_write_mode"] = at_launch[0]
        copy = self.plain_copy(given)
        copy._source = self._source  # noqa: SLF001 - our own copy
        copy._withheld = self._withheld.and_(copy._withheld)  # noqa: SLF001 - our own copy
        copy._chosen_mode = copy.write_mode if at_launch else self._chosen_mode  # noqa: SLF001 - our own copy
        return copy

    @property
    def chosen_write_mode(self) -> WriteMode | None:
        """The write mode, if it was set explicitly; otherwise None."""
        return self._chosen_mode

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Record this process in the run's tags, to detect killed runs, and observe its steps."""
        run, tags = context.run, process_tags()
        if run is not None and context.instance is not None and not tags.items() <= run.tags.items():
            context.instance.add_run_tags(run.run_id, tags)
        if self._source is not None and self._source.observer is not None:
            self._source.observer.follow(context)

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Send telemetry, and close the connection that this run opened."""
        del context
        if self._source is not None and self._source.observer is not None:
            self._source.observer.flush()
        if self._owned and self._source is not None:
            self._source.close()
            self._source = None

    @property
    def tables(self) -> IcebergTableManager:
        """The table manager, connected on first use.

        Raises:
            ConfigurationError: No catalog is configured.
        """
        return self._tables_source().tables()

    def _tables_source(self) -> TablesSource:
        if self._source is None:
            self._source = self._rest_source()
            self._owned = True
        return self._source

    def _rest_source(self) -> TablesSource:
        if not self.catalog_uri:
            msg = "The IO manager has no catalog."
            raise ConfigurationError(msg, hint="Set catalog_uri and warehouse, or pass table_manager.")
        return TablesSource.rest(**self.catalog_connection)

    @property
    def catalog_connection(self) -> dict[str, Any]:
        """The settings of ``PolarisCatalogConfig``, including secrets: never log or store them.

        Raises:
            SecretReferenceError: A setting is an environment variable that is not set.
        """
        plain = {"uri": self.catalog_uri, "warehouse": self.warehouse, "client_id": self.client_id}
        return {
            **{name: value_of(value) for name, value in plain.items() if value is not None},
            "client_secret": self._withheld.secret("client_secret", self.client_secret),
            "token": self._withheld.secret("token", self.token),
            "properties": self._withheld.plain_properties(self.catalog_properties),
        }

    def get_table_identifier(self, context: OutputContext | InputContext) -> str:
        """Map an asset key to its table, as ``namespace.table``; for a tenant, in the tenant's namespace."""
        if isinstance(context, OutputContext):
            table = table_of_output(context, default_namespace=self.default_namespace)
        else:
            table = table_of_input(context, default_namespace=self.default_namespace)
        return self.table_for(table, scope_of(context).tenant)

    def table_of_asset(self, key: AssetKey, tenant: str | None = None) -> str:
        """Map an asset key to its table, as ``namespace.table``; for a tenant, in the tenant's namespace."""
        return self.table_for(table_of(key.path, default_namespace=self.default_namespace), tenant)

    @property
    def check_results(self) -> CheckResults | None:
        """The check results table; None if results are not stored."""
        return self._tables_source().check_results

    def table_for(self, table: str, tenant: str | None) -> str:
        """Return the name of a table of the project; for a tenant, in the tenant's namespace."""
        if tenant is None:
            return table
        tenants = self._tables_source().required_tenants()
        # Any user can add a tenant partition in Dagster's UI, but only a bootstrap creates a tenant.
        tenants.require(tenant)
        return tenants.name(tenant, table)

    def rows_of_partitions(self, spec: AssetSpec, scope: Scope) -> RowSelection | None:
        """Select the rows of an asset's partitions; None for all.

        Raises:
            TableNotFoundError: The table does not exist.
            ConfigurationError: The column that the keys refer to cannot be determined.
        """
        return self._select(self.table_of_asset(spec.key, scope.tenant), spec.key, spec.metadata, scope)

    def handle_output(self, context: OutputContext, obj: object) -> None:
        """Write an asset's output to its table; None writes nothing.

        Raises:
            TableNotFoundError: The table does not exist, and ``auto_create_tables`` is off.
            SchemaEvolutionError: The data does not fit the table.
            InvalidDataError: floe cannot write data of this type, or rows are outside the written partitions.
            WriteError: The write failed; the error is also an instance of the more specific type.
        """
        if obj is None:
            context.add_output_metadata(nothing_written(self.get_table_identifier(context)))
            return
        with failing_as_writes():
            output = self._materialization(context)
            written = write(self.tables, obj, output, self._defaults(context, output.table))
        if written is None:
            context.log.warning("Nothing written: the data has no columns and %s does not exist.", output.table)
            context.add_output_metadata(nothing_written(output.table))
            return
        context.add_output_metadata(materialization_metadata(self.tables, output, written))

    def load_input(self, context: InputContext) -> object:
        """Read an input from its table as the type of its annotation; without annotation, as a PyArrow table.

        Raises:
            TableNotFoundError: The table does not exist.
            InvalidScanError: A column, filter, version or annotation is not valid.
        """
        table, kind = self.get_table_identifier(context), type_of_input(context).typing_type
        selection = selection_of(context, projection=self.column_projection_enabled)
        scope = scope_of(context)
        if scope.partitions_def and not scope.keys and not self.tables.table_exists(table):
            # The first partition of an asset that reads its own previous partition has nothing to read.
            return load_nothing(self.tables, table, kind)
        if selection.incremental:
            selection = replace(selection, increment=self._increment(context, table))
        return load(self.tables, table, kind, selection, self._rows_of(context, table))

    def _increment(self, context: InputContext, source: str) -> Increment:
        """Determine the rows of an input that the asset has not read yet, and record them for the step's output."""
        step = step_of(context)
        if step is None:
            # A manually built context has no record of earlier reads.
            return everything(self.tables, source)
        key, *others = step.get_output_asset_keys()
        asset = key.to_user_string()
        if others or own_partitions(step.job_def.asset_layer.get(key).partitions_def) is not None:
            msg = (
                f"Asset '{asset}' has an incremental input, which is not supported for partitioned assets "
                "and for steps with several assets."
            )
            raise ConfigurationError(
                msg, hint="Remove 'incremental'; a partitioned asset already reads only its partitions."
            )
        own = self.table_of_asset(key, scope_of(context).tenant)
        full_refresh = FULL_REFRESH_TAG in step.dagster_run.tags
        increment = increment_since(self.tables, source, own, asset=asset, full_refresh=full_refresh)
        self._increments.setdefault((step.run_id, step.step.key), {})[source] = increment
        return increment

    def _defaults(self, context: OutputContext, table: str) -> Defaults:
        source, tenant = self._tables_source(), scope_of(context).tenant
        declared = source.declared
        if tenant is not None:
            of_project = table_of_output(context, default_namespace=self.default_namespace)
            declared = {table: source.required_tenants().declaration(tenant, of_project)}
        return Defaults(
            write_mode=self._chosen_mode,
            evolve=self.schema_evolution_enabled,
            auto_create=self.auto_create_tables,
            partition_column=self.partition_column,
            partition_columns=self.partition_columns,
            declared=declared,
        )

    def _materialization(self, context: OutputContext) -> Materialization:
        settings = settings_of_output(context)
        scope = scope_of(context)
        path = context.asset_key.path if context.has_asset_key else [step_name(context)]
        mode = settings.write_mode or self._chosen_mode
        if settings.no_rows and mode is None and scope.partitions_def is None:
            # Assets annotated to return nothing are not required to have a write mode, so this was not checked earlier.
            msg = f"Asset '{'/'.join(path)}' returned rows but has no write_mode."
            raise ConfigurationError(msg, hint=f"Set metadata={{'write_mode': ...}} to one of: {', '.join(WriteMode)}.")
        run = RunOfOutput.of(context)
        read = self._read_by(context)
        if settings.gate is not None:
            run.require(settings.gate, "/".join(path))
        return Materialization(
            table=self.get_table_identifier(context),
            asset="/".join(path),
            settings=settings,
            partitions_def=scope.partitions_def,
            partitions=scope.keys,
            operation_id=operation_id(_owned(path, scope), _output_name(context), scope.keys, run.origin)
            if run.origin
            else None,
            branch=audit_branch(context.asset_key, scope.keys, run.origin) if settings.gate else None,
            properties={**_lineage(path, scope, run.run_id), **_marks(read)},
            repeated=run.repeated,
            full_refresh=run.full_refresh,
            incremental=any(increment.start is not None for increment in read),
        )

    def _read_by(self, context: OutputContext) -> list[Increment]:
        """Return the increments that the step of an output read."""
        step = step_of(context)
        return [] if step is None else list(self._increments.pop((step.run_id, step.step.key), {}).values())

    def _rows_of(self, context: InputContext, table: str) -> RowSelection | None:
        scope = scope_of(context)
        upstream = context.upstream_output
        described = {**(upstream.definition_metadata if upstream else {}), **_own_column(context)}
        return self._select(table, context.asset_key, described, scope) if scope.partitions_def else None

    def _select(self, table: str, key: AssetKey, metadata: Mapping[str, Any], scope: Scope) -> RowSelection | None:
        if scope.partitions_def is None:
            return None
        asset = key.to_user_string()
        loaded = self.tables.load_table(table)
        chosen = settings_from(metadata, asset=asset).partition_columns
        choice = ColumnChoice(
            asset, {**self.partition_columns, **chosen}, default=self.partition_column, spec=loaded.spec()
        )
        return bind_partitions(scope.partitions_def, loaded.schema(), choice).rows(scope.keys)


def _own_column(context: InputContext) -> dict[str, Any]:
    keys = ("partition_column", "partition_expr")
    return {key: value for key, value in context.definition_metadata.items() if key in keys}


def _output_name(context: OutputContext) -> str:
    return f"{context.name}[{context.mapping_key}]" if context.mapping_key else context.name


def _owned(path: Sequence[str], scope: Scope) -> Sequence[str]:
    return path if scope.tenant is None else [scope.tenant, *path]


def _lineage(path: Sequence[str], scope: Scope, run_id: str) -> dict[str, str]:
    properties = {"dagster.asset-key": "/".join(path)}
    if run_id:
        properties[RUN_ID_PROPERTY] = run_id
    if len(scope.keys) == 1:
        properties["dagster.partition-key"] = scope.keys[0]
    if scope.tenant is not None:
        properties["floe.tenant"] = scope.tenant
    return properties


def _marks(read: Sequence[Increment]) -> dict[str, str]:
    """Return the snapshot properties that record what was read of each input."""
    return {key: value for increment in read for key, value in increment.mark.items()}
