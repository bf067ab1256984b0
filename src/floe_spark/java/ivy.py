"""Downloads jars with the Ivy in PySpark, using the system's trust store and optional mirror settings."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.errors import EngineSetupError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floe_spark.java.runtime import JavaRuntime

IVY_SETTINGS_VARIABLE = "FLOE_IVY_SETTINGS"


def run_ivy(arguments: Sequence[str | Path], *, java: JavaRuntime, seconds: float) -> str:
    """Run Ivy and return its output; the caller checks whether the files were downloaded.

    Raises:
        MissingDependencyError: PySpark is not installed.
        EngineSetupError: The installed PySpark does not contain Ivy.
    """
    command: list[str | Path] = [java.launcher, "-cp", _ivy_jar(), "org.apache.ivy.Main", "-error", *arguments]
    if settings := os.environ.get(IVY_SETTINGS_VARIABLE):
        command += ["-settings", settings]
    try:
        done = subprocess.run(  # noqa: S603 - a command built by floe
            command, capture_output=True, text=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        return str(err)
    return done.stdout + done.stderr


def spark_home() -> Path:
    """Return the directory of the installed PySpark, without importing it.

    Raises:
        MissingDependencyError: PySpark is not installed.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        what = "The Spark engine"
        raise MissingDependencyError(what, extra="spark")
    return Path(found.origin).parent


def _ivy_jar() -> Path:
    folder = spark_home() / "jars"
    jars = sorted(folder.glob("ivy-*.jar"))
    if not jars:
        msg = f"Ivy not found in {folder}."
        raise EngineSetupError(msg, hint="Install PySpark from PyPI: pip install 'floe-lakehouse[spark]'")
    return jars[-1]
