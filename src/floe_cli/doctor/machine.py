"""Machine checks of ``floe doctor``; ``project`` has the project checks."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from floe_cli.failures import describe
from floe_cli.output import count, size
from floe_core.errors import SYSTEM_ERROR, USER_ERROR
from floe_core.runtime.distribution import version as floe_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from floe_core.schemas import ComputeConfig

MIN_PYTHON = (3, 11)
NO_SPACE = 200 * 1024**2
LITTLE_SPACE = 5 * 1024**3
# Object stores reject requests signed 15 minutes off; token validation is stricter.
MAX_SKEW_SECONDS = 60.0
_REQUEST_SECONDS = 5.0


class Status(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result.

    Attributes:
        name: Name of the check.
        status: Its status.
        detail: The finding.
        advice: How to fix it.
        exit_code: Minimum exit code of ``floe doctor``.
    """

    name: str
    status: Status
    detail: str
    advice: str | None = None
    exit_code: int = 0


def ok(name: str, detail: str) -> Check:
    """Return a check that passed."""
    return Check(name, Status.OK, detail)


def warning(name: str, detail: str, advice: str) -> Check:
    """Return a check with a warning."""
    return Check(name, Status.WARNING, detail, advice)


def skipped(name: str, why: str) -> Check:
    """Return a check that was not run."""
    return Check(name, Status.SKIPPED, why)


def failed(name: str, detail: str, advice: str | None, *, exit_code: int = USER_ERROR) -> Check:
    """Return a check that failed."""
    return Check(name, Status.FAILED, detail, advice, exit_code)


def attempt(name: str, look: Callable[[], Check]) -> Check:
    """Run a check, turning any exception into a failed check."""
    try:
        return look()
    except Exception as err:  # noqa: BLE001 - every exception is reported as a failed check
        failure = describe(err)
        detail = "\n".join([failure.message, *(str(problem) for problem in failure.problems)])
        return failed(name, detail, failure.hint, exit_code=failure.exit_code)


def check_python() -> Check:
    """Check the Python version."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < MIN_PYTHON:
        return failed("python", f"Python {found}", f"Install Python {'.'.join(map(str, MIN_PYTHON))} or newer.")
    return ok("python", f"Python {found}, floe {floe_version()}")


def check_pyspark() -> Check:
    """Check that PySpark is installed, without importing it."""
    try:
        return ok("pyspark", f"PySpark {version('pyspark')}")
    except PackageNotFoundError:
        return warning("pyspark", "PySpark is not installed", "To run on Spark: pip install 'floe-lakehouse[spark]'")


def check_java(compute: ComputeConfig) -> Check:
    """Check for a Java installation that Spark can use."""
    if compute.master.startswith("sc://"):
        return skipped("java", f"Spark runs at {compute.master}")
    if check_pyspark().status is not Status.OK:
        return skipped("java", "only needed for Spark")
    from floe_spark.java.runtime import find_java

    java = find_java()
    return ok("java", f"Java {java.version} from {java.source} ({java.home})")


def check_spark_jars(compute: ComputeConfig, project_root: Path, packages: Iterable[str]) -> Check:
    """Check the jars without downloading any."""
    if compute.master.startswith("sc://") or check_pyspark().status is not Status.OK:
        return skipped("jars", "only needed for a Spark session started on this machine")
    from floe_spark.java.jars import check_jars, user_jars_dir

    folder = user_jars_dir(project_root / compute.jars_dir if compute.jars_dir else None)
    jars = check_jars((*compute.packages, *packages), jars_dir=folder)
    if damaged := [str(jar.path) for jar in jars if jar.path and not jar.intact]:
        return failed(
            "jars", f"checksum mismatch: {', '.join(damaged)}", "Delete these files; floe downloads them again."
        )
    missing = [jar.coordinate for jar in jars if jar.path is None]
    if missing and folder:
        return failed("jars", f"missing in {folder}: {', '.join(missing)}", "Add them, or remove jars_dir.")
    if missing:
        return warning("jars", f"not downloaded yet: {', '.join(missing)}", "The first Spark start downloads them.")
    return ok("jars", f"{count(len(jars), 'jar')} verified")


def check_disk(project_root: Path) -> Check:
    """Check the free disk space of the project and of the temporary folder."""
    places = {"project": _existing(project_root), "temporary": Path(tempfile.gettempdir())}
    free = {name: shutil.disk_usage(place).free for name, place in places.items()}
    detail = ", ".join(f"{size(left)} free for {name} files ({places[name]})" for name, left in free.items())
    if min(free.values()) < NO_SPACE:
        return failed("disk", detail, "Free some space, or set TMPDIR to a larger disk.", exit_code=SYSTEM_ERROR)
    if min(free.values()) < LITTLE_SPACE:
        return warning("disk", detail, "Large writes and Spark shuffles may run out of space.")
    return ok("disk", detail)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder.resolve(), *folder.resolve().parents) if place.exists())


def check_clock(project_root: Path, servers: Iterable[str]) -> Check:
    """Compare this machine's clock with the project's file system and the project's servers."""
    offsets = {"file system": _file_system_offset(_existing(project_root))}
    offsets |= {server: _server_offset(server) for server in servers}
    known = {place: offset for place, offset in offsets.items() if offset is not None}
    detail = ", ".join(f"{round(offset):+d} s ({place})" for place, offset in known.items())
    if wrong := [place for place, offset in known.items() if abs(offset) > MAX_SKEW_SECONDS]:
        return failed("clock", detail, f"Synchronize the clocks (NTP) of this machine and {', '.join(wrong)}.")
    return ok("clock", detail or "no reference clock available")


def _file_system_offset(folder: Path) -> float | None:
    if not os.access(folder, os.W_OK):
        return None
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".floe-doctor-") as probe:
        probe.write(b".")
        probe.flush()
        return os.fstat(probe.fileno()).st_mtime - time.time()


def _server_offset(url: str) -> float | None:
    """Return how far a server's clock is ahead, according to the Date header of its response."""
    try:
        with urlopen(Request(url, method="HEAD"), timeout=_REQUEST_SECONDS) as answer:  # noqa: S310 - http(s) only, see caller
            date = answer.headers.get("Date")
    except HTTPError as refusal:
        date = refusal.headers.get("Date")
    except OSError:
        return None
    return parsedate_to_datetime(date).timestamp() - time.time() if date else None
