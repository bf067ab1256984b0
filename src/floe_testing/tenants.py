"""Tenants on the embedded catalog in a folder, for tests and benchmarks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.schemas import CatalogConfig
from floe_tenancy import CatalogProvider, IcebergCatalogBootstrapper, IcebergCatalogConfig
from floe_tenancy.layout.properties import catalog_properties

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog

FILE_IO = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}


@dataclass
class EmbeddedTenants:
    """A folder with an embedded catalog and a warehouse for tenants.

    Attributes:
        folder: Folder with the catalog's file and the warehouse.
        prefix: Parent namespace of the tenants.
        metadata: Whether table metadata is stored in a separate folder.
        place: Configuration fields that move the warehouse, for example to an object store.
    """

    folder: Path
    prefix: tuple[str, ...] = ("tenants",)
    metadata: bool = False
    place: dict[str, Any] = field(default_factory=dict)
    _plugins: list[SqlCatalogPlugin] = field(default_factory=list)

    @property
    def config(self) -> IcebergCatalogConfig:
        """Configuration of the tenants."""
        fields: dict[str, Any] = {
            "name": "floe",
            "provider": CatalogProvider.LOCAL,
            "warehouse_bucket": str(self.folder / "warehouse"),
            "metadata_bucket": str(self.folder / "metadata") if self.metadata else None,
            "namespace_prefix": self.prefix,
        }
        return IcebergCatalogConfig(**fields | self.place)

    def load(self, config: IcebergCatalogConfig) -> Catalog:
        """Open the embedded catalog."""
        plugin = SqlCatalogPlugin()
        self._plugins.append(plugin)
        warehouse = CatalogConfig(name=config.name, warehouse=config.warehouse.uri())
        file_io = catalog_properties(config) if self.place else FILE_IO
        return plugin.connect(warehouse, file_io=file_io, project_root=self.folder)

    @property
    def bootstrapper(self) -> IcebergCatalogBootstrapper:
        """A bootstrapper for this folder."""
        return IcebergCatalogBootstrapper(catalog_loader=self.load)

    def digests(self, tenant: str) -> dict[str, str]:
        """Return the digest of every file under a tenant's warehouse prefix."""
        root = self.folder / "warehouse" / self.config.warehouse_key_for(tenant)
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    def close(self) -> None:
        """Close all opened catalogs."""
        while self._plugins:
            self._plugins.pop().shutdown()
