"""The project a command works on: found, compiled, and opened when the catalog is needed."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floe_core.schemas import CompiledArtifacts
    from floe_core.telemetry import Operation
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.catalog.connection import ProjectConnection

_ARTIFACTS = Path(".floe/compiled_artifacts.json")


def project_file(folder: Path | None) -> Path:
    """Return the floe.yaml of a folder, or of the nearest one above the working directory.

    Raises:
        ConfigurationError: There is none.
    """
    from floe_core.config import find_project_file

    # Relative, so that messages show the file as the user would name it.
    return folder or Path(os.path.relpath(find_project_file(Path.cwd())))


@dataclass(frozen=True)
class Workspace:
    """A project and an environment, as the command line names them.

    Attributes:
        folder: Where floe.yaml is; None looks for it here and above.
        environment: Which environment; None takes the base alone, whatever was compiled last.
        named: Whether the command line itself names the environment, and not a variable.
        spoken: Whether people read the output; for machines the place is part of the document.
        log_level: Least level logged, as the command line says; None leaves it to the project.
    """

    folder: Path | None = None
    environment: str | None = None
    named: bool = False
    spoken: bool = True
    log_level: Literal["DEBUG", "INFO"] | None = None

    @cached_property
    def artifacts(self) -> CompiledArtifacts:
        """The project as it is now.

        floe.yaml is compiled in memory, so that artifacts on disk are never stale; on a machine that has artifacts
        and no floe.yaml, the artifacts are the project.

        Raises:
            ConfigurationError: There is no project, or it has mistakes.
        """
        from floe_core.compile import compile_project
        from floe_core.schemas import CompiledArtifacts

        if deployed := _deployed_artifacts(self.folder):
            return _of_environment(CompiledArtifacts.from_json_file(deployed), self.environment)
        return compile_project(project_file(self.folder), environment=self.environment)

    @property
    def place(self) -> dict[str, str | None] | None:
        """Which environment and catalog the command works on, for machines; None before it has begun to."""
        if "_announced" not in self.__dict__:
            return None
        catalog = self.artifacts.catalog
        return {"environment": self.artifacts.environment, "catalog": f"{catalog.type}:{catalog.name}"}

    def announce(self) -> None:
        """Name environment and catalog, once, before the command works on them."""
        _ = self._announced

    @cached_property
    def _announced(self) -> bool:
        environment, catalog = self.artifacts.environment, self.artifacts.catalog
        if self.spoken:
            name = f"environment '{environment}'" if environment else "the base environment"
            sys.stderr.write(f"On {name}, {catalog.type} catalog '{catalog.name}'.\n")
            sys.stderr.flush()
        return True

    def confirm(self, question: str, *, yes: bool, has_dry_run: bool = True) -> None:
        """Ask before something that cannot be undone; in an environment, for the environment's name.

        Raises:
            ConfigurationError: There is no terminal to ask on, the answer was no, or ``--yes`` comes without an
                ``--env`` in an environment.
        """
        from floe_cli.output import confirm
        from floe_core.errors import ConfigurationError

        self.announce()
        environment = self.artifacts.environment
        if yes and environment and not self.named:
            msg = f"This cannot be undone, and the command line does not name the environment '{environment}'."
            raise ConfigurationError(msg, hint=f"Repeat with --env {environment} --yes.")
        confirm(question, yes=yes, answer=environment, has_dry_run=has_dry_run)

    def confirm_in_environment(self, question: str, *, yes: bool) -> None:
        """Ask as ``confirm`` does, but never in the base environment."""
        if self.artifacts.environment:
            self.confirm(question, yes=yes, has_dry_run=False)

    def observe(self) -> None:
        """Send logs, spans and metrics where the project says; the command line may ask for more of the log."""
        _ = self._observed

    @cached_property
    def _observed(self) -> bool:
        from floe_core.observing.observability import configure_observability
        from floe_core.telemetry import configure_logging

        config = self.artifacts.observability
        if config.log_level or config.log_format:
            configure_logging(config.model_copy(update={"log_level": self._log_level}), stream=sys.stderr)
        configure_observability(config)
        return True

    @property
    def _log_level(self) -> str:
        return self.log_level or self.artifacts.observability.log_level or "ERROR"

    @contextmanager
    def traced(self, name: str) -> Iterator[Operation]:
        """Run a whole command as one trace: everything that happens in a block is a part of it.

        Processes that are started in the block log as the command does.
        """
        from floe_core.observing.observability import (
            LOG_LEVEL_VARIABLE,
            continued,
            flush_observability,
            inherited_parent,
        )
        from floe_core.telemetry import is_tracing, process_span, traced

        self.observe()
        artifacts = self.artifacts
        try:
            with (
                _environ(LOG_LEVEL_VARIABLE, self._log_level),
                continued(inherited_parent()),
                traced(name, within=True, project=artifacts.name, environment=artifacts.environment) as operation,
                process_span(operation.span),
            ):
                yield operation
        finally:
            if is_tracing():
                flush_observability()
            self._report_loss()

    @staticmethod
    def _report_loss() -> None:
        """Say which receivers are away, where the log does not."""
        from floe_core.observing.observability import lost_receivers
        from floe_core.telemetry import get_logger

        if (lost := lost_receivers()) and not get_logger("floe").is_enabled_for(logging.WARNING):
            sys.stderr.write("".join(f"Warning: the receiver of {setting} is away or refuses.\n" for setting in lost))
            sys.stderr.flush()

    @contextmanager
    def connection(self) -> Iterator[ProjectConnection]:
        """Open the project's catalog for the length of a block."""
        from floe_iceberg.catalog.connection import open_project

        self.observe()
        self.announce()
        with open_project(self.artifacts) as connection:
            yield connection

    @contextmanager
    def tables(self) -> Iterator[IcebergTableManager]:
        """Open the project's tables for the length of a block."""
        from floe_iceberg import IcebergTableManager

        self.observe()
        self.announce()
        with IcebergTableManager.from_artifacts(self.artifacts) as manager:
            yield manager


@contextmanager
def _environ(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _deployed_artifacts(folder: Path | None) -> Path | None:
    from floe_core.config.document import PROJECT_FILE_NAMES

    start = (folder or Path.cwd()).resolve()
    for place in [start] if folder else [start, *start.parents]:
        if place.is_file() or any((place / name).exists() for name in PROJECT_FILE_NAMES):
            return None
        if (place / _ARTIFACTS).is_file():
            return place / _ARTIFACTS
    return None


def _of_environment(artifacts: CompiledArtifacts, environment: str | None) -> CompiledArtifacts:
    """Return deployed artifacts, provided they are of the environment that was asked for."""
    from floe_core.errors import ConfigurationError

    if environment is not None and environment != artifacts.environment:
        compiled = artifacts.environment or "no environment"
        msg = f"The artifacts here were compiled for {compiled}, not for {environment}."
        raise ConfigurationError(msg, hint=f"Compile them with: floe compile --env {environment}")
    return artifacts
