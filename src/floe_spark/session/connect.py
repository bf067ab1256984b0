"""A Spark Connect server in another process."""

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

# PySpark's own patience with a dead server is ten minutes.
_CREATING = threading.Lock()
_RETRIES = 6
_POLL_SECONDS = 0.2
_ANNOUNCED = "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"
_DRIVER_THREADS = "java_method('java.lang.Thread', 'getAllStackTraces')"
_EXECUTION_THREAD = re.compile(r"SparkConnectExecuteThread_opId=([0-9a-f-]+)")


class ConnectEngine:
    """Sessions on a server.

    The server outlives its clients: what a killed one was running goes on. So each operation leaves the id of its
    session in a global view, where the next process finds it and can cancel what is left.
    """

    # PySpark 4.1 joins its own thread pool when a session is garbage-collected; if the collector happens to run in one
    # of that pool's threads, the process hangs. So sessions are kept for as long as the process lives.
    _kept: ClassVar[list[SparkSession]] = []

    def __init__(
        self, url: str, settings: SparkSettings, *, server: ServerInfo | None = None, lease: Lease | None = None
    ) -> None:
        """Take the server's address; ``server`` tells that it is this project's own, which ``lease`` keeps alive."""
        if running_driver() is not None:
            msg = "This process already runs a Spark driver; PySpark allows one kind of Spark a process."
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
        """Whether Spark sees the files of this machine."""
        return self._server is not None

    def session_for(self, catalog: str, conf: Mapping[str, str]) -> SparkSession:
        """Return a session of the plane's own on the server."""
        del catalog
        return self._create(conf)

    def take(self, conf: Mapping[str, str]) -> SparkSession:
        """Return a private session of this configuration, idle or new; the server ends one that idles for long."""
        while (session := self._pop_idle(dict(conf))) is not None:
            with contextlib.suppress(PySparkException):
                session.conf.get("spark.sql.session.timeZone")
                return session
            self._close(session)
        # PySpark hands a checkpointed frame to the thread's active session, which is the first one made in it.
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="floe-spark")
        session = thread.submit(self._create, conf).result()
        self._threads[session] = thread
        return session

    def give_back(self, session: SparkSession, conf: Mapping[str, str]) -> None:
        """Take a private session back, as it was handed out."""
        with self._lock:
            self._idle.append((session, dict(conf)))

    def work_in(self, session: SparkSession, work: Callable[[], None]) -> None:
        """Do work in a private session, in the thread where it is the active one."""
        self._threads[session].submit(work).result()

    def announce(self, operation_id: str, session: SparkSession) -> None:
        """Let other processes find the session an operation works in.

        Raises:
            ConcurrencyConflictError: A process that may be dead has announced the operation and never withdrew it.
        """
        note = session.sql(f"SELECT {text_literal(_id_of(session))} AS session_id")
        try:
            note.createGlobalTempView(tag_of(operation_id))
        except AnalysisException as err:
            if err.getCondition() != _ANNOUNCED:
                raise
            msg = f"The operation {operation_id} may still run on the Spark Connect server for another process."
            raise ConcurrencyConflictError(msg, hint="Try again.") from err

    def withdraw(self, operation_id: str, session: SparkSession) -> None:
        """Tell that the operation has ended."""
        session.catalog.dropGlobalTempView(tag_of(operation_id))

    def silence(self, operation_id: str, session: SparkSession | None, *, timeout_seconds: float) -> bool:
        """Cancel what runs for an operation, whichever process started it, and wait until it has ended."""
        if self._server is not None and not self._server.alive:
            return True
        session = session or self._left_behind(operation_id)
        if session is None:
            return True
        # The server names what it cancels only once, and long before a commit under way has ended.
        cancelled = set(session.interruptTag(tag_of(operation_id)))
        deadline = time.monotonic() + timeout_seconds
        while cancelled and cancelled & _executing(session):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        self.withdraw(operation_id, session)
        return True

    def release(self) -> None:
        """Release our sessions; the server goes on."""
        while self._sessions:
            self._close(self._sessions[-1])
        if self._lease is not None:
            self._lease.give_back()

    def _left_behind(self, operation_id: str) -> SparkSession | None:
        """Return the session in which a dead process may still run the operation."""
        looking = self._create({})
        try:
            note = looking.table(f"global_temp.{tag_of(operation_id)}").head()
        except AnalysisException:
            note = None
        self._close(looking)
        if note is None:
            return None
        try:
            return self._create({}, session_id=note["session_id"])
        except PySparkException as err:
            # The server has already ended it, with all that ran in it.
            if "SESSION_CLOSED" in str(err):
                return None
            raise

    def _pop_idle(self, conf: dict[str, str]) -> SparkSession | None:
        with self._lock:
            for place, (session, made_with) in enumerate(self._idle):
                if made_with == conf:
                    del self._idle[place]
                    return session
        return None

    def _create(self, conf: Mapping[str, str], *, session_id: str | None = None) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        url = _with_parameter(self._url, "session_id", session_id) if session_id else self._url
        builder = SparkSession.builder.remote(url)
        for key, value in (self._settings.session_conf() | dict(conf)).items():
            builder = builder.config(key, value)
        with _unreachable_is_unavailable(self._url), _quiet_about_old_settings():
            # PySpark's decorators hide from type checkers what these two are.
            session: SparkSession = builder.create()  # type: ignore[operator, no-any-return, unused-ignore]
            session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])  # type: ignore[operator]
        self._sessions.append(session)
        self._kept.append(session)
        return session

    def _close(self, session: SparkSession) -> None:
        self._sessions.remove(session)
        if (thread := self._threads.pop(session, None)) is not None:
            thread.shutdown(wait=False)
        session.stop()


@contextlib.contextmanager
def _quiet_about_old_settings() -> Iterator[None]:
    """Keep the server's remark on a setting to ourselves: we turn it off, in case somebody has turned it on."""
    # What Python ignores is the process's, so that only one session is made at a time.
    with _CREATING, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"The SQL config 'spark\.sql\.parser\.escapedStringLiterals'")
        yield


def _id_of(session: SparkSession) -> str:
    # Only the Connect session has one, and PySpark types them all as the classic one.
    return str(session.session_id)  # type: ignore[attr-defined]


def _executing(session: SparkSession) -> set[str]:
    """Return the ids of what the server executes, by the names of its driver's threads.

    A variable's default is evaluated on the driver, and reading it takes no executor, so that this answers at once
    even when every core is busy.
    """
    session.sql(f"DECLARE OR REPLACE VARIABLE floe_threads STRING DEFAULT {_DRIVER_THREADS}")
    rows = session.sql("SELECT * FROM VALUES (floe_threads)").collect()
    return set(_EXECUTION_THREAD.findall(rows[0][0]))


def _with_parameter(url: str, name: str, value: str) -> str:
    separator = ";" if "/;" in url else "/;"
    return f"{url.rstrip('/;')}{separator}{name}={value}"


@contextmanager
def _unreachable_is_unavailable(url: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as err:
        if "UNAVAILABLE" not in str(err) and "RETRIES_EXCEEDED" not in str(err):
            raise
        address = url.partition("/;")[0]
        msg = f"The Spark Connect server at {address} does not answer."
        raise EngineUnavailableError(msg, hint="Check compute.master, or start a local one: floe spark start") from err
