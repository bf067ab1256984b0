"""The source of an IO manager's tables, opened once on first use."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from floe_core.errors import ConfigurationError
from floe_core.plugins.host.connecting import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.catalog import Catalog

    from floe_core.plugins import PluginRegistry
    from floe_core.schemas import CompiledArtifacts, TableConfig
    from floe_dagster.gate.results import CheckResults
    from floe_dagster.telemetry.observer import RunObserver
    from floe_iceberg.manager import IcebergTableManager
    from floe_tenancy import TenantTables


class TablesSource:
    """Opens a table manager on first use and shares it afterwards.

    Attributes:
        declared: The project's table declarations, by name.
        check_results: The check results table; None if results are not stored.
        observer: Observes runs that use the tables; None outside of a project.
    """

    def __init__(
        self, opener: Callable[[], IcebergTableManager], *, declared: Mapping[str, TableConfig] | None = None
    ) -> None:
        """Store the function that opens the tables."""
        self._open = opener
        self._lock = threading.Lock()
        self._manager: IcebergTableManager | None = None
        self._tenants: TenantTables | None = None
        self.declared = declared or {}
        self.check_results: CheckResults | None = None
        self.observer: RunObserver | None = None

    @classmethod
    def of(cls, manager: IcebergTableManager) -> TablesSource:
        """Use a manager that is already open."""
        return cls(lambda: manager)

    @classmethod
    def of_catalog(cls, catalog: Catalog) -> TablesSource:
        """Use a connected catalog."""

        def opener() -> IcebergTableManager:
            from floe_iceberg.manager import IcebergTableManager

            return IcebergTableManager(catalog)

        return cls(opener)

    @classmethod
    def of_artifacts(cls, artifacts: CompiledArtifacts, *, registry: PluginRegistry | None = None) -> TablesSource:
        """Use a compiled project, by default with all installed plugins."""

        def opener() -> IcebergTableManager:
            from floe_iceberg.catalog.connection import open_project
            from floe_iceberg.manager import IcebergTableManager

            connection = open_project(artifacts, registry=registry)
            if artifacts.orchestration.per_tenant:
                from floe_tenancy import TenantTables

                source._tenants = TenantTables(connection)
            return IcebergTableManager.from_project(connection)

        from floe_dagster.gate.results import CheckResults

        source = cls(opener, declared=artifacts.tables)
        source.check_results = CheckResults.of(artifacts, source)
        return source

    @classmethod
    def rest(cls, **connection: Any) -> TablesSource:  # noqa: ANN401 - the fields of PolarisCatalogConfig
        """Connect to a REST catalog."""

        def opener() -> IcebergTableManager:
            from floe_iceberg.manager import IcebergTableManager
            from floe_polaris import PolarisCatalogConfig, create_catalog

            try:
                config = PolarisCatalogConfig(**connection)
            except ValidationError as err:
                raise refused(err, "The connection of the IO manager") from None
            return IcebergTableManager(create_catalog(config))

        return cls(opener)

    def tables(self) -> IcebergTableManager:
        """Return the table manager."""
        with self._lock:
            if self._manager is None:
                self._manager = self._open()
            return self._manager

    def required_tenants(self) -> TenantTables:
        """Return the tables of tenants.

        Raises:
            ConfigurationError: This is not a project with one pipeline per tenant.
        """
        self.tables()
        if self._tenants is None:
            msg = "This IO manager does not support tenants."
            raise ConfigurationError(msg, hint="Use the project's 'io_manager' resource instead of your own.")
        return self._tenants

    def close(self) -> None:
        """Close the manager if it was opened here."""
        with self._lock:
            manager, self._manager = self._manager, None
        if manager is not None:
            manager.close()
