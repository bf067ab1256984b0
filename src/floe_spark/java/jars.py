"""Resolves the jars that Spark needs: pinned, downloaded with Ivy, verified, and cached per user."""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.errors import EngineSetupError
from floe_core.runtime.files import exclusive
from floe_core.runtime.spark_packages import (
    ICEBERG_AWS_BUNDLE,
    ICEBERG_GCP_BUNDLE,
    ICEBERG_RUNTIME,
    POSTGRESQL_JDBC,
    SQLITE_JDBC,
)
from floe_core.telemetry import get_logger
from floe_spark.java.cache import cache_dir
from floe_spark.java.ivy import IVY_SETTINGS_VARIABLE, run_ivy
from floe_spark.java.runtime import find_java

if TYPE_CHECKING:
    from collections.abc import Iterable

    from floe_spark.java.runtime import JavaRuntime

JARS_VARIABLE = "FLOE_JARS_DIR"

BASE_PACKAGES = (ICEBERG_RUNTIME, SQLITE_JDBC, POSTGRESQL_JDBC)

PINNED_SHA256 = {
    ICEBERG_AWS_BUNDLE: "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    ICEBERG_GCP_BUNDLE: "d9248fc76d94d232e153bf760631229cd3b7c6bc3b20f47d4b2caffe011a8a2f",
    ICEBERG_RUNTIME: "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    POSTGRESQL_JDBC: "6e0e4cc2d8cae902084f8a2b18728b073a6fd9d1f87c9d8bff8f298c18185b93",
    SQLITE_JDBC: "bcb1f51e36f940867e83342f9efbf5968ac44a6bef4d397bb4af7b17b45cd2fb",
}

_FETCH_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar identified by its Maven coordinate."""

    group: str
    artifact: str
    version: str

    @classmethod
    def from_coordinate(cls, coordinate: str) -> Jar:
        """Parse ``group:artifact:version``.

        Raises:
            EngineSetupError: The coordinate does not have three parts.
        """
        parts = coordinate.split(":")
        if len(parts) != 3 or not all(parts):  # noqa: PLR2004 - group, artifact, version
            msg = f"'{coordinate}' is not a valid Maven coordinate."
            raise EngineSetupError(msg, hint="Use group:artifact:version in compute.packages.")
        return cls(*parts)

    @property
    def coordinate(self) -> str:
        """``group:artifact:version``."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """File name, by Maven's convention."""
        return f"{self.artifact}-{self.version}.jar"


@dataclass(frozen=True, slots=True)
class ResolvedJars:
    """Jars and packages that Spark is started with.

    Attributes:
        paths: Files for ``spark.jars``.
        packages: Packages without a pin; Spark resolves them and their dependencies with ``spark.jars.packages``.
    """

    paths: tuple[Path, ...]
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JarStatus:
    """Status of a jar, for ``floe doctor``.

    Attributes:
        coordinate: ``group:artifact:version``.
        path: Its location; None if it has not been downloaded.
        intact: Whether its content matches the pinned digest.
    """

    coordinate: str
    path: Path | None
    intact: bool


def jars_cache() -> Path:
    """Return the directory for downloaded jars."""
    return cache_dir() / "jars"


def user_jars_dir(jars_dir: Path | None) -> Path | None:
    """Return the directory with jars provided by the user: the setting, or else ``FLOE_JARS_DIR``."""
    chosen = os.environ.get(JARS_VARIABLE)
    return jars_dir or (Path(chosen) if chosen else None)


def resolve_jars(
    packages: Iterable[str] = (), *, jars_dir: Path | None = None, java: JavaRuntime | None = None
) -> ResolvedJars:
    """Find the base jars and the jars of the packages; download missing ones.

    Args:
        packages: Maven packages in addition to the base packages.
        jars_dir: Directory with the jars; if set, nothing is downloaded.
        java: Java runtime for Ivy, used if something has to be downloaded.

    Raises:
        EngineSetupError: A jar is missing and cannot be downloaded, or does not match its pinned digest.
    """
    folder = user_jars_dir(jars_dir)
    paths, unpinned = [], []
    for coordinate in dict.fromkeys((*BASE_PACKAGES, *packages)):
        jar = Jar.from_coordinate(coordinate)
        if folder is not None:
            paths.append(_from_folder(jar, folder))
        elif coordinate in PINNED_SHA256:
            paths.append(_from_cache(jar, java))
        else:
            unpinned.append(coordinate)
    return ResolvedJars(tuple(paths), tuple(unpinned))


def check_jars(packages: Iterable[str] = (), *, jars_dir: Path | None = None) -> list[JarStatus]:
    """Return the status of the jars without downloading any."""
    folder = user_jars_dir(jars_dir) or jars_cache()
    statuses = []
    for coordinate in dict.fromkeys((*BASE_PACKAGES, *packages)):
        path = folder / Jar.from_coordinate(coordinate).file_name
        expected = PINNED_SHA256.get(coordinate)
        if path.is_file():
            statuses.append(JarStatus(coordinate, path, intact=expected in (None, _digest(path))))
        else:
            statuses.append(JarStatus(coordinate, None, intact=False))
    return statuses


def _from_folder(jar: Jar, folder: Path) -> Path:
    path = folder / jar.file_name
    if not path.is_file():
        msg = f"Jar {jar.file_name} not found in {folder}."
        raise EngineSetupError(msg, hint=f"Copy {jar.coordinate} there, for example from an online machine's cache.")
    _verify(path, jar)
    return path.resolve()


def _from_cache(jar: Jar, java: JavaRuntime | None) -> Path:
    path = jars_cache() / jar.file_name
    if not path.is_file():
        with exclusive(jars_cache() / ".lock"):
            if not path.is_file():
                _fetch(jar, path, java or find_java())
    _verify(path, jar)
    return path.resolve()


def _verify(path: Path, jar: Jar) -> None:
    expected = PINNED_SHA256.get(jar.coordinate)
    if expected is not None and (actual := _digest(path)) != expected:
        msg = f"{path} does not match the pinned {jar.coordinate}: SHA-256 is {actual}, expected {expected}."
        raise EngineSetupError(msg, hint="Delete the file; floe downloads it again.")


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _fetch(jar: Jar, path: Path, java: JavaRuntime) -> None:
    """Download a jar with PySpark's Ivy, whose default settings use the public repository."""
    get_logger("floe.spark").info("spark.jars.fetch", package=jar.coordinate, into=str(path.parent))
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as scratch:
        downloaded = Path(scratch) / jar.file_name
        arguments = ["-m2compatible", "-notransitive", "-confs", "default", "-cache", f"{scratch}/ivy"]
        arguments += ["-dependency", jar.group, jar.artifact, jar.version]
        arguments += ["-retrieve", f"{scratch}/[artifact]-[revision].[ext]"]
        output = run_ivy(arguments, java=java, seconds=_FETCH_SECONDS)
        if not downloaded.is_file():
            get_logger("floe.spark").debug("spark.jars.fetch_failed", package=jar.coordinate, output=output)
            msg = f"Cannot download jar {jar.coordinate}."
            raise EngineSetupError(
                msg,
                hint=(
                    f"Check the network (mirror: {IVY_SETTINGS_VARIABLE}=ivysettings.xml), or put {jar.file_name} "
                    f"in a folder and set compute.jars_dir or {JARS_VARIABLE} to it."
                ),
            )
        _verify(downloaded, jar)
        downloaded.replace(path)
