"""The default tables of a tenant."""

from __future__ import annotations

from pydantic import Field

from floe_core.dataplane import NullKeys
from floe_core.errors import ConfigurationError
from floe_core.schemas import ColumnConfig, FrozenModel, RetentionConfig, TableConfig


class IcebergTableSpec(FrozenModel):
    """A table to provision for every tenant.

    Attributes:
        name: Table name within the tenant's namespace.
        columns: Columns in order.
        partition_by: Partition terms, such as ``day(occurred_at)``.
        sort_by: Sort terms, such as ``occurred_at desc``.
        keys: Columns that identify a row, for upserts.
        null_keys: How an upsert handles nulls in keys.
        retention: How long snapshots are kept.
        properties: Table properties.
        description: Description of the table.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")
    columns: tuple[ColumnConfig, ...]
    partition_by: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] | None = None
    keys: tuple[str, ...] = ()
    null_keys: NullKeys | None = None
    retention: RetentionConfig = Field(default_factory=RetentionConfig)
    properties: dict[str, str] = Field(default_factory=dict)
    description: str | None = None

    @classmethod
    def from_config(cls, name: str, config: TableConfig) -> IcebergTableSpec:
        """Create a specification from a table in ``tenancy.tables``.

        Raises:
            ConfigurationError: The table has no columns, or a location that all tenants would share.
        """
        if not config.columns:
            msg = f"Tenant table '{name}' has no columns."
            raise ConfigurationError(msg, hint=f"Declare them under tenancy.tables.{name}.columns.")
        if config.location:
            msg = f"Tenant table '{name}' declares a location, which all tenants would share."
            hint = f"Remove tenancy.tables.{name}.location; each tenant's files are stored below its own prefix."
            raise ConfigurationError(msg, hint=hint)
        return cls(
            name=name,
            columns=config.columns,
            partition_by=config.partition_by,
            sort_by=config.sort_by,
            keys=config.keys,
            null_keys=config.null_keys,
            retention=config.retention,
            properties=config.properties,
            description=config.description,
        )

    def declaration(self, *, location: str | None, properties: dict[str, str]) -> TableConfig:
        """Return the table as a declaration for floe.yaml."""
        return TableConfig(
            description=self.description,
            columns=self.columns,
            partition_by=self.partition_by,
            sort_by=self.sort_by,
            keys=self.keys,
            null_keys=self.null_keys,
            retention=self.retention,
            location=location,
            properties={**properties, **self.properties},
        )


def _column(name: str, kind: str, *, required: bool = False, doc: str | None = None) -> ColumnConfig:
    return ColumnConfig(name=name, type=kind, required=required, doc=doc)


MAIN = IcebergTableSpec(
    name="main",
    description="One row per entity: the tenant's current records.",
    columns=(
        _column("id", "string", required=True, doc="Record id"),
        _column("kind", "string", required=True, doc="Kind of record"),
        _column("payload", "string", doc="Content of the record as JSON"),
        _column("created_at", "timestamptz", required=True, doc="When the record was created"),
        _column("updated_at", "timestamptz", doc="When the record last changed"),
    ),
    # Upserts look up rows by id, so bucketing limits how many files they rewrite.
    partition_by=("bucket(8, id)",),
    sort_by=("id asc",),
    keys=("id",),
    properties={"write.merge.mode": "copy-on-write", "write.distribution-mode": "hash"},
)

EVENTS = IcebergTableSpec(
    name="events",
    description="Append-only event log.",
    columns=(
        _column("event_id", "string", required=True, doc="Event id"),
        _column("event_type", "string", required=True, doc="Type of event"),
        _column("occurred_at", "timestamptz", required=True, doc="When the event happened"),
        _column("ingested_at", "timestamptz", doc="When the event was ingested"),
        _column("source", "string", doc="Source of the event"),
        _column("payload", "string", doc="Details as JSON"),
    ),
    partition_by=("day(occurred_at)",),
    sort_by=("event_type asc", "occurred_at asc"),
    properties={"write.distribution-mode": "hash"},
)

METRICS = IcebergTableSpec(
    name="metrics",
    description="Time series: one value per metric and timestamp.",
    columns=(
        _column("metric", "string", required=True, doc="Name of the metric"),
        _column("measured_at", "timestamptz", required=True, doc="Time of the measurement"),
        _column("value", "double", required=True, doc="Measured value"),
        _column("unit", "string", doc="Unit of the value"),
        _column("labels", "map<string, string>", doc="Dimensions"),
    ),
    partition_by=("month(measured_at)",),
    sort_by=("metric asc", "measured_at asc"),
    # Scans read few columns of many rows, which is faster with larger files.
    properties={"write.target-file-size-bytes": str(256 * 1024 * 1024), "write.distribution-mode": "hash"},
)

DEFAULT_TABLES = (MAIN, EVENTS, METRICS)
