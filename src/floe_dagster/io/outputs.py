"""Writes outputs: creates missing tables, and writes the data exactly once, even if the write is repeated."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow

from floe_core.errors import CommitStateUnknownError, ConfigurationError, InvalidDataError
from floe_core.schemas import TableConfig
from floe_dagster.assets.partitions import ColumnChoice, bind_partitions
from floe_dagster.assets.upsert_keys import DeclaredKeys, missing_keys, require_keys_for_new_table
from floe_dagster.io.frames import plane_of
from floe_iceberg.commit.protocol import describe, find_operation
from floe_iceberg.formats.arrow_types import normalized, to_arrow
from floe_iceberg.formats.partitioning import column_path
from floe_iceberg.models import Engine, NullKeys, SnapshotInfo, WriteMode
from floe_iceberg.read.integrity import find_table
from floe_iceberg.read.scan import plain_arrow_schema
from floe_iceberg.staging.leftover_branches import remove_empty_branch
from floe_iceberg.staging.staged import StagedMark, open_staged, require_branches
from floe_iceberg.table.declared.applying import follow_declaration
from floe_iceberg.table.keys.row_keys import recorded_keys, recorded_null_keys, records_keys
from floe_iceberg.table.lifecycle import declared_properties
from floe_iceberg.table.schema import declared_schema, iceberg_schema, is_writable_to
from floe_iceberg.write.operations import WriteSettings, write_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dagster import PartitionsDefinition
    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane
    from floe_dagster.assets.partitions import PartitionedTable
    from floe_dagster.assets.row_ranges import RowSelection
    from floe_dagster.assets.settings import AssetSettings
    from floe_iceberg.commit.protocol import Outcome
    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.read.filters.binding import Column
    from floe_iceberg.read.predicates import RowPredicate

_OUTSIDE = "floe: row outside the partition"
_SHOWN_KEYS = 3


@dataclass(frozen=True)
class Defaults:
    """Settings for assets that do not have their own, from the IO manager's fields.

    Attributes:
        write_mode: Write mode; None to append, or to replace partitions.
        evolve: Whether the schema of tables follows the data.
        auto_create: Whether a missing table is created.
        partition_column: Column that partition keys refer to.
        partition_columns: Such columns by dimension.
        declared: The project's table declarations, by name.
    """

    write_mode: WriteMode | None = None
    evolve: bool = True
    auto_create: bool = True
    partition_column: str | None = None
    partition_columns: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, TableConfig] = field(default_factory=dict)


@dataclass(frozen=True)
class Materialization:
    """One output to write to its table.

    Attributes:
        table: ``namespace.table``.
        asset: The asset's name, for messages.
        settings: Settings in its metadata.
        partitions_def: Its partitions definition; None for an unpartitioned asset.
        partitions: The partition keys to write.
        operation_id: Id that makes the write idempotent; None outside of a run.
        branch: The branch to stage the rows on until they are checked; None to write to main.
        properties: Added to the snapshot's summary.
        repeated: Whether an earlier attempt at the same materialization may have written rows.
        full_refresh: Whether the rows replace all existing ones, even if the asset appends or upserts.
        incremental: Whether the rows were computed only from rows added to an input.
    """

    table: str
    asset: str
    settings: AssetSettings
    partitions_def: PartitionsDefinition | None = None
    partitions: Sequence[str] = ()
    operation_id: str | None = None
    branch: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    repeated: bool = False
    full_refresh: bool = False
    incremental: bool = False


@dataclass(frozen=True)
class Written:
    """Result of a materialization.

    Attributes:
        snapshot: The snapshot that was created or found, or the current one if there was nothing to write.
        mode: How existing rows were treated.
        rows: The rows of its partitions; None for an unpartitioned asset.
        num_rows: Number of rows in the data; None if only the snapshot has it.
        branch: The branch on which the rows are staged.
        table: The table after the write.
    """

    snapshot: SnapshotInfo
    mode: WriteMode
    rows: RowSelection | None
    num_rows: int | None
    branch: str | None
    table: Table


def write(manager: IcebergTableManager, data: object, output: Materialization, defaults: Defaults) -> Written | None:
    """Write an output; return None if there is nothing to write and the table does not exist.

    Raises:
        TableNotFoundError: The table does not exist, and ``auto_create`` is off.
        SchemaEvolutionError: The data does not fit the table.
        InvalidDataError: floe cannot write data of this type, or it has rows outside the written partitions.
        ConfigurationError: An upsert has no keys, or the declared keys do not fit the table.
        CapabilityError: The output must be staged on a branch, but the catalog does not support branches.
    """
    if output.branch is not None:
        require_branches(manager, output.table)
    plane = plane_of(manager, data)
    return _Write(manager, data if plane is not None else _arrow(data), output, defaults, plane).run()


class _Write:
    def __init__(
        self,
        manager: IcebergTableManager,
        data: Any,  # noqa: ANN401 - a frame
        output: Materialization,
        defaults: Defaults,
        plane: DataPlane | None,
    ) -> None:
        """Store the data and the engine whose frame it is; None for Arrow data."""
        self._manager = manager
        self._data = data
        self._output = output
        self._defaults = defaults
        self._plane = plane
        self._uses_engine = plane is not None or manager.config.engine is Engine.SPARK
        self._keys: tuple[str, ...] = ()
        self._null_keys: NullKeys | None = None

    def run(self) -> Written | None:
        mode = self._mode()
        self._require_mode_for_increments(mode)
        declared = self._declared_keys() if mode is WriteMode.UPSERT else DeclaredKeys()
        table = self._table(mode, declared)
        if table is None:
            return None
        if mode is WriteMode.UPSERT:
            self._keys, self._null_keys = self._agreed_keys(table, declared)
        rows = self._rows(table)
        replaced = rows if mode is WriteMode.OVERWRITE else None
        published, table = self._published(table)
        if published is not None:
            return Written(published, mode, rows, None, None, table)
        if isinstance(self._data, pa.Table) and not self._data.schema.names:
            self._data = plain_arrow_schema(table.schema()).empty_table()
        count = self._data.num_rows if isinstance(self._data, pa.Table) else None
        if replaced is not None:
            self._data = self._within(replaced, table)
        try:
            outcome = self._write(table, mode, replaced)
        except BaseException as err:
            self._close_branch(err)
            raise
        return Written(describe(outcome), mode, rows, count, self._output.branch, outcome.table)

    def _declared_required(self) -> list[str]:
        declared = self._defaults.declared.get(self._output.table, TableConfig())
        return [column.name for column in declared.columns if column.required]

    def _declared_keys(self) -> DeclaredKeys:
        output = self._output
        declared = self._defaults.declared.get(output.table)
        return DeclaredKeys.of(output.settings, declared, asset=output.asset, table=output.table)

    def _agreed_keys(self, table: Table, declared: DeclaredKeys) -> tuple[tuple[str, ...], NullKeys]:
        """Return the keys of an upsert, and record declared keys in the table; if that fails, nothing is written."""
        keys = declared.keys or recorded_keys(table)
        if not keys:
            raise missing_keys(self._output.asset, self._output.table)
        if not records_keys(table, keys, declared.null_keys):
            table = self._manager.set_keys(table, keys, null_keys=declared.null_keys)
        return keys, recorded_null_keys(table)

    def _table(self, mode: WriteMode, wanted: DeclaredKeys) -> Table | None:
        """Load the table, or create it if that is allowed."""
        manager, name = self._manager, self._output.table
        found = find_table(manager.context, name) if self._defaults.auto_create else manager.load_table(name)
        if found is not None:
            return self._as_declared(found)
        schema = self._schema()
        if not len(schema):
            return None
        declared = self._defaults.declared.get(name, TableConfig())
        if mode is WriteMode.UPSERT:
            declared = declared.model_copy(update={"keys": wanted.keys, "null_keys": wanted.null_keys})
            design = declared_schema(declared.columns) if declared.columns else iceberg_schema(schema)
            require_keys_for_new_table(wanted.keys, design.column_names, asset=self._output.asset, table=name)
        manager.create_namespace(name.rpartition(".")[0])
        return self._create(schema, declared)

    def _as_declared(self, table: Table) -> Table:
        """Apply the declaration and the asset's properties to the table; if that fails, nothing is written."""
        declared = self._defaults.declared.get(self._output.table, TableConfig())
        properties = {**declared.properties, **self._output.settings.properties}
        if not properties and self._output.table not in self._defaults.declared:
            return table
        wanted = declared.model_copy(update={"properties": properties})
        return follow_declaration(self._manager.context, table, wanted)

    def _create(self, schema: pa.Schema, declared: TableConfig) -> Table:
        properties = {**declared.properties, **self._output.settings.properties}
        if declared.columns:
            config = declared.model_copy(update={"properties": properties})
            if config.partition_by is None:
                terms = self._terms_of_declared(config)
                config = config.model_copy(update={"partition_by": terms})
            return self._manager.create_from_config(self._output.table, config, if_not_exists=True)
        partitioned = self._bound_partitions(iceberg_schema(schema)) if declared.partition_by is None else None
        return self._manager.create_table_if_not_exists(
            self._output.table,
            schema,
            declared.partition_by if partitioned is None else partitioned.terms,
            {**declared_properties(declared), **properties},
            sort_order=declared.sort_by,
            location=declared.location,
        )

    def _terms_of_declared(self, config: TableConfig) -> tuple[str, ...]:
        partitioned = self._bound_partitions(declared_schema(config.columns))
        return tuple(partitioned.terms) if partitioned else ()

    def _schema(self) -> pa.Schema:
        schema: pa.Schema = self._data.schema if self._plane is None else self._plane.arrow_schema(self._data)
        return schema

    def _names(self) -> Sequence[str]:
        names: Sequence[str] = self._data.schema.names if self._plane is None else self._plane.columns(self._data)
        return names

    def _bound_partitions(self, schema: Any, table: Table | None = None) -> PartitionedTable | None:  # noqa: ANN401 - an Iceberg schema
        if self._output.partitions_def is None:
            return None
        choice = ColumnChoice(
            asset=self._output.asset,
            chosen={**self._defaults.partition_columns, **self._output.settings.partition_columns},
            default=self._defaults.partition_column,
            spec=table.spec() if table is not None else None,
        )
        return bind_partitions(self._output.partitions_def, schema, choice)

    def _rows(self, table: Table) -> RowSelection | None:
        partitioned = self._bound_partitions(table.schema(), table)
        return partitioned.rows(self._output.partitions) if partitioned else None

    def _mode(self) -> WriteMode:
        if self._output.full_refresh:
            return WriteMode.OVERWRITE
        chosen = self._output.settings.write_mode or self._defaults.write_mode
        if self._output.partitions_def is None:
            return chosen or WriteMode.APPEND
        # By default a partition is replaced by the rows that its asset returns.
        return chosen if chosen in {WriteMode.APPEND, WriteMode.UPSERT} else WriteMode.OVERWRITE

    def _require_mode_for_increments(self, mode: WriteMode) -> None:
        if self._output.incremental and mode not in {WriteMode.APPEND, WriteMode.UPSERT}:
            msg = f"Asset '{self._output.asset}' reads only new rows, but its write mode replaces all existing rows."
            raise ConfigurationError(msg, hint="Set its write_mode to append or upsert.", table=self._output.table)

    def _published(self, table: Table) -> tuple[SnapshotInfo | None, Table]:
        """Open the branch of a staged write; if main already has the write, return its snapshot."""
        operation, branch = self._output.operation_id, self._output.branch
        if operation and self._output.repeated and self._uses_engine:
            # A killed process may have left its write running on the engine's server.
            self._manager.context.plane().await_quiet(operation)
            table = self._manager.load_table(table)
        if branch is None:
            return None, table
        if operation and (found := find_operation(table.metadata, operation)):
            return SnapshotInfo.of(found), table
        return None, open_staged(self._manager, table, branch, loaded=table)

    def _close_branch(self, err: BaseException) -> None:
        """Drop the branch of a failed write, unless the write may still be committed."""
        if self._output.branch is None or isinstance(err, CommitStateUnknownError):
            return
        # Report the error of the write, not that of the cleanup.
        with contextlib.suppress(Exception):
            remove_empty_branch(self._manager, self._output.table, self._output.branch)

    def _write(self, table: Table, mode: WriteMode, replaced: RowSelection | None) -> Outcome:
        output = self._output
        row_filter = None
        if replaced is not None:
            row_filter = replaced.expression
        try:
            return write_table(
                self._manager.context,
                output.table,
                self._data,
                mode=mode,
                keys=self._keys or None,
                overwrite_filter=row_filter,
                options=WriteSettings(
                    null_keys=self._null_keys,
                    evolve_schema=self._defaults.evolve if output.settings.evolve is None else output.settings.evolve,
                    # Nulls in the data do not make declared columns optional.
                    keep_required=self._declared_required(),
                    operation_id=output.operation_id,
                    branch=output.branch,
                    snapshot_properties={**output.properties, **self._mark(mode, replaced)},
                ),
                loaded=table,
            )
        except Exception as err:
            if _OUTSIDE in str(err) and not isinstance(err, InvalidDataError):
                raise _outside(output) from err
            raise

    def _within(self, rows: RowSelection, table: Table) -> Any:  # noqa: ANN401 - a frame
        """Return data whose rows are all in the replaced partitions; a rerun would add other rows a second time."""
        data, output, names, predicate = self._data, self._output, self._names(), rows.on(table)
        schema = None if self._plane is not None else data.schema
        for column in predicate.columns:
            name = ".".join(column.path)
            if column.path[0] not in names or (schema is not None and column_path(schema, name) is None):
                msg = f"The data of asset '{output.asset}' does not contain its partition column '{name}'."
                raise InvalidDataError(msg, hint=f"Columns of the data: {', '.join(names)}.", table=output.table)
        if self._plane is not None:
            # The engine checks each row during the write, so the frame is not computed twice.
            return self._plane.guard_rows(data, predicate, column=rows.column, message=_OUTSIDE)
        if not all(_comparable(data.schema, column) for column in predicate.columns):
            # The write reports the mismatch.
            return data
        passes = _passing(rows, predicate, table)
        if isinstance(data, pa.RecordBatchReader):
            return pa.RecordBatchReader.from_batches(data.schema, _guarded(data, passes, output))
        _require_all(data, passes, output)
        return data

    def _mark(self, mode: WriteMode, replaced: RowSelection | None) -> dict[str, str]:
        if self._output.branch is None:
            return {}
        text = replaced.text if replaced is not None else None
        columns = tuple(self._names()) if mode is WriteMode.UPSERT else ()
        mark = StagedMark(
            self._output.branch,
            mode,
            text,
            self._keys,
            columns,
            self._null_keys,
            partitions=tuple(self._output.partitions),
        )
        return mark.properties()


