"""PyIceberg's SQL catalog, made fit to be shared by many processes and with Spark's JDBC catalog."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NamespaceNotEmptyError, NoSuchViewError
from sqlalchemy import and_, delete, event, func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateTable

from floe_catalogs.failures import translate_failure
from floe_catalogs.own_settings import OwnSettings
from floe_catalogs.retried import RetriedReads

if TYPE_CHECKING:
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.typedef import Identifier, Properties
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import InstrumentedAttribute

    from floe_catalogs.database import Database
    from floe_core.plugins import CatalogPlugin

# Iceberg's JdbcCatalog keeps a namespace alive with this row and never shows it.
EXISTS_PROPERTY = "exists"
# Any number will do, as long as every floe uses the same one.
_CREATE_TABLES_LOCK = 0x666C6F65


class SharedSqlCatalog(OwnSettings, SqlCatalog):
    """A SQL catalog whose set-up many processes may race, with namespaces as Iceberg's JdbcCatalog has them."""

    def __init__(self, name: str, database: Database, **properties: str) -> None:
        """Open the database and make the catalog's tables when they are missing."""
        # SqlCatalog's own constructor takes neither an engine nor connection arguments.
        MetastoreCatalog.__init__(self, name, schema_version="v1", **properties)
        self._database = database
        self.engine = database.engine()
        # Nobody has to call close(): a catalog that is dropped gives its connections back.
        weakref.finalize(self, self.engine.dispose)
        event.listen(self.engine, "handle_error", translate_failure(database))
        if database.is_sqlite:
            self._allow_readers_beside_a_writer()
        self._init_catalog()

    def __repr__(self) -> str:
        """Name the catalog and its address; its properties hold secrets and stay out."""
        return f"SharedSqlCatalog(name={self.name!r}, uri={self._database.shown!r})"

    @property
    def catalog_plugin(self) -> CatalogPlugin:
        """The plugin that knows what this catalog can do, and how Spark opens it."""
        from floe_catalogs.sql import SqlCatalogPlugin

        return SqlCatalogPlugin().adopt(self, self._database)

    def _allow_readers_beside_a_writer(self) -> None:
        with self.engine.connect() as connection:
            if connection.execute(text("PRAGMA journal_mode")).scalar() != "wal":
                connection.execute(text("PRAGMA journal_mode=WAL"))

    def create_tables(self) -> None:
        """Create the catalog's tables; several processes may do so at once."""
        with self.engine.begin() as connection:
            if not self._database.is_sqlite:
                connection.execute(select(func.pg_advisory_xact_lock(_CREATE_TABLES_LOCK)))
            for table in SqlCatalogBaseTable.metadata.sorted_tables:
                connection.execute(CreateTable(table, if_not_exists=True))

    def _get_default_warehouse_location(self, database_name: str, table_name: str) -> str:
        # Spark's JdbcCatalog makes a folder of each level; PyIceberg would write ns1.ns2 as one.
        location = self.load_namespace_properties(database_name).get("location")
        base = location or "/".join([self.properties["warehouse"], *database_name.split(".")])
        return f"{base.rstrip('/')}/{table_name}"

    def namespace_exists(self, identifier: str | Identifier) -> bool:
        """Tell whether the namespace, or anything below it, is there; case matters."""
        namespace = Catalog.namespace_to_string(Catalog.identifier_to_tuple(identifier))
        with Session(self.engine) as session:
            # A namespace of its own is found by key; only one that is merely implied needs a search.
            return any(
                session.execute(
                    select(column).where(catalog == self.name, condition(column, namespace)).limit(1)
                ).first()
                for condition in (_at, self._below)
                for catalog, column in _NAMESPACE_COLUMNS
            )

    def _below(self, column: InstrumentedAttribute[str], namespace: str) -> ColumnElement[bool]:
        below = f"{namespace}."
        if self._database.is_sqlite:
            # A range of keys, so that the cost does not grow with the catalog; SQLite compares bytes.
            return and_(column >= below, column < f"{namespace}{chr(ord('.') + 1)}")
        return func.substr(column, 1, len(below)) == below

    def create_namespace(self, namespace: str | Identifier, properties: Properties | None = None) -> None:
        """Create a namespace that stays when its last property is removed."""
        try:
            super().create_namespace(namespace, {**(properties or {}), EXISTS_PROPERTY: "true"})
        except IntegrityError as err:
            # Another process inserted the same rows between the look and the insert.
            msg = f"Namespace {Catalog.namespace_to_string(namespace)} already exists"
            raise NamespaceAlreadyExistsError(msg) from err

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Drop a namespace with nothing in it: no table, no view, no other namespace."""
        if children := self.list_namespaces(namespace):
            msg = f"Namespace {Catalog.namespace_to_string(namespace)} holds {len(children)} namespaces."
            raise NamespaceNotEmptyError(msg)
        if views := self.list_views(namespace):
            names = ", ".join(view[-1] for view in views)
            msg = f"Namespace {Catalog.namespace_to_string(namespace)} holds views: {names}."
            raise NamespaceNotEmptyError(msg)
        super().drop_namespace(namespace)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """List the views of a namespace, which Spark makes in the same table."""
        statement = select(IcebergTables.table_name).where(self._is_view(namespace))
        with Session(self.engine) as session:
            return [(*Catalog.identifier_to_tuple(namespace), name) for name in sorted(session.scalars(statement))]

    def drop_view(self, identifier: str | Identifier) -> None:
        """Drop a view.

        Raises:
            NoSuchViewError: There is no such view.
        """
        *namespace, name = Catalog.identifier_to_tuple(identifier)
        statement = delete(IcebergTables).where(self._is_view(tuple(namespace)), IcebergTables.table_name == name)
        with Session(self.engine) as session:
            dropped = session.scalars(statement.returning(IcebergTables.table_name)).all()
            session.commit()
        if not dropped:
            msg = f"View does not exist: {Catalog.namespace_to_string(identifier)}"
            raise NoSuchViewError(msg)

    def _is_view(self, namespace: str | Identifier) -> ColumnElement[bool]:
        return and_(
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == Catalog.namespace_to_string(namespace),
            IcebergTables.iceberg_type == "VIEW",
        )

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Return the properties people set."""
        properties = super().load_namespace_properties(namespace)
        return {key: value for key, value in properties.items() if key != EXISTS_PROPERTY}

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties | None = None
    ) -> PropertiesUpdateSummary:
        """Set and remove properties; the row that keeps the namespace alive is out of reach."""
        kept = {key: value for key, value in (updates or {}).items() if key != EXISTS_PROPERTY}
        return super().update_namespace_properties(namespace, (removals or set()) - {EXISTS_PROPERTY}, kept)


class RetriedSqlCatalog(RetriedReads, SharedSqlCatalog):
    """The shared catalog with its looks repeated; what it changes is not."""


def _at(column: InstrumentedAttribute[str], namespace: str) -> ColumnElement[bool]:
    return column == namespace


_NAMESPACE_COLUMNS = (
    (IcebergNamespaceProperties.catalog_name, IcebergNamespaceProperties.namespace),
    (IcebergTables.catalog_name, IcebergTables.table_namespace),
)
