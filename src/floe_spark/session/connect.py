"""Spark sessions on a Spark Connect server in another process."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from floe_core.errors import ConcurrencyConflictError, EngineSetupError, EngineUnavailableError
from floe_spark.plane.sql import tag_of, text_literal
from floe_spark.session.classic import running_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from floe_spark.server.connect_server import ServerInfo
    from floe_spark.server.idle import Lease
    from floe_spark.session.settings import SparkSettings

_creation_lock = threading.Lock()
# With its default retries, PySpark waits ten minutes for a dead server.
_RETRIES = 6
_POLL_SECONDS = 0.2
_ANNOUNCED = "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"
_DRIVER_THREADS = "java_method('java.lang.Thread', 'getAllStackTraces')"
_EXECUTION_THREAD = re.compile(r"SparkConnectExecuteThread_opId=([0-9a-f-]+)")


class ConnectEngine:
    """Provides sessions on a server.

    The server outlives its clients and continues the operations of a killed client. Each operation therefore stores its
    session id in a global temporary view, where the next process finds it and can cancel the operation.
    """

    # PySpark 4.1 joins its own thread pool when a session is garbage-collected; if that happens in one of the pool's
    # own threads, the process hangs. Sessions are therefore kept until the process ends.
    _all_sessions: ClassVar[list[SparkSession]] = []

    def __init__(
        self, url: str, settings: SparkSettings, *, server: ServerInfo | None = None, lease: Lease | None = None
    ) -> None:
        """Connect to a server; ``server`` is set for the project's own server, which ``lease`` keeps running."""
        if running_driver() is not None:
            msg = "This process already runs a Spark driver; PySpark allows one kind of Spark per process."
            raise EngineSetupError(msg, hint="Use a second process, or stop the other session first.")
        self._url = url
        self._settings = settings
        self._server = server
        self._lease = lease
        self._lock = threading.Lock()
        self._sessions: list[SparkSession] = []
        self._threads: dict[SparkSession, ThreadPoolExecutor] = {}
        self._idle: list[tuple[SparkSession, dict[str, str]]] = []

    @property
    def shares_files(self) -> bool:
        """Whether Spark can read files on this machine."""
        return self._server is not None

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a new session on the server for one data plane."""
        del catalog
        return self._create(conf)

    def acquire_session(self, conf: Mapping[str, str]) -> SparkSession:
        """Return a private session with this configuration, an idle one if the server has not closed it."""
        while (session := self._pop_idle(dict(conf))) is not None:
            with contextlib.suppress(PySparkException):
                session.conf.get("spark.sql.session.timeZone")
                return session
            self._close(session)
        # PySpark attaches a checkpointed frame to the thread's active session, which is the first one created in it.
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="floe-spark")
        session = thread.submit(self._create, conf).result()
        self._threads[session] = thread
        return session

    def release_session(self, session: SparkSession, conf: Mapping[str, str]) -> None:
        """Return a private session to the pool; its configuration must be unchanged."""
        with self._lock:
            self._idle.append((session, dict(conf)))

    def run_in(self, session: SparkSession, work: Callable[[], None]) -> None:
        """Run work in a private session, in the thread where that session is active."""
        self._threads[session].submit(work).result()

    def announce(self, operation_id: str, session: SparkSession) -> None:
        """Publish the session of an operation for other processes.

        Raises:
            ConcurrencyConflictError: Another process, which may be dead, has not withdrawn its announcement.
        """
        note = session.sql(f"SELECT {text_literal(_id_of(session))} AS session_id")
        try:
            note.createGlobalTempView(tag_of(operation_id))
        except AnalysisException as err:
            if err.getCondition() != _ANNOUNCED:
                raise
            msg = f"Another process may still be running operation {operation_id} on the Spark Connect server."
            raise ConcurrencyConflictError(msg, hint="Try again.") from err

    def withdraw(self, operation_id: str, session: SparkSession) -> None:
        """Withdraw the announcement of an operation that has ended."""
        session.catalog.dropGlobalTempView(tag_of(operation_id))

    def cancel_and_wait(self, operation_id: str, session: SparkSession | None, *, timeout_seconds: float) -> bool:
        """Cancel an operation started by any process, and wait until it has ended."""
        if self._server is not None and not self._server.alive:
            return True
        session = session or self._find_abandoned_session(operation_id)
        if session is None:
            return True
        # The server reports cancelled operations only once, and long before an active commit has ended.
        cancelled = set(session.interruptTag(tag_of(operation_id)))
        deadline = time.monotonic() + timeout_seconds
        while cancelled and cancelled & _executing(session):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        self.withdraw(operation_id, session)
        return True

    def release(self) -> None:
        """Close this engine's sessions; the server keeps running."""
        while self._sessions:
            self._close(self._sessions[-1])
        if self._lease is not None:
            self._lease.release()

    def _find_abandoned_session(self, operation_id: str) -> SparkSession | None:
        """Return the session in which a dead process may have left the operation running."""
        probe = self._create({})
        try:
            note = probe.table(f"global_temp.{tag_of(operation_id)}").head()
        except AnalysisException:
            note = None
        self._close(probe)
        if note is None:
            return None
        try:
            return self._create({}, session_id=note["session_id"])
        except PySparkException as err:
            # The server has already closed it and cancelled its operations.
            if "SESSION_CLOSED" in str(err):
                return None
            raise

    def _pop_idle(self, conf: dict[str, str]) -> SparkSession | None:
        with self._lock:
            for position, (session, session_conf) in enumerate(self._idle):
                if session_conf == conf:
                    del self._idle[position]
                    return session
        return None

    def _create(self, conf: Mapping[str, str], *, session_id: str | None = None) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        url = _with_parameter(self._url, "session_id", session_id) if session_id else self._url
        builder = SparkSession.builder.remote(url)
        for key, value in (self._settings.session_conf() | dict(conf)).items():
            builder = builder.config(key, value)
        with _unavailable_if_unreachable(self._url), _without_setting_warnings():
            # PySpark's decorators hide the types of these two from type checkers.
            session: SparkSession = builder.create()  # type: ignore[operator, no-any-return, unused-ignore]
            session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])  # type: ignore[operator]
        self._sessions.append(session)
        self._all_sessions.append(session)
        return session

    def _close(self, session: SparkSession) -> None:
        self._sessions.remove(session)
        if (thread := self._threads.pop(session, None)) is not None:
            thread.shutdown(wait=False)
        session.stop()