def _arrow(data: object) -> pa.Table | pa.RecordBatchReader:
    frame = to_arrow(data)
    return normalized(frame) if isinstance(frame, pa.Table) else frame


def _comparable(data: pa.Schema, column: Column) -> bool:
    try:
        schema = iceberg_schema(pa.schema([data.field(column.path[0])]))
        data_type = schema.find_field(".".join(column.path)).field_type
    except InvalidDataError:
        return False
    return is_writable_to(data_type, column.type)


def _passing(rows: RowSelection, predicate: RowPredicate, table: Table) -> Callable[[pa.Table], Any]:
    """Return what data is filtered by: an expression, whatever the data, or a mask for each table of it."""
    # PyIceberg's expression accepts narrower types than the table's, but does not reach into structs.
    if any(column.is_nested for column in predicate.columns):
        return predicate.passing
    expression = expression_to_pyarrow(bind(table.schema(), rows.expression, case_sensitive=True))
    return lambda _data: expression


def _guarded(
    reader: pa.RecordBatchReader, passes: Callable[[pa.Table], Any], output: Materialization
) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        _require_all(normalized(pa.Table.from_batches([batch])), passes, output)
        yield batch


def _require_all(data: pa.Table, passes: Callable[[pa.Table], Any], output: Materialization) -> None:
    outside = data.num_rows - data.filter(passes(data)).num_rows
    if outside:
        raise _outside(output, outside)


def _outside(output: Materialization, count: int | None = None) -> InvalidDataError:
    keys = ", ".join(output.partitions[:_SHOWN_KEYS]) + (", …" if len(output.partitions) > _SHOWN_KEYS else "")
    what = "rows" if count is None else f"{count} row{'s' if count != 1 else ''}"
    msg = f"Asset '{output.asset}' returned {what} outside the partition that it writes ({keys})."
    hint = "Filter them in the asset. For late rows, set metadata={'write_mode': 'upsert'} or 'append'."
    return InvalidDataError(msg, hint=hint, table=output.table)
