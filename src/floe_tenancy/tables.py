"""The tables every tenant starts with."""

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
        null_keys: What an upsert does with null in a key.
        retention: How long history is kept.
        properties: Table properties.
        description: What the table holds.
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
        """Take a table of ``tenancy.tables``.

        Raises:
            ConfigurationError: It has no columns, or a location that tenants would share.
        """
        if not config.columns:
            msg = f"The tenants' table '{name}' declares no columns."
            raise ConfigurationError(msg, hint=f"List them under tenancy.tables.{name}.columns.")
        if config.location:
            msg = f"The tenants' table '{name}' declares a location, which all tenants would share."
            raise ConfigurationError(msg, hint=f"Remove tenancy.tables.{name}.location: each tenant has a place.")
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
        """Return the table as floe.yaml would declare it."""
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
    description="One row an entity: the tenant's current records.",
    columns=(
        _column("id", "string", required=True, doc="Identifies the record"),
        _column("kind", "string", required=True, doc="What the record is about"),
        _column("payload", "string", doc="The record itself, as JSON"),
        _column("created_at", "timestamptz", required=True, doc="When the record appeared"),
        _column("updated_at", "timestamptz", doc="When it last changed"),
    ),
    # Found by id and rewritten in place: buckets keep upserts to a few files.
    partition_by=("bucket(8, id)",),
    sort_by=("id asc",),
    keys=("id",),
    properties={"write.merge.mode": "copy-on-write", "write.distribution-mode": "hash"},
)

EVENTS = IcebergTableSpec(
    name="events",
    description="Append-only: what happened, when.",
    columns=(
        _column("event_id", "string", required=True, doc="Identifies the event"),
        _column("event_type", "string", required=True, doc="What happened"),
        _column("occurred_at", "timestamptz", required=True, doc="When it happened"),
        _column("ingested_at", "timestamptz", doc="When it arrived"),
        _column("source", "string", doc="Where it came from"),
        _column("payload", "string", doc="Details, as JSON"),
    ),
    partition_by=("day(occurred_at)",),
    sort_by=("event_type asc", "occurred_at asc"),
    properties={"write.distribution-mode": "hash"},
)

METRICS = IcebergTableSpec(
    name="metrics",
    description="Time series: one number a metric and moment.",
    columns=(
        _column("metric", "string", required=True, doc="Name of the metric"),
        _column("measured_at", "timestamptz", required=True, doc="When it was measured"),
        _column("value", "double", required=True, doc="The number"),
        _column("unit", "string", doc="Unit of the number"),
        _column("labels", "map<string, string>", doc="Dimensions"),
    ),
    partition_by=("month(measured_at)",),
    sort_by=("metric asc", "measured_at asc"),
    # Scans read few columns of many rows: larger files pay.
    properties={"write.target-file-size-bytes": str(256 * 1024 * 1024), "write.distribution-mode": "hash"},
)

DEFAULT_TABLES = (MAIN, EVENTS, METRICS)