@contextlib.contextmanager
def _without_setting_warnings() -> Iterator[None]:
    """Suppress the server's warning about a setting that floe turns off in case the user has turned it on."""
    # Warning filters are global to the process, so only one session is created at a time.
    with _creation_lock, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"The SQL config 'spark\.sql\.parser\.escapedStringLiterals'")
        yield


def _id_of(session: SparkSession) -> str:
    # Only Connect sessions have an id, but PySpark types all sessions as classic ones.
    return str(session.session_id)  # type: ignore[attr-defined]


def _executing(session: SparkSession) -> set[str]:
    """Return the ids of the operations that the server executes, from the names of its driver's threads.

    The default value of a variable is evaluated on the driver and read without an executor, so the query returns at
    once even when all cores are busy.
    """
    session.sql(f"DECLARE OR REPLACE VARIABLE floe_threads STRING DEFAULT {_DRIVER_THREADS}")
    rows = session.sql("SELECT * FROM VALUES (floe_threads)").collect()
    return set(_EXECUTION_THREAD.findall(rows[0][0]))


def _with_parameter(url: str, name: str, value: str) -> str:
    separator = ";" if "/;" in url else "/;"
    return f"{url.rstrip('/;')}{separator}{name}={value}"


@contextmanager
def _unavailable_if_unreachable(url: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as err:
        if "UNAVAILABLE" not in str(err) and "RETRIES_EXCEEDED" not in str(err):
            raise
        address = url.partition("/;")[0]
        msg = f"The Spark Connect server at {address} does not respond."
        raise EngineUnavailableError(msg, hint="Check compute.master, or run: floe spark start") from err
