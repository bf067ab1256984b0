"""Spark sessions, created through public API only, on a classic driver or Spark Connect.

PySpark allows one kind of Spark per process. An engine provides its sessions: one for the user's frames, and private
ones with separate configuration, each used by one operation at a time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pyspark.logger import PySparkLogger

from floe_core.errors import EngineUnavailableError
from floe_core.telemetry import get_logger
from floe_spark.plane.sql import tag_of
from floe_spark.server.connect_server import join_server
from floe_spark.session.classic import CATALOG_PREFIX, ClassicEngine, running_driver
from floe_spark.session.connect import ConnectEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from floe_spark.session.settings import SparkSettings


class SparkEngine(Protocol):
    """Provides sessions of one running Spark."""

    @property
    def shares_files(self) -> bool:
        """Whether Spark can read files on this machine."""
        ...

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session with access to the catalog, for the user's frames."""
        ...

    def acquire_session(self, conf: Mapping[str, str]) -> SparkSession:
        """Return a private session with this configuration, an idle one if available."""
        ...

    def release_session(self, session: SparkSession, conf: Mapping[str, str]) -> None:
        """Return a private session to the pool; its configuration must be unchanged."""
        ...

    def run_in(self, session: SparkSession, work: Callable[[], None]) -> None:
        """Run work in a private session, in the thread where that session is active."""
        ...

    def announce(self, operation_id: str, session: SparkSession) -> None:
        """Publish the session of an operation for other processes."""
        ...

    def withdraw(self, operation_id: str, session: SparkSession) -> None:
        """Withdraw the announcement of an operation that has ended."""
        ...

    def cancel_and_wait(self, operation_id: str, session: SparkSession | None, *, timeout_seconds: float) -> bool:
        """Cancel an operation in its session, or in one left by a dead process; return whether it has ended."""
        ...

    def release(self) -> None:
        """Stop Spark if this engine started it and nothing else in the process uses it."""
        ...


def open_engine(settings: SparkSettings) -> SparkEngine:
    """Start Spark according to the settings, or join the Spark that this process already uses.

    A running local server of the project is used if it matches the settings.

    Raises:
        EngineSetupError: Java or a jar is missing, or the process already uses the other kind of Spark.
        EngineUnavailableError: Spark did not start, or the server does not respond.
    """
    _silence_error_log()
    if settings.remote:
        return ConnectEngine(settings.master, settings)
    if settings.local and running_driver() is None and (joined := join_server(settings)) is not None:
        server, lease = joined
        get_logger("floe.spark").info("spark.attach", server=server.address, pid=server.pid)
        return ConnectEngine(server.url, settings, server=server, lease=lease)
    return ClassicEngine(settings)


def _silence_error_log() -> None:
    # PySpark logs each DataFrame error as a page of JSON in addition to raising it.
    PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)


@dataclass
class Operations:
    """The operations of a data plane and their sessions."""

    engine: SparkEngine
    conf: Mapping[str, str] = field(repr=False)
    _running: dict[str, SparkSession] = field(default_factory=dict)

    def run(self, operation_id: str, session: SparkSession, work: Callable[[], None]) -> None:
        """Run an operation in the session of its frame."""
        self._track(operation_id, session, lambda: tagged(operation_id, session, work))

    def run_privately(
        self, operation_id: str, extra_conf: Mapping[str, str], work: Callable[[SparkSession], None]
    ) -> None:
        """Run an operation in a private session with its own configuration.

        The session is reused afterwards, because Spark never closes a catalog that it opened in a session: a new
        session per operation would leak a database connection each time.
        """
        session = self.engine.acquire_session(self.conf)

        def configured() -> None:
            for key, value in extra_conf.items():
                session.conf.set(key, value)
            try:
                tagged(operation_id, session, lambda: work(session))
            finally:
                for key in extra_conf:
                    session.conf.unset(key)

        try:
            self._track(operation_id, session, lambda: self.engine.run_in(session, configured))
        finally:
            if operation_id not in self._running:
                self.engine.release_session(session, self.conf)

    def cancel_and_wait(self, operation_id: str, *, timeout_seconds: float) -> bool:
        """Cancel an operation whose outcome is unknown, in this or another process; return whether it has ended."""
        session = self._running.get(operation_id)
        ended = self.engine.cancel_and_wait(operation_id, session, timeout_seconds=timeout_seconds)
        if ended:
            self._running.pop(operation_id, None)
        return ended

    def _track(self, operation_id: str, session: SparkSession, work: Callable[[], None]) -> None:
        """Track the session until the operation has ended; after an interrupt or a lost Spark, it may still run."""
        self.engine.announce(operation_id, session)
        self._running[operation_id] = session
        try:
            work()
        except EngineUnavailableError:
            raise
        except Exception:
            self._ended(operation_id, session)
            raise
        self._ended(operation_id, session)

    def _ended(self, operation_id: str, session: SparkSession) -> None:
        self._running.pop(operation_id, None)
        self.engine.withdraw(operation_id, session)


def ensure_catalog(session: SparkSession, catalog: str, conf: Mapping[str, str]) -> bool:
    """Register the catalog in a session; return False if the session has another catalog of that name."""
    if session.conf.get(CATALOG_PREFIX + catalog, None) is not None:
        return all(session.conf.get(key, None) == value for key, value in conf.items() if CATALOG_PREFIX in key)
    for key, value in conf.items():
        if CATALOG_PREFIX in key:
            session.conf.set(key, value)
    return True


def tagged(operation_id: str, session: SparkSession, work: Callable[[], None]) -> None:
    """Run work under the operation's tag, by which it can be cancelled."""
    tag = tag_of(operation_id)
    session.addTag(tag)
    try:
        work()
    finally:
        session.removeTag(tag)
