"""PyIceberg's SQL catalog, safe for many processes and for Spark's JDBC catalog on the same database.

PyIceberg's own commit reads, copies and validates the whole history several times, so each append costs more than the
last. This catalog does not reread a metadata file that this process has read or written, and a commit is a single
compare-and-swap on the catalog's row.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalog, SqlCatalogBaseTable
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchTableError,
    NoSuchViewError,
)
from pyiceberg.io import load_file_io
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AssertCreate
from sqlalchemy import and_, delete, event, func, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateTable

from floe_catalogs.retried import RetriedReads
from floe_catalogs.sql.changes import next_version, with_snapshot, with_updates
from floe_catalogs.sql.failures import translate_failure
from floe_catalogs.sql.metadata_cache import MetadataCache, copy_of
from floe_catalogs.sql.rows import TableRows
from floe_catalogs.trusted_file_io import TrustedFileIO
from floe_iceberg.catalog.locations import location_provider
from floe_iceberg.pyiceberg_internals.catalogs import TableLocationHook, create_sql_tables

if TYPE_CHECKING:
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import InstrumentedAttribute

    from floe_catalogs.sql.database import Database
    from floe_core.plugins import CatalogPlugin

# Iceberg's JdbcCatalog marks a namespace as existing with this property and hides it from users.
EXISTS_PROPERTY = "exists"
# An arbitrary number, the same in every process.
_CREATE_TABLES_LOCK = 0x666C6F65


class SharedSqlCatalog(TrustedFileIO, TableLocationHook, SqlCatalog):
    """A SQL catalog that several processes may initialize at once; its namespaces work like those of JdbcCatalog.

    Attributes:
        reports_outcomes: A commit with an unknown outcome raises an error; see ``floe_iceberg.catalog.traits``.
        answers_once: The database runs each statement once.
    """

    reports_outcomes = True
    answers_once = True

    def __init__(self, name: str, database: Database, **properties: str) -> None:
        """Open the database and create the catalog's tables if they are missing."""
        # SqlCatalog's constructor accepts neither an engine nor connection arguments.
        MetastoreCatalog.__init__(self, name, schema_version="v1", **properties)
        self._database = database
        self.engine = database.engine()
        self._rows = TableRows(self.engine, name)
        self._metadata = MetadataCache()
        # Closes the connections of a catalog that is garbage-collected without being closed.
        weakref.finalize(self, self.engine.dispose)
        event.listen(self.engine, "handle_error", translate_failure(database))
        if database.is_sqlite:
            self._allow_readers_during_writes()
        create_sql_tables(self)

    def __repr__(self) -> str:
        """Show the catalog's name and address, but not its properties, which contain secrets."""
        return f"SharedSqlCatalog(name={self.name!r}, uri={self._database.display_url!r})"

    @property
    def catalog_plugin(self) -> CatalogPlugin:
        """The plugin with this catalog's capabilities and its Spark configuration."""
        from floe_catalogs.sql import SqlCatalogPlugin

        return SqlCatalogPlugin().adopt(self, self._database)

    def _allow_readers_during_writes(self) -> None:
        with self.engine.connect() as connection:
            if connection.execute(text("PRAGMA journal_mode")).scalar() != "wal":
                connection.execute(text("PRAGMA journal_mode=WAL"))

    def create_tables(self) -> None:
        """Create the catalog's tables; safe to call from several processes at once."""
        with self.engine.begin() as connection:
            if not self._database.is_sqlite:
                connection.execute(select(func.pg_advisory_xact_lock(_CREATE_TABLES_LOCK)))
            for table in SqlCatalogBaseTable.metadata.sorted_tables:
                connection.execute(CreateTable(table, if_not_exists=True))

    def place_table(self, namespace: str, table: str) -> str:
        """Return the default location of a table: a folder for each level of its namespace, as in Spark's catalog."""
        location = self.load_namespace_properties(namespace).get("location")
        base = location or "/".join([self.properties["warehouse"], *namespace.split(".")])
        return f"{base.rstrip('/')}/{table}"

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table; the metadata file is read only if it is not cached.

        Raises:
            NoSuchTableError: The table does not exist.
        """
        name = Catalog.identifier_to_tuple(identifier)
        location = self._rows.metadata_location(name)
        io = self._file_io(location)
        metadata = self._metadata.read(name, location, io)
        return Table(identifier=name, metadata=metadata, metadata_location=location, io=io, catalog=self)

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Return whether a table is registered, even if its metadata file cannot be read."""
        try:
            self._rows.metadata_location(Catalog.identifier_to_tuple(identifier))
        except NoSuchTableError:
            return False
        return True

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Apply updates to the table's current metadata and swap its row, once.

        Raises:
            NoSuchTableError: The table does not exist.
            CommitFailedException: A requirement is not met, or another writer swapped the row first.
            CommitStateUnknownException: The reply to the swap was lost. After any other error, nothing has changed.
        """
        if any(isinstance(requirement, AssertCreate) for requirement in requirements):
            return super().commit_table(table, requirements, updates)
        name = table.name()
        base_location = self._rows.metadata_location(name)
        # Not the caller's copy, which the caller can have changed.
        base = self._metadata.read(name, base_location, self._file_io(base_location))
        for requirement in requirements:
            requirement.validate(base)
        changed = with_snapshot(base, base_location, updates)
        if changed is None:
            try:
                changed = with_updates(base, base_location, updates)
            except (ValueError, KeyError) as err:
                if base_location == table.metadata_location:
                    raise
                # The updates were built on another version of the table.
                msg = f"Table has been changed by another process: {'.'.join(name)}"
                raise CommitFailedException(msg) from err
            if changed == base:
                return CommitTableResponse(metadata=base, metadata_location=base_location)
        return self._swap(name, base_location, changed)

    def _swap(self, name: Identifier, base_location: str, changed: TableMetadata) -> CommitTableResponse:
        provider = location_provider(changed)
        location = provider.new_table_metadata_file_location(next_version(base_location))
        io = self._file_io(location)
        try:
            version = self._metadata.write(name, changed, location, io)
            self._rows.swap(name, base_location, location)
        except CommitStateUnknownException:
            raise
        except Exception:
            # No row references the file, and none ever will.
            with contextlib.suppress(Exception):
                io.delete(location)
            raise
        self._metadata.keep(name, version)
        return CommitTableResponse(metadata=copy_of(changed), metadata_location=location)

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:  # noqa: FBT001, FBT002 - PyIceberg's signature
        """Register a table from its metadata file.

        Raises:
            TableAlreadyExistsError: The table already exists.
        """
        self._metadata.forget(Catalog.identifier_to_tuple(identifier))
        return super().register_table(identifier, metadata_location, overwrite)

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        """Rename a table.

        Raises:
            NoSuchTableError: The table does not exist.
        """
        renamed = super().rename_table(from_identifier, to_identifier)
        self._metadata.forget(Catalog.identifier_to_tuple(from_identifier))
        return renamed

    def drop_table(self, identifier: str | Identifier) -> None:
        """Drop a table; its files stay.

        Raises:
            NoSuchTableError: The table does not exist.
        """
        super().drop_table(identifier)
        self._metadata.forget(Catalog.identifier_to_tuple(identifier))

    def _file_io(self, location: str) -> FileIO:
        # Unlike in PyIceberg, table properties do not configure the client; see TrustedFileIO.
        return load_file_io(self.properties, location)

    def namespace_exists(self, identifier: str | Identifier) -> bool:
        """Return whether the namespace, or anything below it, exists. Names are case-sensitive."""
        namespace = Catalog.namespace_to_string(Catalog.identifier_to_tuple(identifier))
        with Session(self.engine) as session:
            # A created namespace is found by key; only a namespace implied by its children needs a range scan.
            return any(
                session.execute(
                    select(column).where(catalog == self.name, condition(column, namespace)).limit(1)
                ).first()
                for condition in (_equals, self._below)
                for catalog, column in _NAMESPACE_COLUMNS
            )

    def _below(self, column: InstrumentedAttribute[str], namespace: str) -> ColumnElement[bool]:
        below = f"{namespace}."
        if self._database.is_sqlite:
            # A key range keeps the cost independent of the catalog's size. SQLite compares bytes.
            return and_(column >= below, column < f"{namespace}{chr(ord('.') + 1)}")
        return func.substr(column, 1, len(below)) == below

    def create_namespace(self, namespace: str | Identifier, properties: Properties | None = None) -> None:
        """Create a namespace that persists even if its last property is removed.

        Raises:
            NamespaceAlreadyExistsError: The namespace already exists.
        """
        try:
            super().create_namespace(namespace, {**(properties or {}), EXISTS_PROPERTY: "true"})
        except IntegrityError as err:
            # Another process inserted the same rows between the check and the insert.
            msg = f"Namespace {Catalog.namespace_to_string(namespace)} already exists"
            raise NamespaceAlreadyExistsError(msg) from err

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Drop an empty namespace.

        Raises:
            NamespaceNotEmptyError: The namespace contains a table, a view or another namespace.
        """
        if children := self.list_namespaces(namespace):
            msg = f"Namespace {Catalog.namespace_to_string(namespace)} has {len(children)} child namespaces."
            raise NamespaceNotEmptyError(msg)
        if views := self.list_views(namespace):
            names = ", ".join(view[-1] for view in views)
            msg = f"Namespace {Catalog.namespace_to_string(namespace)} has views: {names}."
            raise NamespaceNotEmptyError(msg)
        super().drop_namespace(namespace)

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """List the views of a namespace; Spark registers them in the same database table as the tables."""
        statement = select(IcebergTables.table_name).where(self._is_view(namespace))
        with Session(self.engine) as session:
            return [(*Catalog.identifier_to_tuple(namespace), name) for name in sorted(session.scalars(statement))]

    def drop_view(self, identifier: str | Identifier) -> None:
        """Drop a view.

        Raises:
            NoSuchViewError: The view does not exist.
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
        """Return the properties set by users."""
        properties = super().load_namespace_properties(namespace)
        return {key: value for key, value in properties.items() if key != EXISTS_PROPERTY}

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties | None = None
    ) -> PropertiesUpdateSummary:
        """Set and remove properties, except the one that marks the namespace as existing."""
        kept = {key: value for key, value in (updates or {}).items() if key != EXISTS_PROPERTY}
        return super().update_namespace_properties(namespace, (removals or set()) - {EXISTS_PROPERTY}, kept)


class RetriedSqlCatalog(RetriedReads, SharedSqlCatalog):
    """The shared catalog with retried reads; changes are not retried."""


def _equals(column: InstrumentedAttribute[str], namespace: str) -> ColumnElement[bool]:
    return column == namespace


_NAMESPACE_COLUMNS = (
    (IcebergNamespaceProperties.catalog_name, IcebergNamespaceProperties.namespace),
    (IcebergTables.catalog_name, IcebergTables.table_namespace),
)
