"""Spark sessions through public API only, the same on a classic driver and on Spark Connect.

A process has one kind of Spark, as PySpark itself has it. An engine hands out sessions of it: the one that the user's
frames live in, and private ones that carry the configuration of a single operation and are seen by nobody else.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Protocol

from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from floe_core.errors import EngineSetupError, EngineUnavailableError
from floe_core.telemetry import get_logger
from floe_spark.connect_server import server_for
from floe_spark.settings import launch_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from floe_spark.connect_server import ServerInfo
    from floe_spark.settings import SparkSettings

_APP_NAME = "floe"
_CATALOG_PREFIX = "spark.sql.catalog."
# PySpark's own patience with a dead server is ten minutes.
_CONNECT_RETRIES = 6
_MODE_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
_POLL_SECONDS = 0.2
_DRIVER_THREADS = "java_method('java.lang.Thread', 'getAllStackTraces')"
_EXECUTION_THREAD = re.compile(r"SparkConnectExecuteThread_opId=([0-9a-f-]+)")


class SparkEngine(Protocol):
    """Hands out sessions of one running Spark."""

    @property
    def shares_files(self) -> bool:
        """Whether Spark sees the files of this machine."""
        ...

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session that sees the catalog; the user's frames live in it."""
        ...

    def private(self, operation_id: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session that carries the configuration of one operation."""
        ...

    def discard(self, session: SparkSession) -> None:
        """Give up a private session."""
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
    if settings.remote:
        return ConnectEngine(settings.master, settings)
    running = _running_classic()
    if running is None and settings.local and (server := server_for(settings)) is not None:
        get_logger("floe.spark").info("spark.attach", server=server.address, pid=server.pid)
        return ConnectEngine(server.url, settings, server=server)
    return ClassicEngine(settings, running)


class ClassicEngine:
    """A driver inside this process."""

    _lock = threading.Lock()
    # Spark's driver is one per process, so is the count of who uses the one floe started.
    _users = 0
    _started: SparkSession | None = None

    def __init__(self, settings: SparkSettings, running: SparkSession | None) -> None:
        """Join the running driver, or start one."""
        if _MODE_VARIABLE in os.environ:
            msg = "This process already talks to a Spark Connect server; PySpark allows one kind of Spark a process."
            raise EngineSetupError(msg, hint="Use a second process, or the same sc:// address for both.")
        self._settings = settings
        cls = type(self)
        with cls._lock:
            running = running or _running_classic()
            if running is None:
                running = cls._started = _start_classic(settings)
                cls._users = 0
            self._root = running
            self._counted = running is cls._started
            cls._users += self._counted

    @property
    def shares_files(self) -> bool:
        """Whether Spark sees the files of this machine."""
        return self._settings.local

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return the driver's session, or a sibling when it already knows another catalog of that name."""
        if not _offers(self._root, catalog, conf) and self._root.conf.get(_CATALOG_PREFIX + catalog, None) is not None:
            return _configured(self._root.newSession(), self._settings.session_conf() | dict(conf))
        if not _offers(self._root, catalog, conf):
            _configured(self._root, conf)
        return self._root

    def private(self, operation_id: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session that carries the configuration of one operation."""
        del operation_id
        return _configured(self._root.newSession(), self._settings.session_conf() | dict(conf))

    def discard(self, session: SparkSession) -> None:
        """Do nothing: a classic session ends with its last reference, and stopping it would stop the driver."""

    def silence(self, operation_id: str, session: SparkSession | None, *, timeout_seconds: float) -> bool:
        """Cancel what the session runs; without one there is nothing, because a driver dies with its process."""
        del operation_id
        return session is None or _comes_true(lambda: not session.interruptAll(), timeout_seconds)

    def release(self) -> None:
        """Stop the driver if floe started it and this was its last user."""
        cls = type(self)
        with cls._lock:
            if not self._counted:
                return
            self._counted = False
            cls._users -= 1
            if cls._users == 0 and self._root is cls._started:
                cls._started = None
                self._root.stop()


class ConnectEngine:
    """A Spark Connect server in another process."""

    # PySpark 4.1 joins its own thread pool when a session is garbage-collected; if the collector happens to run in one
    # of that pool's threads, the process hangs. So a session that users hold is kept, and a private one is emptied.
    _kept: ClassVar[list[SparkSession]] = []

    def __init__(self, url: str, settings: SparkSettings, *, server: ServerInfo | None = None) -> None:
        """Take the server's address; ``server`` tells that it is this project's own."""
        if _running_classic() is not None:
            msg = "This process already runs a Spark driver; PySpark allows one kind of Spark a process."
            raise EngineSetupError(msg, hint="Use a second process, or stop the other session first.")
        self._url = url
        self._settings = settings
        self._server = server
        self._sessions: list[SparkSession] = []

    @property
    def shares_files(self) -> bool:
        """Whether Spark sees the files of this machine."""
        return self._server is not None

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session of our own on the server."""
        del catalog
        session = self._create(self._url, self._settings.session_conf() | dict(conf))
        self._sessions.append(session)
        self._kept.append(session)
        return session

    def private(self, operation_id: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session whose id follows from the operation's, so that another process can find it."""
        for url in self._operation_urls(operation_id):
            try:
                return self._create(url, self._settings.session_conf() | dict(conf))
            except PySparkException as err:
                if not _closed_before(err):
                    raise
        raise AssertionError  # the addresses never end

    def discard(self, session: SparkSession) -> None:
        """Release the session on the server."""
        session.stop()
        vars(session).clear()

    def silence(self, operation_id: str, session: SparkSession | None, *, timeout_seconds: float) -> bool:
        """Cancel what runs in the operation's session, whichever process opened it, and wait until it has ended."""
        if self._server is not None and not self._server.alive:
            return True
        session = session or self.private(operation_id, {})
        # The server says what it cancels only once, and long before a commit under way has ended.
        cancelled = set(session.interruptAll())
        quiet = _comes_true(lambda: not cancelled or not cancelled & _executing(session), timeout_seconds)
        if quiet:
            self.discard(session)
        return quiet

    def release(self) -> None:
        """Release our sessions; the server goes on."""
        while self._sessions:
            self._sessions.pop().stop()

    def _operation_urls(self, operation_id: str) -> Iterator[str]:
        """Give the addresses of an operation's sessions: one that was released once can never be opened again."""
        attempt = 0
        while True:
            digest = hashlib.sha256(f"{operation_id}/{attempt}".encode()).digest()
            yield _with_parameter(self._url, "session_id", str(uuid.UUID(bytes=digest[:16], version=4)))
            attempt += 1

    def _create(self, url: str, conf: Mapping[str, str]) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        builder = SparkSession.builder.remote(url)
        for key, value in conf.items():
            builder = builder.config(key, value)
        with _unreachable_is_unavailable(url):
            # PySpark's decorators hide from type checkers what these two are.
            session: SparkSession = builder.create()  # type: ignore[operator, no-any-return, unused-ignore]
            session.client.set_retry_policies([DefaultPolicy(max_retries=_CONNECT_RETRIES)])  # type: ignore[operator]
        return session


def _running_classic() -> SparkSession | None:
    """Return the session of a driver inside this process."""
    if _MODE_VARIABLE in os.environ:
        return None
    try:
        return SparkSession.active()
    except (PySparkRuntimeError, AssertionError):
        return None


def _start_classic(settings: SparkSettings) -> SparkSession:
    java, jars = settings.resolve()
    builder = SparkSession.builder.master(settings.master).appName(_APP_NAME)
    for key, value in settings.driver_conf(jars).items():
        builder = builder.config(key, value)
    get_logger("floe.spark").info("spark.start", master=settings.master, java=java.version, java_from=java.source)
    with _environment(launch_environment(java, local=settings.local)):
        try:
            return builder.getOrCreate()
        except PySparkRuntimeError as err:
            msg = f"Spark did not start on {settings.master} with Java {java.version} ({java.home})."
            raise EngineUnavailableError(
                msg, hint="Its own log above says why; floe doctor checks the set-up."
            ) from err


def _offers(session: SparkSession, catalog: str, conf: Mapping[str, str]) -> bool:
    return session.conf.get(_CATALOG_PREFIX + catalog, None) is not None and all(
        session.conf.get(key, None) == value for key, value in conf.items()
    )


def _configured(session: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


def _executing(session: SparkSession) -> set[str]:
    """Return the ids of what the server executes, by the names of its driver's threads.

    A variable's default is evaluated on the driver, and reading it takes no executor, so that this answers at once
    even when every core is busy.
    """
    session.sql(f"DECLARE OR REPLACE VARIABLE floe_threads STRING DEFAULT {_DRIVER_THREADS}")
    rows = session.sql("SELECT * FROM VALUES (floe_threads)").collect()
    return set(_EXECUTION_THREAD.findall(rows[0][0]))


def _comes_true(condition: Callable[[], bool], timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _with_parameter(url: str, name: str, value: str) -> str:
    separator = ";" if "/;" in url else "/;"
    return f"{url.rstrip('/;')}{separator}{name}={value}"


def _closed_before(err: PySparkException) -> bool:
    return "SESSION_CLOSED" in str(err.getCondition() or err)


@contextmanager
def _unreachable_is_unavailable(url: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as err:
        if "UNAVAILABLE" not in str(err) and "retries" not in str(err).lower():
            raise
        address = url.partition("/;")[0]
        msg = f"The Spark Connect server at {address} does not answer."
        raise EngineUnavailableError(msg, hint="Check compute.master, or start a local one: floe spark start") from err


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables while Spark's launcher reads them."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
