"""The database of a SQL catalog (a SQLite file or PostgreSQL), as SQLAlchemy and JDBC connect to it."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Engine, Pool, create_engine, make_url
from sqlalchemy.exc import ArgumentError

from floe_core.errors import ConfigProblem, ConfigurationError, MissingDependencyError, StorageError
from floe_core.runtime.spark_packages import POSTGRESQL_JDBC, SQLITE_JDBC

if TYPE_CHECKING:
    from pydantic import SecretStr

    from floe_core.schemas import CatalogConfig, TimeoutConfig

DEFAULT_SQLITE_FILE = ".floe/catalog.db"
# Long enough for sixteen writers to queue on one file; each holds the lock for milliseconds.
BUSY_TIMEOUT_SECONDS = 60

_inherited_pools: list[Pool] = []
_POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


@dataclass(frozen=True)
class Database:
    """One catalog database.

    Attributes:
        url: SQLAlchemy URL, without a password.
        password: The password, if any.
        timeouts: Deadlines for connecting and for each statement.
    """

    url: URL
    timeouts: TimeoutConfig
    password: SecretStr | None = field(default=None, repr=False)

    @classmethod
    def from_config(cls, config: CatalogConfig, *, project_root: Path) -> Database:
        """Read the ``catalog`` section.

        Raises:
            ConfigurationError: The URI does not name a SQLite or PostgreSQL database.
            MissingDependencyError: The URI names a PostgreSQL database, and the extra ``postgres`` is not installed.
        """
        uri = config.uri or DEFAULT_SQLITE_FILE
        if "://" not in uri:
            return cls(_sqlite_url(project_root / uri), config.timeouts)
        try:
            url = make_url(uri)
        except (ArgumentError, ValueError) as err:
            raise _unsupported(uri.partition("://")[0]) from err
        if url.drivername == "sqlite":
            return cls(_sqlite_url(project_root / (url.database or DEFAULT_SQLITE_FILE)), config.timeouts)
        if url.drivername in _POSTGRES_SCHEMES:
            return cls._postgres(url, config)
        raise _unsupported(url.drivername)

    @classmethod
    def _postgres(cls, url: URL, config: CatalogConfig) -> Database:
        if find_spec("psycopg") is None:
            what = "A PostgreSQL catalog"
            raise MissingDependencyError(what, extra="postgres")
        from pydantic import SecretStr

        password = config.credentials.password.resolve() if config.credentials.password else None
        if password is None and url.password:
            password = SecretStr(str(url.password))
        username = config.credentials.username or url.username
        # URL.set() cannot remove a password, so the URL is rebuilt.
        without_password = URL.create(
            "postgresql+psycopg", username, host=url.host, port=url.port, database=url.database, query=url.query
        )
        return cls(without_password, config.timeouts, password)

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a SQLite file."""
        return self.url.drivername == "sqlite"

    @property
    def display_url(self) -> str:
        """The URL without a password, for messages."""
        if self.is_sqlite:
            return f"sqlite:///{self.url.database}"
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)

    def engine(self) -> Engine:
        """Return an engine that waits for other writers within the configured deadlines.

        Raises:
            StorageError: The folder of a SQLite file cannot be created.
        """
        if self.is_sqlite:
            try:
                Path(str(self.url.database)).parent.mkdir(parents=True, exist_ok=True)
            except OSError as err:
                msg = f"Cannot create the folder for the catalog file {self.url.database}: {err.strerror}."
                raise StorageError(msg, hint="Check catalog.uri and the folder's permissions.") from err
            # Without a pool, SQLite would checkpoint the whole WAL whenever the last connection closes, which takes
            # 14 ms per commit instead of 1.
            engine = create_engine(self.url, max_overflow=-1, connect_args={"timeout": BUSY_TIMEOUT_SECONDS})
        else:
            engine = create_engine(
                self.url.set(password=self.password.get_secret_value()) if self.password else self.url,
                pool_pre_ping=True,
                pool_timeout=self.timeouts.total_seconds,
                connect_args=self._postgres_arguments(),
            )
        _forget_connections_in_forks(engine)
        return engine

    def _postgres_arguments(self) -> dict[str, Any]:
        return {
            "connect_timeout": max(1, round(self.timeouts.connect_seconds)),
            "options": f"-c statement_timeout={round(self.timeouts.total_seconds * 1000)}",
            # Detects, within the read deadline, a server that disappeared without closing the connection.
            "tcp_user_timeout": round(self.timeouts.read_seconds * 1000),
            "application_name": "floe",
        }

    @property
    def jdbc_package(self) -> str:
        """Maven package of the JDBC driver."""
        return SQLITE_JDBC if self.is_sqlite else POSTGRESQL_JDBC

    def jdbc_properties(self) -> dict[str, str]:
        """Return the properties for Iceberg's ``JdbcCatalog``, including the password."""
        if self.is_sqlite:
            return {"uri": f"jdbc:sqlite:{self.url.database}", "jdbc.busy_timeout": str(BUSY_TIMEOUT_SECONDS * 1000)}
        query = "&".join(f"{key}={value}" for key, value in self.url.normalized_query.items() for value in value)
        address = f"{self.url.host or '127.0.0.1'}:{self.url.port or 5432}/{self.url.database or ''}"
        properties = {"uri": f"jdbc:postgresql://{address}{'?' + query if query else ''}"}
        if self.url.username:
            properties["jdbc.user"] = self.url.username
        if self.password:
            properties["jdbc.password"] = self.password.get_secret_value()
        properties["jdbc.connectTimeout"] = str(max(1, round(self.timeouts.connect_seconds)))
        properties["jdbc.socketTimeout"] = str(max(1, round(self.timeouts.total_seconds)))
        return properties


def _forget_connections_in_forks(engine: Engine) -> None:
    """Give forked children their own connections: SQLite and PostgreSQL connections must not be used after a fork."""
    known = weakref.ref(engine)

    def forget() -> None:
        if (inherited := known()) is not None:
            # Keep the inherited connections alive but unused: closing them would end the parent's sessions.
            _inherited_pools.append(inherited.pool)
            inherited.dispose(close=False)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def _sqlite_url(path: Path) -> URL:
    return URL.create("sqlite", database=str(path.expanduser().absolute()))


def _unsupported(scheme: str) -> ConfigurationError:
    problem = ConfigProblem(
        f"the sql catalog does not support '{scheme}' databases",
        path="catalog.uri",
        fix="Set a file such as .floe/catalog.db, sqlite:///path/catalog.db or postgresql://host/database.",
    )
    msg = "Invalid sql catalog address."
    return ConfigurationError(msg, problems=[problem])
