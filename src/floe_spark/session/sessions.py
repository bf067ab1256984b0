"""Spark sessions through public API only, the same on a classic driver and on Spark Connect.

A process has one kind of Spark, as PySpark itself has it. An engine hands out sessions of it: the one that the user's
frames live in, and private ones that one operation at a time works in, with its own configuration.
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
    """Hands out sessions of one running Spark."""

    @property
    def shares_files(self) -> bool:
        """Whether Spark sees the files of this machine."""
        ...

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session that sees the catalog; the user's frames live in it."""
        ...

    def take(self, conf: Mapping[str, str]) -> SparkSession:
        """Return a private session of this configuration, idle or new."""
        ...

    def give_back(self, session: SparkSession, conf: Mapping[str, str]) -> None:
        """Take a private session back, as it was handed out."""
        ...

    def work_in(self, session: SparkSession, work: Callable[[], None]) -> None:
        """Do work in a private session, in the thread where it is the active one."""
        ...

    def announce(self, operation_id: str, session: SparkSession) -> None:
        """Let other processes find the session an operation works in."""
        ...

    def withdraw(self, operation_id: str, session: SparkSession) -> None:
        """Tell that the operation has ended."""
        ...

    def silence(self, operation_id: str, session: SparkSession | None, *, timeout_seconds: float) -> bool:
        """Cancel an operation, by its session or wherever a dead process left it; tell whether it has ended."""
        ...

    def release(self) -> None:
        """Stop what this engine started, once nobody in the process uses it any more."""
        ...


def open_engine(settings: SparkSettings) -> SparkEngine:
    """Open Spark as the settings ask, or join the Spark this process already has.

    A project's warm local server is used when it is there and fits.

    Raises:
        EngineSetupError: Java or a jar is missing, or the process already runs the other kind of Spark.
        EngineUnavailableError: Spark did not start, or the server does not answer.
    """
    _keep_errors_out_of_the_log()
    if settings.remote:
        return ConnectEngine(settings.master, settings)
    if settings.local and running_driver() is None and (joined := join_server(settings)) is not None:
        server, lease = joined
        get_logger("floe.spark").info("spark.attach", server=server.address, pid=server.pid)
        return ConnectEngine(server.url, settings, server=server, lease=lease)
    return ClassicEngine(settings)


def _keep_errors_out_of_the_log() -> None:
    # PySpark prints every error of a frame as a page of JSON, besides raising it.
    PySparkLogger.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)


@dataclass
class Operations:
    """The operations of one plane, and the sessions they work in."""

    engine: SparkEngine
    conf: Mapping[str, str] = field(repr=False)
    _running: dict[str, SparkSession] = field(default_factory=dict)

    def run(self, operation_id: str, session: SparkSession, work: Callable[[], None]) -> None:
        """Do the work of an operation in the session its frame lives in."""
        self._track(operation_id, session, lambda: tagged(operation_id, session, work))

    def run_privately(self, operation_id: str, own: Mapping[str, str], work: Callable[[SparkSession], None]) -> None:
        """Do the work of an operation in a session that carries its own configuration and is nobody else's.

        The session is used again afterwards, because a catalog that Spark opened in it is never closed: a new one for
        each operation would cost a database connection each time.
        """
        session = self.engine.take(self.conf)

        def configured() -> None:
            for key, value in own.items():
                session.conf.set(key, value)
            try:
                tagged(operation_id, session, lambda: work(session))
            finally:
                for key in own:
                    session.conf.unset(key)

        try:
            self._track(operation_id, session, lambda: self.engine.work_in(session, configured))
        finally:
            if operation_id not in self._running:
                self.engine.give_back(session, self.conf)

    def silence(self, operation_id: str, *, timeout_seconds: float) -> bool:
        """Cancel an operation whose end is not known, in this process or another; tell whether it has ended."""
        session = self._running.get(operation_id)
        quiet = self.engine.silence(operation_id, session, timeout_seconds=timeout_seconds)
        if quiet:
            self._running.pop(operation_id, None)
        return quiet

    def _track(self, operation_id: str, session: SparkSession, work: Callable[[], None]) -> None:
        """Keep the session findable until the operation has surely ended; an interrupt or a lost Spark is no end."""
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


def sees(session: SparkSession, catalog: str, conf: Mapping[str, str]) -> bool:
    """Make a session see the catalog; False when it knows another one of that name."""
    if session.conf.get(CATALOG_PREFIX + catalog, None) is not None:
        return all(session.conf.get(key, None) == value for key, value in conf.items() if CATALOG_PREFIX in key)
    for key, value in conf.items():
        if CATALOG_PREFIX in key:
            session.conf.set(key, value)
    return True


def tagged(operation_id: str, session: SparkSession, work: Callable[[], None]) -> None:
    """Do work under the operation's tag, by which it can be cancelled."""
    tag = tag_of(operation_id)
    session.addTag(tag)
    try:
        work()
    finally:
        session.removeTag(tag)
