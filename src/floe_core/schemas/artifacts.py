"""The result of ``floe compile``: one frozen value, written as JSON without secrets."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, PrivateAttr, ValidationError

from floe_core.errors import ConfigProblem, ConfigurationError, SchemaVersionError
from floe_core.runtime.files import write_atomically
from floe_core.schemas.base import SCHEMA_VERSION, FrozenModel, WholeNumber
from floe_core.schemas.project import ProjectConfig

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DEFAULT_ARTIFACTS_PATH = Path(".floe/compiled_artifacts.json")


class EffectiveRetention(FrozenModel):
    """The effective retention of a table, with its derivation."""

    snapshot_days: WholeNumber = Field(ge=0, description="Minimum number of days to keep a snapshot.")
    derivation: tuple[str, ...] = Field(default=(), description="The requirement of each level.")


class CompiledArtifacts(ProjectConfig):
    """A validated project, resolved for one environment.

    Text may still contain ``${VAR}`` references, and secrets are always references: values are looked up when a
    plugin connects, so the file can be shared.
    """

    floe_version: str = Field(description="Version of floe that compiled this.")
    environment: str | None = Field(default=None, description="Environment it was compiled for.")
    fingerprint: str = Field(default="", description="Digest of the content; equal inputs give equal digests.")
    plugins: dict[str, str] = Field(default_factory=dict, description="Versions of the plugins used.")
    retention: dict[str, EffectiveRetention] = Field(default_factory=dict, description="Effective retention by table.")

    _project_root: Path = PrivateAttr(default_factory=Path.cwd)

    @property
    def project_root(self) -> Path:
        """The base folder of relative paths."""
        return self._project_root

    def rooted_at(self, folder: Path) -> CompiledArtifacts:
        """Return a copy whose relative paths are based on another folder."""
        copy = self.model_copy()
        copy._project_root = folder.resolve()  # noqa: SLF001 - our own copy
        return copy

    @classmethod
    def from_json_file(cls, path: str | Path = DEFAULT_ARTIFACTS_PATH) -> CompiledArtifacts:
        """Load artifacts written by ``floe compile``.

        Raises:
            ConfigurationError: The file is missing or corrupted, or does not contain artifacts.
            SchemaVersionError: The file was written by a newer version of floe, or by one that is no longer supported.
        """
        path = Path(path)
        content = _json_of(path)
        _check_version(content.get("schema_version"), path)
        try:
            artifacts = cls.model_validate(content)
        except ValidationError as err:
            problems = [
                ConfigProblem(file=str(path), path=_dotted(e), message=f"{_dotted(e)}: {e['msg']}")
                for e in err.errors(include_input=False, include_url=False)
            ]
            msg = f"{path} does not contain compiled artifacts."
            raise ConfigurationError(msg, problems=problems, hint="Run: floe compile") from None
        folder = path.resolve().parent
        return artifacts.rooted_at(folder.parent if folder.name == ".floe" else folder)

    def to_json_file(self, path: str | Path = DEFAULT_ARTIFACTS_PATH) -> Path:
        """Write the artifacts so that a reader sees either the old or the new file, never a partial file.

        Raises:
            ConfigurationError: The file cannot be written.
        """
        path = Path(path)
        try:
            write_atomically(path, self.model_dump_json(indent=2) + "\n", durable=True)
        except OSError as err:
            msg = f"Cannot write {path}: {err.strerror or err}."
            raise ConfigurationError(msg, hint="Check the folder, its permissions and the free space.") from err
        return path

    def content_digest(self) -> str:
        """Return the digest of the content; it does not depend on the project's location."""
        content = self.model_dump(mode="json", exclude={"fingerprint"})
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        """Compare the content, ignoring the project's location."""
        if not isinstance(other, CompiledArtifacts):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        """Hash consistently with equality."""
        return hash((self.name, self.environment, self.floe_version, self.fingerprint))


def _json_of(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        msg = f"No compiled artifacts at {path}."
        raise ConfigurationError(msg, hint="Run: floe compile") from None
    except OSError as err:
        msg = f"Cannot read {path}: {err.strerror or err}."
        raise ConfigurationError(msg, hint="Pass the file written by floe compile.") from None
    except (ValueError, RecursionError) as err:
        reason = str(err) if isinstance(err, json.JSONDecodeError) else "the file is corrupted"
        msg = f"{path} is not a JSON file: {reason}."
        raise ConfigurationError(msg, hint="Run: floe compile") from None
    if not isinstance(content, dict):
        msg = f"{path} does not contain compiled artifacts."
        raise ConfigurationError(msg, hint="Run: floe compile")
    return content


def _check_version(version: object, path: Path) -> None:
    if version == SCHEMA_VERSION and not isinstance(version, bool):
        return
    msg = f"{path} has schema version {version!r}; this floe reads version {SCHEMA_VERSION}."
    newer = isinstance(version, int) and version > SCHEMA_VERSION
    raise SchemaVersionError(msg, hint="Upgrade floe, or compile again." if newer else "Run: floe compile")


def _dotted(error: ErrorDetails) -> str:
    return ".".join(map(str, error["loc"]))
