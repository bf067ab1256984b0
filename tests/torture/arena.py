"""Catalogs and tables of a torture run, and how processes connect to them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture.operations import SCHEMA

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import FloeStorageError
from floe_core.schemas import AccessDelegation, CatalogConfig, CircuitBreakerConfig, RetryConfig, TimeoutConfig
from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_TRIES = 100
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "history.expire.min-snapshots-to-keep": "5",
}


@dataclass(frozen=True)
class Arena:
    """One catalog.

    Attributes:
        name: What the report calls it.
        root: Folder of an embedded catalog; empty over REST.
        uri: Address over REST; empty for an embedded catalog.
        tables: Its tables with their format versions.
        store: Properties of the object store over REST; none when the catalog vends credentials.
    """

    name: str
    tables: dict[str, int]
    root: str = ""
    uri: str = ""
    store: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return asdict(self)

    @property
    def is_embedded(self) -> bool:
        return bool(self.root)

    def plugin(self) -> SqlCatalogPlugin:
        """Return the embedded catalog's plugin, connected as a project does."""
        plugin = SqlCatalogPlugin()
        config = CatalogConfig(name="lake", type="sql", uri="catalog.db", warehouse=f"file://{self.root}/warehouse")
        plugin.connect(config, file_io={}, project_root=Path(self.root))
        return plugin

    def catalog(self) -> Catalog:
        """Connect."""
        if self.is_embedded:
            return self.plugin().catalog
        return create_catalog(
            PolarisCatalogConfig(
                name="lake",
                uri=self.uri,
                warehouse="lake",
                client_id=CLIENT_ID,
                client_secret=CLIENT_SECRET,
                access_delegation=AccessDelegation.NONE if self.store else AccessDelegation.VENDED_CREDENTIALS,
                properties=self.store,
                retry=RetryConfig(max_attempts=4, initial_wait_seconds=0.1, max_wait_seconds=1.0, jitter_seconds=0.1),
                timeouts=TimeoutConfig(connect_seconds=2.0, read_seconds=8.0, total_seconds=60.0),
                circuit_breaker=CircuitBreakerConfig(failure_threshold=5, reset_timeout_seconds=1.0),
            )
        )

    def patient_catalog(self) -> Catalog:
        """Connect as an orchestrator's retries would: the disk may be full right now, or the catalog away."""
        for _ in range(_TRIES):
            with contextlib.suppress(FloeStorageError):
                return self.catalog()
            time.sleep(0.5)
        return self.catalog()

    def manager(self, catalog: Catalog | None = None, **options: object) -> IcebergTableManager:
        """Open a manager."""
        config = IcebergTableManagerConfig(commit_timeout_seconds=60)
        return IcebergTableManager(catalog or self.patient_catalog(), config=config, **options)

    def create(self) -> None:
        """Make the tables."""
        manager = self.manager()
        for table, version in self.tables.items():
            manager.create_namespace(table.rpartition(".")[0])
            properties = {**_PROPERTIES, "format-version": str(version)}
            manager.create_table(table, SCHEMA, partition_spec=["part"], properties=properties)
        manager.catalog.close()
