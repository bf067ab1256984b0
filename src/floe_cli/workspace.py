"""The project of a command: find it, compile it, and open its catalog on demand."""

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
    """Return the given folder, or the nearest floe.yaml in the working directory or its parents.

    Raises:
        ConfigurationError: There is no floe.yaml.
    """
    from floe_core.config import find_project_file

    # Messages show the path relative to the working directory.
    return folder or Path(os.path.relpath(find_project_file(Path.cwd())))


@dataclass(frozen=True)
class Workspace:
    """A project and an environment, as selected on the command line.

    Attributes:
        folder: Folder with floe.yaml; None searches the working directory and its parents.
        environment: Name of the environment; None selects the base environment, regardless of the last compilation.
        named: Whether ``--env`` was passed on the command line, rather than set by an environment variable.
        prints_text: Whether the output is text; JSON output contains environment and catalog instead of a notice.
        log_level: Log level from the command line; None uses the project's.
    """

    folder: Path | None = None
    environment: str | None = None
    named: bool = False
    prints_text: bool = True
    log_level: Literal["DEBUG", "INFO"] | None = None

    @cached_property
    def artifacts(self) -> CompiledArtifacts:
        """The compiled artifacts of the project.

        floe.yaml is always compiled in memory, so stale artifacts on disk are never used. On a machine with artifacts
        but no floe.yaml, the artifacts are loaded.

        Raises:
            ConfigurationError: There is no project, or it is invalid.
        """
        from floe_core.compile import compile_project
        from floe_core.schemas import CompiledArtifacts

        if deployed := _deployed_artifacts(self.folder):
            return _of_environment(CompiledArtifacts.from_json_file(deployed), self.environment)
        return compile_project(project_file(self.folder), environment=self.environment)

    @property
    def place(self) -> dict[str, str | None] | None:
        """Environment and catalog of the command, for JSON output; None before they are announced."""
        if "_announced" not in self.__dict__:
            return None
        catalog = self.artifacts.catalog
        return {"environment": self.artifacts.environment, "catalog": f"{catalog.type}:{catalog.name}"}

    def announce(self) -> None:
        """Print the environment and the catalog, once."""
        _ = self._announced

    @cached_property
    def _announced(self) -> bool:
        environment, catalog = self.artifacts.environment, self.artifacts.catalog
        if self.prints_text:
            name = f"environment '{environment}'" if environment else "the base environment"
            sys.stderr.write(f"Using {name}, {catalog.type} catalog '{catalog.name}'.\n")
            sys.stderr.flush()
        return True

    def confirm(self, question: str, *, yes: bool, has_dry_run: bool = True) -> None:
        """Ask for confirmation of an irreversible action; in an environment, ask for the environment's name.

        Raises:
            ConfigurationError: There is no terminal, the answer was no, or ``--yes`` was passed without ``--env`` in
                an environment.
        """
        from floe_cli.output import confirm
        from floe_core.errors import ConfigurationError

        self.announce()
        environment = self.artifacts.environment
        if yes and environment and not self.named:
            msg = f"This cannot be undone. --yes requires --env in environment '{environment}'."
            raise ConfigurationError(msg, hint=f"Run the command again with --env {environment} --yes.")
        confirm(question, yes=yes, answer=environment, has_dry_run=has_dry_run)

    def confirm_in_environment(self, question: str, *, yes: bool) -> None:
        """Ask for confirmation, except in the base environment."""
        if self.artifacts.environment:
            self.confirm(question, yes=yes, has_dry_run=False)

    def observe(self) -> None:
        """Configure logs, spans and metrics from the project; the command line can override the log level."""
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
        """Run a block as one trace.

        Processes started in the block use the same log level.
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
        """Warn about unreachable telemetry receivers, unless the log already does."""
        from floe_core.observing.observability import lost_receivers
        from floe_core.telemetry import get_logger

        if (lost := lost_receivers()) and not get_logger("floe").is_enabled_for(logging.WARNING):
            sys.stderr.write(
                "".join(f"Warning: the receiver of {setting} is unreachable or rejects the data.\n" for setting in lost)
            )
            sys.stderr.flush()

    @contextmanager
    def connection(self) -> Iterator[ProjectConnection]:
        """Open the project's catalog for the duration of a block."""
        from floe_iceberg.catalog.connection import open_project

        self.observe()
        self.announce()
        with open_project(self.artifacts) as connection:
            yield connection

    @contextmanager
    def tables(self) -> Iterator[IcebergTableManager]:
        """Open the project's tables for the duration of a block."""
        from floe_core.errors import TableNotFoundError
        from floe_iceberg import IcebergTableManager

        self.observe()
        self.announce()
        with IcebergTableManager.from_artifacts(self.artifacts) as manager:
            try:
                yield manager
            except TableNotFoundError as err:
                if err.table in self.artifacts.tables:
                    err.hint = (
                        f"It is declared in floe.yaml. Create it with: floe run, or: floe tables create {err.table}"
                    )
                raise


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
    """Return deployed artifacts if they were compiled for the given environment."""
    from floe_core.errors import ConfigurationError

    if environment is not None and environment != artifacts.environment:
        compiled = artifacts.environment or "no environment"
        msg = f"The compiled artifacts are for {compiled}, not for {environment}."
        raise ConfigurationError(msg, hint=f"Compile them again: floe compile --env {environment}")
    return artifacts
