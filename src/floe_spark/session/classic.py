"""Spark sessions on a driver in this process."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from floe_core.errors import EngineSetupError, EngineUnavailableError
from floe_core.telemetry import get_logger
from floe_spark.java.jars import Jar
from floe_spark.plane.sql import tag_of
from floe_spark.session.settings import launch_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from floe_spark.session.settings import SparkSettings

    Conf = frozenset[tuple[str, str]]

# PySpark sets this permanently once a process has connected to a Spark Connect server.
CONNECT_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
_APP_NAME = "floe"
CATALOG_PREFIX = "spark.sql.catalog."
_POLL_SECONDS = 0.2


def running_driver() -> SparkSession | None:
    """Return the session of the driver in this process, even if floe did not start it."""
    if CONNECT_VARIABLE in os.environ:
        return None
    try:
        return SparkSession.active()
    except (PySparkRuntimeError, AssertionError):
        return None


class ClassicEngine:
    """Provides sessions of the one driver a process can have."""

    _lock = threading.RLock()
    # A process has one driver, so the user count of a driver started by floe, and its sessions, are per process too.
    _users: ClassVar[int] = 0
    _started: ClassVar[SparkSession | None] = None
    _siblings: ClassVar[dict[Conf, SparkSession]] = {}
    _idle: ClassVar[dict[Conf, list[SparkSession]]] = defaultdict(list)

    def __init__(self, settings: SparkSettings) -> None:
        """Join the running driver, or start one."""
        if CONNECT_VARIABLE in os.environ:
            msg = "This process already uses a Spark Connect server; PySpark allows one kind of Spark per process."
            raise EngineSetupError(msg, hint="Use a second process, or the same sc:// address for both.")
        self._settings = settings
        cls = type(self)
        with cls._lock:
            running = running_driver()
            if running is None:
                running = cls._started = _start(settings)
                cls._users = 0
                cls._forget()
            elif cls._started is not None:
                _require_jars(running, settings)
            self._root = running
            self._counted = cls._started is not None
            cls._users += self._counted

    @property
    def shares_files(self) -> bool:
        """Whether Spark can read files on this machine."""
        return self._settings.local

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return the driver's session, or a sibling session if the driver's has another catalog of that name."""
        cls = type(self)
        with cls._lock:
            known = self._root.conf.get(CATALOG_PREFIX + catalog, None)
            if known is None:
                return _configured(self._root, conf)
            if all(self._root.conf.get(key, None) == value for key, value in conf.items()):
                return self._root
            key = frozenset(conf.items())
            if key not in cls._siblings:
                cls._siblings[key] = self._new(conf)
            return cls._siblings[key]

    def acquire_session(self, conf: Mapping[str, str]) -> SparkSession:
        """Return a private session with this configuration, an idle one if available."""
        cls = type(self)
        with cls._lock:
            idle = cls._idle[frozenset(conf.items())]
            return idle.pop() if idle else self._new(conf)

    def release_session(self, session: SparkSession, conf: Mapping[str, str]) -> None:
        """Return a private session to the pool; its configuration must be unchanged."""
        cls = type(self)
        with cls._lock:
            cls._idle[frozenset(conf.items())].append(session)

    def run_in(self, session: SparkSession, work: Callable[[], None]) -> None:
        """Run work in a private session, in the current thread."""
        del session
        work()

    def announce(self, operation_id: str, session: SparkSession) -> None:
        """Do nothing: a driver's operations end with the process."""

    def withdraw(self, operation_id: str, session: SparkSession) -> None:
        """Do nothing: there is no announcement to withdraw."""

    def cancel_and_wait(self, operation_id: str, session: SparkSession | None, *, timeout_seconds: float) -> bool:
        """Cancel the operation's jobs in the session; without a session there is nothing to cancel."""
        deadline = time.monotonic() + timeout_seconds
        while session is not None and session.interruptTag(tag_of(operation_id)):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def release(self) -> None:
        """Stop the driver if floe started it and this was its last user."""
        cls = type(self)
        with cls._lock:
            if not self._counted:
                return
            self._counted = False
            cls._users -= 1
            if cls._users == 0:
                cls._started = None
                cls._forget()
                self._root.stop()

    def _new(self, conf: Mapping[str, str]) -> SparkSession:
        return _configured(self._root.newSession(), self._settings.session_conf() | dict(conf))

    @classmethod
    def _forget(cls) -> None:
        cls._siblings.clear()
        cls._idle.clear()


def _start(settings: SparkSettings) -> SparkSession:
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
                msg, hint="See Spark's log above for the reason, or run floe doctor to check the setup."
            ) from err


def _require_jars(running: SparkSession, settings: SparkSettings) -> None:
    """Require that the running driver has all jars, because jars cannot be added to it."""
    listed = running.conf.get("spark.jars", "") or ""
    packages = (running.conf.get("spark.jars.packages", "") or "").split(",")
    present = {PurePosixPath(path).name for path in listed.split(",")}
    present |= {Jar.from_coordinate(package).file_name for package in packages if package}
    missing = [name for name in settings.packages if Jar.from_coordinate(name).file_name not in present]
    if missing:
        msg = f"The Spark driver in this process was started without {', '.join(missing)}."
        raise EngineSetupError(msg, hint="Open the catalog that needs it first, or add it to compute.packages.")


def _configured(session: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for Spark's launcher during a block."""
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
