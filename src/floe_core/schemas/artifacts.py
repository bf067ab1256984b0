"""What ``floe compile`` hands on: one frozen value, written as JSON without any secret."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from pydantic import Field, PrivateAttr, ValidationError

from floe_core.errors import ConfigProblem, ConfigurationError, SchemaVersionError
from floe_core.schemas.base import SCHEMA_VERSION, FrozenModel
from floe_core.schemas.project import ProjectConfig

DEFAULT_ARTIFACTS_PATH = Path(".floe/compiled_artifacts.json")


class EffectiveRetention(FrozenModel):
    """The retention that holds for a table, with its derivation."""

    snapshot_days: int = Field(ge=0, description="Days a snapshot is kept at least.")
    derivation: tuple[str, ...] = Field(default=(), description="Which level asked for what.")


class CompiledArtifacts(ProjectConfig):
    """A validated project, resolved for one environment.

    Text may still hold ``${VAR}`` references, and secrets are always references: values are looked up when a
    plugin connects, so the file can be shared.
    """

    floe_version: str = Field(description="floe that compiled this.")
    environment: str | None = Field(default=None, description="Environment it was compiled for.")
    fingerprint: str = Field(default="", description="Digest of the content; equal inputs give equal digests.")
    plugins: dict[str, str] = Field(default_factory=dict, description="Versions of the plugins it was compiled with.")
    retention: dict[str, EffectiveRetention] = Field(default_factory=dict, description="Effective retention by table.")

    _project_root: Path = PrivateAttr(default_factory=Path.cwd)

    @property
    def project_root(self) -> Path:
        """The folder that relative paths start from."""
        return self._project_root

    def rooted_at(self, folder: Path) -> CompiledArtifacts:
        """Return a copy whose relative paths start from another folder."""
        copy = self.model_copy()
        copy._project_root = folder.resolve()  # noqa: SLF001 - our own copy
        return copy

    @classmethod
    def from_json_file(cls, path: str | Path = DEFAULT_ARTIFACTS_PATH) -> CompiledArtifacts:
        """Load artifacts that ``floe compile`` wrote.

        Raises:
            ConfigurationError: The file is missing, damaged, or does not hold artifacts.
            SchemaVersionError: The file was written by a newer floe, or an older one that cannot be read any more.
        """
        path = Path(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as err:
            msg = f"No compiled artifacts at {path}."
            raise ConfigurationError(msg, hint="Run: floe compile") from err
        except (OSError, ValueError) as err:
            msg = f"{path} is not a JSON file: {err}"
            raise ConfigurationError(msg, hint="Run: floe compile") from err
        version = content.get("schema_version") if isinstance(content, dict) else None
        if version != SCHEMA_VERSION:
            msg = f"{path} has schema version {version!r}; this floe reads version {SCHEMA_VERSION}."
            raise SchemaVersionError(msg, hint="Run floe compile again, or install the floe that wrote it.")
        try:
            artifacts = cls.model_validate(content)
        except ValidationError as err:
            problems = [
                ConfigProblem(file=str(path), path=".".join(map(str, e["loc"])), message=e["msg"])
                for e in err.errors(include_input=False, include_url=False)
            ]
            msg = f"{path} does not hold compiled artifacts."
            raise ConfigurationError(msg, problems=problems, hint="Run: floe compile") from err
        folder = path.resolve().parent
        return artifacts.rooted_at(folder.parent if folder.name == ".floe" else folder)

    def to_json_file(self, path: str | Path = DEFAULT_ARTIFACTS_PATH) -> Path:
        """Write the artifacts so that a reader sees the old file or the new one, never half of it."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(self.model_dump_json(indent=2) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return path
