"""Context of table operations: the catalog, settings, telemetry and the engine."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from floe_core.declaration.declared import declared_orphan_days, declared_retention
from floe_core.telemetry import Operation, traced
from floe_iceberg.errors import translated
from floe_iceberg.formats.avro_doubles import read_full_doubles
from floe_iceberg.models import IcebergTableManagerConfig, TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.trace import Tracer
    from pyiceberg.catalog import Catalog
    from structlog.typing import FilteringBoundLogger

    from floe_core.dataplane import DataPlane
    from floe_core.governance import RetentionDays
    from floe_core.telemetry import Logger
    from floe_iceberg.catalog.connection import ProjectConnection

TableTarget = str | TableIdentifier | Table


def _no_retention(table: str) -> RetentionDays | None:
    """Return None, because there is no project."""
    del table
    return None


def identifier_of(target: TableTarget) -> TableIdentifier:
    """Return the identifier of a table.

    Raises:
        InvalidIdentifierError: The text is not a valid table name.
    """
    if isinstance(target, TableIdentifier):
        return target
    if isinstance(target, Table):
        *namespace, name = target.name()
        return TableIdentifier(namespace=".".join(namespace), name=name)
    return TableIdentifier.from_string(target)


@dataclass(frozen=True)
class ManagerContext:
    """Context that is passed to every operation of the table manager.

    Attributes:
        catalog: The reconciling catalog (see ``catalog.reconciling``).
        config: The manager's settings.
        tracer: Tracer for spans.
        logger: Logger for events.
        plane: Returns the data plane and opens it on first use; raises if no engine is installed.
        branches: Whether the catalog supports branches.
        retention: Returns the project's snapshot retention of a table in days; None if it has none.
        orphan_days: Returns the project's minimum age of a table's orphan files in days; None if it has none.
    """

    catalog: Catalog
    config: IcebergTableManagerConfig
    tracer: Tracer
    logger: Logger | FilteringBoundLogger
    plane: Callable[[], DataPlane]
    branches: bool = True
    retention: Callable[[str], RetentionDays | None] = _no_retention
    orphan_days: Callable[[str], int | None] = _no_retention

    def __post_init__(self) -> None:
        """Fix PyIceberg's manifest decoder before the first manifest is read."""
        read_full_doubles()

    def for_project(self, connection: ProjectConnection) -> Self:
        """Return a context with the settings that a project declares for its tables."""
        return replace(
            self,
            branches=connection.catalog_plugin.capabilities.branches,
            retention=partial(declared_retention, connection.artifacts),
            orphan_days=partial(declared_orphan_days, connection.artifacts),
        )

    def load(self, target: TableTarget) -> Table:
        """Load the current version of a table through the reconciling catalog.

        Raises:
            TableNotFoundError: The table does not exist.
        """
        identifier = identifier_of(target)
        with (
            traced(
                "iceberg.load_table", tracer=self.tracer, logger=self.logger, within=True, table=str(identifier)
            ) as operation,
            translated(self.catalog, identifier),
        ):
            return self.loaded(operation, identifier)

    def loaded(self, operation: Operation, identifier: TableIdentifier, *, expected: bool = True) -> Table:
        """Load a table within an operation and log the result; a missing table is a warning if it was ``expected``."""
        self.logger.info("loading_table", table=str(identifier))
        try:
            table = self.catalog.load_table(identifier.parts)
        except NoSuchTableError:
            log = self.logger.warning if expected else self.logger.info
            log("table_not_found", table=str(identifier))
            raise
        metadata = table.metadata
        operation.set(snapshot_id=metadata.current_snapshot_id, schema_id=metadata.current_schema_id)
        self.logger.info("table_loaded", table=str(identifier), snapshot_id=metadata.current_snapshot_id)
        return table

    @contextmanager
    def operation(self, name: str, target: TableTarget, **attributes: Any) -> Iterator[Operation]:  # noqa: ANN401
        """Trace one operation on a table and translate its errors."""
        identifier = identifier_of(target)
        with (
            traced(name, tracer=self.tracer, logger=self.logger, table=str(identifier), **attributes) as operation,
            translated(self.catalog, identifier),
        ):
            yield operation

    @contextmanager
    def naming(self, target: TableTarget) -> Iterator[None]:
        """Translate the errors of a block into errors about another table."""
        with translated(self.catalog, identifier_of(target)):
            yield

    @contextmanager
    def traced(self, name: str, **attributes: Any) -> Iterator[Operation]:  # noqa: ANN401 - spans take several types
        """Trace one operation that is not about a single table."""
        with traced(name, tracer=self.tracer, logger=self.logger, **attributes) as operation:
            yield operation
